"""A browser that grows larger than it may: pages on loopback that fill real memory, and what
becomes of them and of others.

A browser with small pages has 250 to 350 MB, or half of that where another test's shares its memory with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from scraper.domain import Fetched, Outcome
from scraper.errors import DeferredError
from scraper.plugins.browser.keys import Rendering
from scraper.plugins.browser.pool import Browsers
from scraper.plugins.browser.processes import RunningBrowser
from tests.support.browsers import BROWSER_POLICY, QUICK, failed, using
from tests.support.shops.js_shop import HungryShop

LIMIT_MB = 650
# above the limit, and below half as much again; above that
LARGE_MB, FAR_TOO_LARGE_MB = 580, 1000
UNTIL_DONE = Rendering(wait_for=".done", wait="60s")
PATIENT = replace(BROWSER_POLICY, page_timeout_s=60)


@pytest.fixture
def shop(installed_chromium: str) -> Iterator[HungryShop]:
    with HungryShop(products=3) as found:
        found.open()
        yield found
        found.done.set()


async def opened(shop: HungryShop, *names: str) -> None:
    await until(lambda: all(shop.asked_for(f"/filled?{name}") for name in names))


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.05)


async def fetched(
    b: Browsers, page_id: int, url: str, rendering: Rendering = UNTIL_DONE
) -> Fetched:
    async with b.slot(asyncio.get_running_loop().time() + 60, page_id):
        return await b.fetch(url, PATIENT, rendering, page_id=page_id)


def ended(running: RunningBrowser) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(running.root).status() == psutil.STATUS_ZOMBIE
    return True


def test_a_browser_that_has_grown_too_large_is_replaced_and_its_pages_end_first(
    shop: HungryShop,
) -> None:
    large, small = shop.hungry("large", LARGE_MB), shop.hungry("small", 0)

    async def case(b: Browsers) -> None:
        pages = [
            asyncio.ensure_future(fetched(b, at, url)) for at, url in enumerate((large, small), 1)
        ]
        await opened(shop, "large", "small")
        (old,) = b._processes.running
        await until(lambda: old.retired)
        page = await fetched(b, 3, shop.url("/p/1"), QUICK)
        assert page.status == 200 and "Thing nº 1".encode() in page.body
        (new,) = b._processes.running - {old}
        assert not new.retired and not ended(old) and not any(page.done() for page in pages), (
            "they are open meanwhile"
        )
        shop.done.set()
        for page, name in zip(await asyncio.gather(*pages), ("large", "small"), strict=True):
            assert (
                page.status == 200
                and f"<h1>{name}</h1>".encode() in page.body
                and b'class="done"' in page.body
            )
        await until(lambda: ended(old))
        page = await fetched(b, 4, shop.url("/p/2"), QUICK)
        assert "Thing nº 2".encode() in page.body and b._processes.running == {new}, (
            "and the new one stays"
        )

    using(case, pages=3, settings={"browser_memory_max_mb": LIMIT_MB})


def test_one_far_too_large_is_killed_and_only_the_page_that_fills_it_is_charged(
    shop: HungryShop,
) -> None:
    hungry, small = shop.hungry("hungry", FAR_TOO_LARGE_MB), shop.hungry("small", 0)

    async def case(b: Browsers) -> None:
        pages = [asyncio.ensure_future(fetched(b, 2, small))]
        await opened(shop, "small")
        (old,) = b._processes.running
        pages.append(asyncio.ensure_future(fetched(b, 1, hungry)))
        assert [type(each) for each in await asyncio.gather(*pages, return_exceptions=True)] == [
            DeferredError
        ] * 2
        await until(lambda: ended(old))
        shop.done.set()
        page = await fetched(b, 2, small)
        assert page.status == 200 and b'class="done"' in page.body, "whoever was beside it goes on"
        shop.done.clear()
        with pytest.raises(DeferredError):
            await fetched(b, 1, hungry)
        outcome, text = await failed(fetched(b, 1, hungry))
        assert outcome is Outcome.CRASHED and "the last time with no other page open" in text, text
        assert (await fetched(b, 3, shop.url("/p/1"), QUICK)).status == 200

    using(case, pages=2, settings={"browser_memory_max_mb": LIMIT_MB})
