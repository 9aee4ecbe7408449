"""The interface of a browser that renders pages, as the worker and the author's tools use it.

A plug-in adds it: `BrowserFactory` is a service, and `WorkerPart.browser` is a worker's browser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from scraper.domain import Fetched
from scraper.errors import FetchError
from scraper.http.account_session import AccountSession
from scraper.http.fetcher import BeforeHop
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.registry import find_service
from scraper.settings import Settings
from scraper.sites.definition import Site

BeforeSub = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class BrowserPermits:
    """The permits that a browser's requests need. `paid`: the caller already has the permit of the
    first navigation."""

    before_hop: BeforeHop | None = None
    before_sub: BeforeSub | None = None
    paid: bool = True


class PageBrowser(Protocol):
    """Shows pages, `pages` at once. `rendering` is what `BrowserFactory.rendering` returns."""

    @property
    def pages(self) -> int: ...

    def slot(self, latest: float, page_id: int | None = None) -> AbstractAsyncContextManager[None]:
        """Holds one of the `pages` slots. Raises `DeferredError` if none is free before `latest`
        (loop time)."""
        ...

    async def fetch(
        self,
        url: str,
        policy: FetchPolicy,
        rendering: Any,
        *,
        permits: BrowserPermits,
        route: ProxyRoute | None = None,
        page_id: int = 0,
        visitor: AccountSession | None = None,
    ) -> Fetched:
        """Fetches the page as the browser shows it. Raises `FetchError` and `DeferredError`."""
        ...

    def page(
        self,
        policy: FetchPolicy,
        rendering: Any,
        *,
        permits: BrowserPermits,
        route: ProxyRoute | None = None,
    ) -> AbstractAsyncContextManager[Any]:
        """Opens a page of Playwright for code that drives it."""
        ...

    def navigation_fault(
        self, error: Exception, url: str, policy: FetchPolicy
    ) -> FetchError | None:
        """Returns the fault behind an error of `page`; None if it is not the network's."""
        ...

    async def aclose(self) -> None: ...


class BrowserFactory(Protocol):
    """A plug-in's service that starts browsers."""

    def require(self, settings: Settings) -> None:
        """Raises `ConfigError`, naming what to install, if a browser cannot start."""
        ...

    def open(self, settings: Settings, pages: int | None = None) -> PageBrowser: ...

    def pages_here(self, settings: Settings) -> int:
        """Returns how many pages this machine renders at once."""
        ...

    def rendering_of(self, site: Site) -> Any:
        """Returns how the site's definition renders pages."""
        ...

    def rendering(self, keys: Mapping[str, Any]) -> Any:
        """Parses a definition's keys of rendering."""
        ...


def rendering_of(site: Site) -> Any:
    """Returns how a site's definition renders pages; None if it does not."""
    factory = find_service(BrowserFactory)  # type: ignore[type-abstract]
    return factory.rendering_of(site) if factory is not None else None
