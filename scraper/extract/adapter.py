"""Adapters read a shop's products from its platform's interface instead of its pages. Plug-ins
provide adapters (`scraper.plugin.Hooks.adapter`). Pure."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from scraper.domain import Fetched


class NextPage(NamedTuple):
    """A further page of the interface, by its path and query."""

    path: str


class Adapter:
    """`name`: of the platform; `first`: path and query of the interface's first page; `paths`: the
    paths of all its pages; `signs`: texts in a shop's HTML that hint at the platform, in any case.
    """

    name: str
    first: str
    paths: tuple[str, ...]
    signs: tuple[bytes, ...]

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | NextPage]:
        """Yields the rows of a page, each with its `id`, and the next pages. `asked`: the requested
        URL. Raises ValueError, KeyError, TypeError … if the page differs from its documentation."""
        raise NotImplementedError

    def without(self, asked: str) -> NextPage | None:
        """Returns the page after one that could not be read, if its address is known."""
        return None

    def reads(self, url: str) -> bool:
        """Returns whether the URL is a page of the interface."""
        return urlsplit(url).path in self.paths


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def read_stated_total(headers: Mapping[str, str]) -> int | None:
    """Returns the number of products that the headers of an interface's response state."""
    stated = headers.get("x-wp-total", "")
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 9 else None


class PlatformAdapters(Protocol):
    """A plug-in's service: the adapters of shop platforms, by name."""

    def items(self) -> ItemsView[str, Adapter]: ...
