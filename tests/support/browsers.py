"""Browsers for tests: their policy, and pages that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from scraper.domain import Fetched, Outcome
from scraper.errors import FetchError
from scraper.plugins.browser.keys import Rendering
from scraper.plugins.browser.pool import Browsers
from scraper.settings import Settings
from tests.support.fetching import POLICY
from tests.support.started import find_started

QUICK = Rendering(wait="2s")


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

    before = chromiums()
    result = asyncio.run(run())
    assert chromiums() <= before, "a browser is left over"
    return result


def chromiums() -> set[int]:
    return {process.pid for process in find_started("chrom")}


async def failed(work: Awaitable[Fetched]) -> tuple[Outcome, str]:
    with pytest.raises(FetchError) as caught:
        await work
    return caught.value.outcome, str(caught.value)
