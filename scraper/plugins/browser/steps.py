"""The steps before a page is read: waiting, clicking "load more", scrolling, the definition's
script.

Time is the page's own (`PageClock`), which stops while its requests wait for their host.
When time runs out, the page is read as it is.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from playwright.async_api import Error

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.transport.faults import printable
from scraper.plugins.browser.keys import WAIT_FOR_IDLE, WAIT_FOR_LOAD, Click

if TYPE_CHECKING:
    from scraper.plugins.browser.page import BrowserPage

# A page without requests for this long is loaded.
QUIET_S = 0.5
# After a click or scroll, a shorter quiet is enough.
SETTLED_S = 0.2
# A challenge may admit the browser within this time.
REFUSAL_WAIT_S = 5.0
# A button that cannot be clicked within this time gets a click event instead.
CLICK_S = 2.0
# A scrolled page has this long to grow.
GROWS_S = 2.0
# After this many scrolls without growth, the page is at its end.
STILL_ROUNDS = 2
_SIZE = """[document.getElementsByTagName('*').length,
  (document.scrollingElement || document.body || {}).scrollHeight || 0].join()"""
_SCROLL = "window.scrollTo(0, (document.scrollingElement || document.body).scrollHeight)"


async def prepare_page(page: BrowserPage) -> None:
    """Runs the steps in this order. Raises FetchError(FUNCTION_FAILED) if the script fails."""
    rendering = page.rendering
    # A partial document is useless, so only the page's deadline ends this wait.
    await page.wait_until(lambda: _is_parsed(page), math.inf)
    if page.main is not None and page.main.status >= 400:
        await page.wait_until_idle(QUIET_S, min(rendering.wait_s, REFUSAL_WAIT_S))
        if page.main.status >= 400:
            return
    await _wait_for_arrival(page)
    if rendering.click is not None:
        await _click_repeatedly(page, rendering.click)
    if rendering.scroll:
        await _scroll_down(page, rendering.scroll)
    if rendering.script is not None:
        await _run_script(page, rendering.script)


async def _wait_for_arrival(page: BrowserPage) -> None:
    wanted, wait_s = page.rendering.wait_for, page.rendering.wait_s
    if wanted in (WAIT_FOR_IDLE, WAIT_FOR_LOAD):
        if await page.wait_until(lambda: _is_loaded(page), wait_s) and wanted == WAIT_FOR_IDLE:
            await page.wait_until_idle(QUIET_S, wait_s)
        return
    elements = page.tab.locator(f"css={wanted}").first

    async def present() -> bool:
        return await elements.count() > 0

    await page.wait_until(present, wait_s)


async def _is_parsed(page: BrowserPage) -> bool:
    return bool(await page.evaluate("document.readyState !== 'loading'"))


async def _is_loaded(page: BrowserPage) -> bool:
    return bool(await page.evaluate("document.readyState === 'complete'"))


async def _click_repeatedly(page: BrowserPage, click: Click) -> None:
    button = page.tab.locator(f"css={click.css}").first
    for _ in range(click.max):
        if (
            not await button.count()
            or not await button.is_visible()
            or not await button.is_enabled()
        ):
            return
        before = await _measure_size(page)
        try:
            await button.click(timeout=CLICK_S * 1000, no_wait_after=True)
        except Error:
            # Something covers the button, such as a notice about cookies.
            if not await button.count():
                return
            await button.dispatch_event("click", timeout=CLICK_S * 1000)
        if not await page.wait_until(partial(_has_grown, page, before), page.rendering.wait_s):
            return
        await page.wait_until_idle(SETTLED_S, page.rendering.wait_s)


async def _scroll_down(page: BrowserPage, rounds_max: int) -> None:
    still = 0
    for _ in range(rounds_max):
        before = await _measure_size(page)
        await page.evaluate(_SCROLL)
        wait_s = min(GROWS_S, page.rendering.wait_s)
        await page.wait_until(partial(_has_grown, page, before), wait_s)
        await page.wait_until_idle(SETTLED_S, page.rendering.wait_s)
        still = 0 if await _measure_size(page) != before else still + 1
        if still >= STILL_ROUNDS:
            return


async def _has_grown(page: BrowserPage, before: str) -> bool:
    return await _measure_size(page) != before


async def _measure_size(page: BrowserPage) -> str:
    return str(await page.evaluate(_SIZE))


async def _run_script(page: BrowserPage, script: str) -> None:
    try:
        await page.tab.evaluate(f"async () => {{\n{script}\n}}")
    except Error as error:
        if page.error is not None:
            raise
        raise FetchError(
            Outcome.FUNCTION_FAILED, f"browser.script: {printable(error)}", url=page.url
        ) from None
    await page.wait_until_idle(SETTLED_S, page.rendering.wait_s)
