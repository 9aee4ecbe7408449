"""A browser that shows pages before they are read, as the worker and the author's tools use it.

A plug-in brings it: `BrowserFactory` is a service, and `WorkerPart.browser` a worker's own browser.
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
    """What a browser asks for before it sends a request to a host. `paid`: the caller has the
    permit of the first navigation."""

    before_hop: BeforeHop | None = None
    before_sub: BeforeSub | None = None
    paid: bool = True


class PageBrowser(Protocol):
    """Shows pages, `pages` at once. `rendering` is what `BrowserFactory.rendering` returns."""

    @property
    def pages(self) -> int: ...

    def slot(self, latest: float, page_id: int | None = None) -> AbstractAsyncContextManager[None]:
        """One of the pages at once, before `latest` (loop time). Raises `DeferredError`."""
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
        """The page as it is shown. Raises `FetchError` and `DeferredError`."""
        ...

    def page(
        self,
        policy: FetchPolicy,
        rendering: Any,
        *,
        permits: BrowserPermits,
        route: ProxyRoute | None = None,
    ) -> AbstractAsyncContextManager[Any]:
        """An open page of Playwright's, for code that drives it."""
        ...

    def navigation_fault(
        self, error: Exception, url: str, policy: FetchPolicy
    ) -> FetchError | None:
        """The fault behind an error of `page`; None: the error is not the network's."""
        ...

    async def aclose(self) -> None: ...


class BrowserFactory(Protocol):
    """What a plug-in offers where browsers can be started."""

    def require(self, settings: Settings) -> None:
        """Raises `ConfigError` that says what to install."""
        ...

    def open(self, settings: Settings, pages: int | None = None) -> PageBrowser: ...

    def pages_here(self, settings: Settings) -> int:
        """How many pages this machine shows at once."""
        ...

    def rendering_of(self, site: Site) -> Any:
        """What the site's definition says of how its pages are shown."""
        ...

    def rendering(self, keys: Mapping[str, Any]) -> Any:
        """The rendering that such keys of a definition describe."""
        ...


def rendering_of(site: Site) -> Any:
    """What a site's definition says of how a browser shows its pages; None: nothing."""
    factory = find_service(BrowserFactory)  # type: ignore[type-abstract]
    return factory.rendering_of(site) if factory is not None else None
