"""Browsers for tests: their policy, and pages that fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any

import psutil
import pytest

from scraper.domain import Fetched, Outcome
from scraper.errors import FetchError
from scraper.plugins.browser.keys import Rendering
from scraper.plugins.browser.pool import Browsers
from scraper.settings import Settings
from tests.support.fetching import POLICY
from tests.support.started import find_started

QUICK = Rendering(wait="2s")

# Seconds that a browser may take to end on a busy machine.
ENDS_S = 10


# A browser's page takes longer than an answer without one.
BROWSER_POLICY = replace(POLICY, page_timeout_s=20)


Case = Callable[[Browsers], Awaitable[Any]]


@asynccontextmanager
async def browsers(**options: Any) -> AsyncIterator[Browsers]:
    found = Browsers(
        Settings(**options.pop("settings", {})), pages=options.pop("pages", 2), **options
    )
    try:
        yield found
    finally:
        await found.aclose()


def using(case: Case, **options: Any) -> Any:
    async def run() -> Any:
        async with browsers(**options) as found:
            return await case(found)

    before = find_browsers()
    result = asyncio.run(run())
    check_that_browsers_end(find_browsers() - before)
    return result


@contextmanager
def shared_browsers() -> Iterator[Callable[[Case], Any]]:
    """Runs cases one after the other with the same browsers, since a start takes longer than a page.
    A case leaves no page open; after one that failed, the next one has new browsers."""
    before, loop = find_browsers(), asyncio.new_event_loop()
    # It runs between cases too, as it does in a worker, so a browser's answers arrive in time.
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def start() -> Browsers:
        return Browsers(Settings(), pages=2)

    found: Browsers = wait(start())

    async def run(case: Case) -> Any:
        try:
            result = await case(found)
            opened = [page for running in found._processes.running for page in running.open_pages]
            assert opened == [], "a page is left over"
        except BaseException:
            await found.aclose()
            raise
        return result

    try:
        yield lambda case: wait(run(case))
    finally:
        wait(found.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    check_that_browsers_end(find_browsers() - before)


def find_browsers() -> set[psutil.Process]:
    """Without the processes that browsers start and end themselves."""
    return {found for found in find_started("chrom") if not is_part_of_browser(found)}


def is_part_of_browser(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any(word.startswith("--type=") for word in process.cmdline())
    return True


def check_that_browsers_end(left: set[psutil.Process]) -> None:
    """Browsers end after a moment if they had to be killed."""
    _, running = psutil.wait_procs(left, timeout=ENDS_S)
    assert not running, "a browser is left over"


async def failed(work: Awaitable[Fetched]) -> tuple[Outcome, str]:
    with pytest.raises(FetchError) as caught:
        await work
    return caught.value.outcome, str(caught.value)
