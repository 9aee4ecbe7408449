"""The browser processes of a worker: started when first needed, watched, replaced when they
degrade, and ended with the worker.

A browser is retired once it has shown enough pages, is too large, makes no contexts, or does not
answer; open pages may end first. One that hangs, or grows on, is killed. Pages and contexts are
those of `scraper.plugins.browser.pool`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import structlog

from scraper.errors import ConfigError, DeferredError
from scraper.plugins.browser import chromium
from scraper.plugins.browser.faults import BrowserLostError
from scraper.plugins.browser.proxy import BrowserProxy, ProxyUser
from scraper.plugins.browser.settings import BrowserSettings
from scraper.settings import Settings

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

    from scraper.plugins.browser.page import BrowserPage

log = structlog.get_logger()

# A browser that does not start is tried again after this time.
RELAUNCH_S = 15.0
# A browser that takes longer for a context and its page is replaced.
CONTEXT_S = 20.0
# A browser that does not answer for this long is lost.
ANSWER_S = 10.0
CLOSE_S = 5.0
WATCH_S = 2.0
# A browser that takes this many times its memory is killed, without waiting for its pages.
KILL_FACTOR = 1.5


@dataclass(eq=False, slots=True)
class RunningBrowser:
    """A running browser. `retired`: it gets no more pages, and ends with its last one."""

    browser: Browser
    session: Any
    user_agent: str
    root: int
    pages: int = 0
    failures: int = 0
    retired: bool = False
    open_pages: set[BrowserPage] = field(default_factory=set)
    idle: OrderedDict[Any, PageContext] = field(default_factory=OrderedDict)


@dataclass(eq=False, slots=True)
class PageContext:
    """A browser's context of one identity or one page. `page` is the page open in it."""

    context: BrowserContext
    proxy_user: ProxyUser
    key: Any
    pages: int = 0
    page: BrowserPage | None = None

    async def route(self, route: Any, request: Any) -> None:
        if self.page is not None:
            await self.page.route(route, request)
        else:
            await route.abort("blockedbyclient")


class BrowserProcesses:
    """The running browsers: one for pages with stealth, and one for others. `pages` is how many
    pages may be open at once."""

    def __init__(self, settings: Settings, proxy: BrowserProxy, pages: int) -> None:
        self.running: set[RunningBrowser] = set()
        self._settings = settings
        self._proxy = proxy
        self._pages = pages
        self._playwright: Playwright | None = None
        self._starting = asyncio.Lock()
        self._not_before = 0.0
        self._current: dict[bool, RunningBrowser] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def get(self, stealth: bool) -> RunningBrowser:
        """Returns a browser that takes pages, started if needed. Raises DeferredError if none
        starts."""
        async with self._starting:
            running = self._current.get(stealth)
            if running is not None and not running.retired and running.browser.is_connected():
                return running
            now = asyncio.get_running_loop().time()
            if now < self._not_before:
                raise DeferredError(self._not_before - now)
            try:
                running = await asyncio.wait_for(
                    self._start_browser(stealth), chromium.LAUNCH_S + CONTEXT_S
                )
            except Exception as error:
                # The worker checked Chromium at its start, so the pages are not to blame.
                self._not_before = now + RELAUNCH_S
                text = (
                    str(error)
                    if isinstance(error, ConfigError)
                    else chromium.explain_failure(error)
                )
                log.error("no browser starts; pages go back untried", error=text)
                if not any(running.browser.is_connected() for running in self.running):
                    # Playwright's driver may be broken.
                    await self._stop_playwright()
                raise DeferredError(RELAUNCH_S) from error
            self._current[stealth] = running
            return running

    async def aclose(self) -> None:
        """Ends every browser. The next page starts a new one."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self._current.clear()
        await asyncio.gather(
            *self._ending,
            *(self._end_browser(running) for running in list(self.running)),
            return_exceptions=True,
        )
        await self._stop_playwright()

    async def _start_browser(self, stealth: bool) -> RunningBrowser:
        chromium.require_extra()
        from playwright.async_api import async_playwright

        began, address = monotonic(), await self._proxy.start()
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        browser = await chromium.launch_browser(
            self._playwright, self._settings, address, stealth=stealth
        )
        try:
            running = await _read_browser(browser)
        except BaseException:
            self.run_later(_close_unread(browser))
            raise
        self.running.add(running)
        browser.on("disconnected", lambda _: self._handle_exit(running))
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch_browsers())
        log.info(
            "browser started",
            version=browser.version,
            pages=self._pages,
            seconds=round(monotonic() - began, 2),
        )
        return running

    async def _stop_playwright(self) -> None:
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            with suppress(Exception):
                await asyncio.wait_for(playwright.stop(), CLOSE_S)

    def _handle_exit(self, running: RunningBrowser) -> None:
        """Cleans up after a browser that was ended or died."""
        if not running.retired:
            log.warning("browser died", pages=running.pages, open=len(running.open_pages))
        running.retired = True
        for page in list(running.open_pages):
            page.fail(BrowserLostError("the browser died"))
        self.running.discard(running)
        for context in running.idle.values():
            self._proxy.dismiss(context.proxy_user)

    def retire(self, running: RunningBrowser, why: str) -> None:
        """Gives a browser no more pages, and ends it with its last one."""
        if not running.retired:
            running.retired = True
            log.info("browser retired", why=why, pages=running.pages, open=len(running.open_pages))
            self.end_if_empty(running)

    def end_if_empty(self, running: RunningBrowser) -> None:
        """Ends a retired browser with its last page."""
        if running.retired and not running.open_pages and running in self.running:
            self.run_later(self._end_browser(running))

    async def _end_browser(self, running: RunningBrowser) -> None:
        running.retired = True
        self.running.discard(running)
        try:
            await asyncio.wait_for(running.browser.close(), CLOSE_S)
        except Exception:  # noqa: BLE001 - it hangs or has exited
            kill_browser(running)

    def run_later(self, work: Any) -> asyncio.Task[None]:
        """Runs work in the background that `aclose` waits for."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _watch_browsers(self) -> None:
        """Checks in a loop whether browsers answer, and how large they are."""
        while True:
            await asyncio.sleep(WATCH_S)
            for running in list(self.running):
                await self._check_browser(running)

    async def _check_browser(self, running: RunningBrowser) -> None:
        try:
            processes = await asyncio.wait_for(chromium.list_processes(running.session), ANSWER_S)
        except Exception:  # noqa: BLE001 - any error counts as no answer
            if running in self.running:
                log.warning(
                    "browser does not answer; killed",
                    pages=running.pages,
                    open=len(running.open_pages),
                )
                kill_browser(running)
            return
        size_mb = await asyncio.to_thread(chromium.measure_mb, [pid for _, pid in processes])
        limit_mb = self._settings.of(BrowserSettings).browser_memory_max_mb
        if size_mb > limit_mb:
            self.retire(running, f"its processes have {size_mb:.0f} MB")
        if size_mb > KILL_FACTOR * limit_mb and running.open_pages:
            log.warning(
                "browser far too large; killed", mb=round(size_mb), open=len(running.open_pages)
            )
            kill_browser(running)


async def _read_browser(browser: Browser) -> RunningBrowser:
    session = await browser.new_browser_cdp_session()
    processes = await chromium.list_processes(session)
    version = await session.send("Browser.getVersion")
    return RunningBrowser(
        browser,
        session,
        user_agent=str(version["userAgent"]).replace("Headless", ""),
        root=next(pid for kind, pid in processes if kind == "browser"),
    )


async def _close_unread(browser: Browser) -> None:
    """Closes a browser whose start was given up."""
    with suppress(Exception):
        await asyncio.wait_for(browser.close(), CLOSE_S)


def kill_browser(running: RunningBrowser) -> None:
    """Kills the browser's first process; the others end with it."""
    if running.browser.is_connected():
        with suppress(ProcessLookupError):
            os.kill(running.root, signal.SIGKILL)
