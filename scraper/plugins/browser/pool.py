"""The pages that a worker process opens in its browsers (`scraper.plugins.browser.processes`).

    permits = BrowserPermits(before_hop, before_sub, paid=False)
    async with browsers.slot(latest):  # one of the pages that may be open at once
        async with browsers.page(policy, rendering, route=route, permits=permits) as page:
            await page.goto(url)                                        # a ready Playwright page

`page` is for code that drives a page itself, within a site's limits, guard, proxies and budgets;
`fetch` returns what an HTTP fetch returns. A context has one page at a time. An identity's contexts
serve up to `browser_context_pages` pages in sequence, and its jar carries cookies from context to
context. Without an identity, each page is a new visitor.

A browser is replaced once it has shown `browser_restart_pages` pages, its processes are larger than
`browser_memory_max_mb`, it makes no contexts, or it does not answer. Open pages may end first. If a
browser dies or hangs, its pages are lost and go back uncharged. A page that repeatedly loses its
renderer or browser is the likely cause: it is retried as the only page, and then charged
(`_lost_page_error`). Each process counts this for itself.

Imports Playwright for the first page. Refuses to choose proxies, to wait for a host's permit, and
to retry.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp.abc import AbstractResolver

from scraper.domain import Fetched, Outcome
from scraper.errors import DeferredError, FetchError
from scraper.http.account_session import AccountSession
from scraper.http.cookies import CookieJar, Jars
from scraper.http.page_browser import BrowserPermits
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.plugins.browser import chromium
from scraper.plugins.browser.faults import BrowserLostError, navigation_fault
from scraper.plugins.browser.keys import PLAIN, Rendering
from scraper.plugins.browser.processes import (
    CLOSE_S,
    CONTEXT_S,
    BrowserProcesses,
    PageContext,
    RunningBrowser,
    kill_browser,
)
from scraper.plugins.browser.proxy import BrowserProxy
from scraper.plugins.browser.settings import BrowserSettings
from scraper.rules import browsers as profiles
from scraper.settings import Settings
from scraper.sites import functions

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from scraper.plugins.browser.page import BrowserPage

log = structlog.get_logger()

LOST_MAX = 10_000
# A page that was lost with its browser this often is opened alone.
LOST_SUSPECT = 2
# A page that was lost this often is charged with an attempt.
LOST_CHARGED = 3


class Browsers:
    """The browsers of a process, on its event loop. `pages`: how many pages may be open at once."""

    def __init__(
        self,
        settings: Settings,
        *,
        pages: int | None = None,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._settings = settings
        self.pages = pages or chromium.pages_here(settings)
        self._slots = asyncio.Semaphore(self.pages)
        self._line = asyncio.Lock()
        self._proxy = BrowserProxy(resolver=resolver)
        self._jars = Jars()
        self._processes = BrowserProcesses(settings, self._proxy, self.pages)
        self._lost_pages: OrderedDict[int, int] = OrderedDict()

    @asynccontextmanager
    async def slot(self, latest: float, page_id: int | None = None) -> AsyncIterator[None]:
        """Holds one of the `pages` slots; all of them for a page with which several browsers were
        lost. Raises DeferredError if they are not free before `latest` (loop time)."""
        slots = self.pages if self._lost_pages.get(page_id or 0, 0) >= LOST_SUSPECT else 1
        taken = 0
        try:
            try:
                async with asyncio.timeout_at(latest), self._line:
                    while taken < slots:
                        await self._slots.acquire()
                        taken += 1
            except TimeoutError:
                raise DeferredError(0.0) from None
            yield
        finally:
            for _ in range(taken):
                self._slots.release()

    async def fetch(
        self,
        url: str,
        policy: FetchPolicy,
        rendering: Rendering | None = None,
        *,
        permits: BrowserPermits | None = None,
        route: ProxyRoute | None = None,
        page_id: int = 0,
        visitor: AccountSession | None = None,
    ) -> Fetched:
        """Fetches the page as a browser shows it. Call it within a `slot`. `visitor`: the account
        whose cookies and headers it has. Raises FetchError, DeferredError, and what `permits`
        raise."""
        try:
            async with self._open_page(policy, rendering or PLAIN, permits, route, visitor) as page:
                fetched = await page.fetch(url)
        except BrowserLostError as lost:
            raise self._lost_page_error(page_id, url, lost) from None
        except _playwright_error() as error:
            raise FetchError(
                Outcome.CRASHED, f"the browser: {chromium.explain_failure(error)}", url=url
            ) from error
        self._lost_pages.pop(page_id, None)
        return fetched

    @asynccontextmanager
    async def page(
        self,
        policy: FetchPolicy,
        rendering: Rendering | None = None,
        *,
        permits: BrowserPermits | None = None,
        route: ProxyRoute | None = None,
    ) -> AsyncIterator[Page]:
        """Opens a page within the policy's limits for the block. Raises at the block's end what
        ended the page early: FetchError, DeferredError. The caller sets the total deadline."""
        try:
            async with self._open_page(policy, rendering or PLAIN, permits, route) as page:
                try:
                    yield page.tab
                except _playwright_error():
                    if page.error is None:
                        raise
                if page.error is not None:
                    raise page.error
        except BrowserLostError as lost:
            raise DeferredError(0.0) from lost

    def navigation_fault(
        self, error: Exception, url: str, policy: FetchPolicy
    ) -> FetchError | None:
        """Returns the fault behind an error of `page`; None if it is not the network's."""
        if "net::ERR_" not in str(error):
            return None
        return navigation_fault(error, {}, url, policy, None)  # type: ignore[arg-type]

    async def aclose(self) -> None:
        """Ends every browser. The next page starts a new one."""
        await self._processes.aclose()
        await self._proxy.aclose()

    @asynccontextmanager
    async def _open_page(
        self,
        policy: FetchPolicy,
        rendering: Rendering,
        permits: BrowserPermits | None,
        route: ProxyRoute | None,
        visitor: AccountSession | None = None,
    ) -> AsyncIterator[BrowserPage]:
        if route is None and policy.proxied:
            raise RuntimeError("a page of a site with proxies has no proxy")
        running = await self._processes.get(rendering.stealth)
        from scraper.plugins.browser.page import BrowserPage

        jar = visitor.jar if visitor else route.jar if route else self._jars.get(policy.cookies)
        page = BrowserPage(
            policy,
            rendering,
            permits or BrowserPermits(),
            route=route,
            visitor=visitor,
            kill_browser=partial(kill_browser, running),
        )
        running.open_pages.add(page)
        context = None
        try:
            context = await self._open_in_context(running, page, jar)
            yield page
        finally:
            await asyncio.shield(
                self._processes.run_later(self._leave_page(running, context, page, jar))
            )

    async def _open_in_context(
        self, running: RunningBrowser, page: BrowserPage, jar: CookieJar | None
    ) -> PageContext:
        """Opens the page in a context. Raises `BrowserLostError` if the browser makes no page."""
        context = None
        try:
            async with asyncio.timeout(CONTEXT_S):
                context = await self._take_context(running, page, jar)
                if jar is not None and (cookies := jar.browser_cookies()):
                    await context.context.add_cookies(cookies)  # type: ignore[arg-type]
                context.page, context.proxy_user.grant = page, page.grant()
                await page.open(
                    await context.context.new_page(), _region_languages(page.policy, page.rendering)
                )
            running.failures = 0
            return context
        except BaseException as error:
            if context is not None:
                self._proxy.dismiss(context.proxy_user)
                self._processes.run_later(_ignore_errors(context.context.close()))
            if not isinstance(error, TimeoutError | _playwright_error()):
                raise
            running.failures += 1
            if isinstance(error, TimeoutError) or running.failures > 1:
                self._processes.retire(running, "it makes no pages")
                kill_browser(running)
            raise BrowserLostError(
                f"no page could be opened: {chromium.explain_failure(error)}"
            ) from error

    async def _take_context(
        self, running: RunningBrowser, page: BrowserPage, jar: CookieJar | None
    ) -> PageContext:
        """Takes a context that the identity has used before, or makes one."""
        options = _context_options(running, page.policy, page.rendering)
        key = None
        if jar is not None:
            key = jar, page.proxy_id, page.rendering.setup, repr(sorted(options.items()))
        if key is not None and (kept := running.idle.pop(key, None)) is not None:
            return kept
        proxy_user = self._proxy.admit()
        try:
            browser_context = await running.browser.new_context(
                **options,
                proxy={
                    "server": await self._proxy.start(),
                    "username": proxy_user.user,
                    "password": proxy_user.password,
                },
            )
            context = PageContext(browser_context, proxy_user, key)
            await browser_context.route(
                "**/*", lambda route, request: context.route(route, request)
            )
        except BaseException:
            self._proxy.dismiss(proxy_user)
            raise
        if page.rendering.setup is not None:
            try:
                await _set_up(
                    browser_context, page.rendering.setup, self._settings.site_function_modules
                )
            except BaseException:
                self._proxy.dismiss(proxy_user)
                self._processes.run_later(_ignore_errors(browser_context.close()))
                raise
        return context

    async def _leave_page(
        self,
        running: RunningBrowser,
        context: PageContext | None,
        page: BrowserPage,
        jar: CookieJar | None,
    ) -> None:
        """Closes the page, and its context unless another page may use it."""
        await page.end()
        if context is not None:
            context.proxy_user.release()
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._close_page(running, context, page, jar)
            except Exception:  # noqa: BLE001 - the browser ended or hangs: its watcher ends it
                self._proxy.dismiss(context.proxy_user)
                self._processes.retire(running, "it closes no pages")
        running.open_pages.discard(page)
        running.pages += 1
        if running.pages >= self._settings.of(BrowserSettings).browser_restart_pages:
            self._processes.retire(running, "it has shown enough pages")
        self._processes.end_if_empty(running)

    async def _close_page(
        self,
        running: RunningBrowser,
        context: PageContext,
        page: BrowserPage,
        jar: CookieJar | None,
    ) -> None:
        if jar is not None and page.error is None:
            for cookie in await context.context.cookies():
                if page.owns_cookie(cookie["domain"]):
                    jar.store_browser_cookie(cookie["domain"], cookie)
        context.page, context.pages = None, context.pages + 1
        again = (
            context.key is not None
            and page.error is None
            # Windows that the page has opened would run on during the next page.
            and len(context.context.pages) == 1
            and context.pages < self._settings.of(BrowserSettings).browser_context_pages
        )
        if again:
            await page.tab.close()
        # Another page of the identity may have ended during the wait.
        if not again or running.retired or context.key in running.idle:
            self._proxy.dismiss(context.proxy_user)
            await context.context.close()
            return
        running.idle[context.key] = context
        if len(running.idle) > self.pages:
            _, oldest = running.idle.popitem(last=False)
            self._proxy.dismiss(oldest.proxy_user)
            await oldest.context.close()

    def _lost_page_error(self, page_id: int, url: str, lost: BrowserLostError) -> Exception:
        """Returns the error of a page that was open when its browser was lost."""
        count = self._lost_pages.pop(page_id, 0) + 1
        log.warning("page lost with its browser", page=page_id, url=url, why=str(lost), times=count)
        self._lost_pages[page_id] = min(count, LOST_SUSPECT)
        if len(self._lost_pages) > LOST_MAX:
            self._lost_pages.popitem(last=False)
        if count >= LOST_CHARGED:
            text = f"{lost}: {count} times, the last time with no other page open"
            return FetchError(Outcome.CRASHED, text, url=url)
        return DeferredError(float(count))


async def _set_up(context: BrowserContext, name: str, allowed: Collection[str]) -> None:
    """Calls the site's setup function with a new context."""
    try:
        await functions.resolve_function(name, allowed)(context)
    except Exception as error:
        if context.browser is not None and not context.browser.is_connected():
            # The browser is at fault, not the function.
            raise
        reason = f"browser.setup: {type(error).__name__}: {str(error)[:300]}"
        raise FetchError(Outcome.FUNCTION_FAILED, reason) from error


def _context_options(
    running: RunningBrowser, policy: FetchPolicy, rendering: Rendering
) -> dict[str, Any]:
    """Returns a context's options: it presents itself as the site wishes, or as the browser that
    it is."""
    width, height = rendering.size
    languages = _region_languages(policy, rendering)
    wanted = languages or dict(policy.base_headers)["Accept-Language"]
    return {
        "user_agent": running.user_agent if languages else policy.user_agent,
        "locale": wanted.partition(",")[0].partition(";")[0],
        "extra_http_headers": {"Accept-Language": wanted},
        "viewport": {"width": width, "height": height},
        "service_workers": "block",
        "accept_downloads": False,
    }


def _region_languages(policy: FetchPolicy, rendering: Rendering) -> str | None:
    """Returns the region's languages if the browser presents itself as a browser, else None."""
    is_browser = (
        rendering.stealth
        or (policy.handshake is not None and policy.handshake.is_browser)
        or policy.user_agent == profiles.BROWSER
    )
    return profiles.accept_language(policy.region) if is_browser else None


async def _ignore_errors(work: Awaitable[None]) -> None:
    with suppress(Exception):
        await work


def _playwright_error() -> type[Exception]:
    """Returns Playwright's error class if Playwright is installed."""
    try:
        from playwright.async_api import Error
    except ImportError:
        return _NeverError
    return Error


class _NeverError(Exception):
    pass
