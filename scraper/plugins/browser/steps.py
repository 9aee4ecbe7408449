"""The steps before a page is read: waiting, clicking "load more", scrolling, the definition's
script.

Time is the page's own (`PageVisit.clock`), which stops while its requests wait for their host. The
page is read as it is when time runs out.
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
    from scraper.plugins.browser.page import PageVisit

# A page that asks for nothing this long has what it wants.
QUIET_S = 0.5
# The quiet after one click, or one scroll, may be shorter.
SETTLED_S = 0.2
# A challenge may let the browser in by itself within this time.
REFUSAL_WAIT_S = 5.0
# A button that cannot be clicked within this time gets the event sent to it.
CLICK_S = 2.0
# A page that was scrolled has this long to begin to grow.
GROWS_S = 2.0
# The page has ended after this many scrolls without anything new.
STILL_ROUNDS = 2
_SIZE = """[document.getElementsByTagName('*').length,
  (document.scrollingElement || document.body || {}).scrollHeight || 0].join()"""
_SCROLL = "window.scrollTo(0, (document.scrollingElement || document.body).scrollHeight)"


async def prepare(visit: PageVisit) -> None:
    """Runs the steps in this order. Raises FetchError(FUNCTION_FAILED) if the script fails."""
    rendering = visit.rendering
    # Half a document is none, so only the page's deadline ends this wait.
    await visit.until(lambda: _parsed(visit), math.inf)
    if visit.main is not None and visit.main.status >= 400:
        await visit.idle(QUIET_S, min(rendering.wait_s, REFUSAL_WAIT_S))
        if visit.main.status >= 400:
            return
    await _arrive(visit)
    if rendering.click is not None:
        await _click(visit, rendering.click)
    if rendering.scroll:
        await _scroll(visit, rendering.scroll)
    if rendering.script is not None:
        await _run(visit, rendering.script)


async def _arrive(visit: PageVisit) -> None:
    wanted, wait_s = visit.rendering.wait_for, visit.rendering.wait_s
    if wanted in (WAIT_FOR_IDLE, WAIT_FOR_LOAD):
        if await visit.until(lambda: _loaded(visit), wait_s) and wanted == WAIT_FOR_IDLE:
            await visit.idle(QUIET_S, wait_s)
        return
    elements = visit.page.locator(f"css={wanted}").first

    async def present() -> bool:
        return await elements.count() > 0

    await visit.until(present, wait_s)


async def _parsed(visit: PageVisit) -> bool:
    return bool(await visit.evaluate("document.readyState !== 'loading'"))


async def _loaded(visit: PageVisit) -> bool:
    return bool(await visit.evaluate("document.readyState === 'complete'"))


async def _click(visit: PageVisit, click: Click) -> None:
    button = visit.page.locator(f"css={click.css}").first
    for _ in range(click.max):
        if (
            not await button.count()
            or not await button.is_visible()
            or not await button.is_enabled()
        ):
            return
        before = await _size(visit)
        try:
            await button.click(timeout=CLICK_S * 1000, no_wait_after=True)
        except Error:
            # Something lies over the button, such as a notice about cookies.
            if not await button.count():
                return
            await button.dispatch_event("click", timeout=CLICK_S * 1000)
        if not await visit.until(partial(_grown, visit, before), visit.rendering.wait_s):
            return
        await visit.idle(SETTLED_S, visit.rendering.wait_s)


async def _scroll(visit: PageVisit, rounds_max: int) -> None:
    still = 0
    for _ in range(rounds_max):
        before = await _size(visit)
        await visit.evaluate(_SCROLL)
        wait_s = min(GROWS_S, visit.rendering.wait_s)
        await visit.until(partial(_grown, visit, before), wait_s)
        await visit.idle(SETTLED_S, visit.rendering.wait_s)
        still = 0 if await _size(visit) != before else still + 1
        if still >= STILL_ROUNDS:
            return


async def _grown(visit: PageVisit, before: str) -> bool:
    return await _size(visit) != before


async def _size(visit: PageVisit) -> str:
    return str(await visit.evaluate(_SIZE))


async def _run(visit: PageVisit, script: str) -> None:
    try:
        await visit.page.evaluate(f"async () => {{\n{script}\n}}")
    except Error as error:
        if visit.error is not None:
            raise
        raise FetchError(
            Outcome.FUNCTION_FAILED, f"browser.script: {printable(error)}", url=visit.url
        ) from None
    await visit.idle(SETTLED_S, visit.rendering.wait_s)
