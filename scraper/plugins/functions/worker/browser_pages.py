"""Lends a blank browser page to a user's function, with the same limits as a crawl's pages.

Each navigation waits for robots.txt and a permit of its host, and each request of the page for a
slot of its host; the browser applies guard, sizes and proxies. Waiting for a free page and for
permits counts against no deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from scraper.domain import Outcome
from scraper.errors import FetchError, NoProxyError
from scraper.http.page_browser import BrowserPermits, PageBrowser
from scraper.http.proxy_route import ProxyRoute
from scraper.plugins.functions.worker.transport import PATIENCE_S, CallInput, PoliteTransport
from scraper.politeness.page_permits import PagePermits
from scraper.proxies.pool import ProxyPool
from scraper.rules.urls import host_of

if TYPE_CHECKING:
    from playwright.async_api import Page


class CallPages:
    """The pages of a worker process, on its event loop."""

    def __init__(self, browser: PageBrowser, polite: PoliteTransport, proxies: ProxyPool) -> None:
        self._browser, self._polite, self._proxies = browser, polite, proxies

    @property
    def at_once(self) -> int:
        return self._browser.pages

    @asynccontextmanager
    async def lend_page(self, by: CallInput, value: object) -> AsyncIterator[Page]:
        """Lends a page. If the input `value` is a URL, the proxy is one for its host. Raises
        FetchError, DeferredError."""
        permits, limiters = PagePermits(), self._polite.limiters

        async def before_hop(url: str) -> None:
            limiter = limiters.for_host(host_of(url))
            limiter.pending += 1
            try:
                await self._polite.heed_robots(url, limiter, by, route)
                await self._polite.when_permitted(
                    limiter,
                    by,
                    lambda deadline_at: permits.acquire(limiter, deadline_at, by.urgency),
                )
            finally:
                limiter.pending -= 1

        async def before_sub(url: str) -> None:
            limiter = limiters.for_host(host_of(url))
            await self._polite.when_permitted(
                limiter, by, lambda deadline_at: limiter.take_slot(deadline_at, by.urgency)
            )

        async with AsyncExitStack() as stack:
            with by.clock.pause():
                route = await self._choose_route(by, value)
                await stack.enter_async_context(
                    self._browser.slot(asyncio.get_running_loop().time() + PATIENCE_S)
                )
            stack.callback(permits.release)
            browser_permits = BrowserPermits(before_hop, before_sub, paid=False)
            opened = self._browser.page(
                by.context.policy, by.context.rendering, permits=browser_permits, route=route
            )
            page = await stack.enter_async_context(opened)
            # Playwright's timeout would include waits for permits; the input has its own.
            page.set_default_navigation_timeout(0)
            try:
                yield page
            except Exception as error:
                fault = self._browser.navigation_fault(error, page.url, by.context.policy)
                if fault is None:
                    raise
                # The cause says what to blame; the function's error stays.
                raise error from fault

    async def _choose_route(self, by: CallInput, value: object) -> ProxyRoute | None:
        if by.context.need is None:
            return None
        try:
            return await self._proxies.lend(
                by.context.need, host_of(value) if isinstance(value, str) else ""
            )
        except NoProxyError as none:
            raise FetchError(Outcome.NO_PROXY, none.reason) from None
