"""An adapter: what reads the products of a shop from an interface of its own instead of its pages.
Plug-ins bring adapters (`scraper.plugin.Hooks.adapter`). Pure."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from scraper.domain import Fetched


class Next(NamedTuple):
    """A further page of the interface, by its path and query."""

    path: str


class Adapter:
    """`name` is the platform's, `first` the path and query of the interface's first page, `paths`
    are those of all its pages, `signs` texts of a shop's HTML, in any case, that hint at the
    platform."""

    name: str
    first: str
    paths: tuple[str, ...]
    signs: tuple[bytes, ...]

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | Next]:
        """The rows of a page, each with its `id`, and the pages behind it. `asked` is the URL that
        was asked for. Raises ValueError (KeyError, TypeError …) where it is not as documented."""
        raise NotImplementedError

    def without(self, asked: str) -> Next | None:
        """Where the interface goes on without that page, if it can."""
        return None

    def reads(self, url: str) -> bool:
        """Whether the URL is a page of the interface."""
        return urlsplit(url).path in self.paths


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class PlatformAdapters(Protocol):
    """The adapters of shop platforms, by name: a service that a plug-in offers."""

    def items(self) -> ItemsView[str, Adapter]: ...
