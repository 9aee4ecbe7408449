"""What a page costs in a browser: CPU of the worker's loop, of Chromium and Playwright's driver,
and memory.

    python -m benchmarks.browser [--pages 40] [--at-once 4]

Product pages of the tests' JavaScript shop (two requests each, on loopback), each in a context of
its own, and the same with an identity whose contexts are used again. Children's CPU is what the
system counts for them once they have ended, so the start of a browser is taken off: that of a run
with one page.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from dataclasses import replace

from scraper.browser import chromium
from scraper.browser.pool import Browsers
from scraper.settings import Settings
from tests.integration.test_fetch import POLICY
from tests.js_shop import JsShop


def cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


async def run(shop: JsShop, pages: int, at_once: int, *, keep: bool) -> tuple[float, float, float]:
    """(seconds, this process's CPU seconds, peak MB of the browser) of so many pages."""
    browsers = Browsers(Settings(), pages=at_once)
    policy = replace(POLICY, cookies="shop" if keep else None, page_timeout_s=60)
    peak = 0.0

    async def weigh() -> None:
        nonlocal peak
        while True:
            for running in list(browsers._all):  # noqa: SLF001
                pids = [pid for _, pid in await chromium.processes(running.session)]
                peak = max(peak, await asyncio.to_thread(chromium.size_mb, pids))
            await asyncio.sleep(0.5)

    async def one(number: int) -> None:
        async with browsers.slot(asyncio.get_running_loop().time() + 600):
            page = await browsers.fetch(shop.url(f"/p/{number % len(shop.truth) + 1}"), policy)
        assert b"Thing" in page.body

    weighing = asyncio.ensure_future(weigh())
    try:
        await one(0)
        began, used = time.monotonic(), cpu_s(resource.RUSAGE_SELF)
        await asyncio.gather(*(one(number) for number in range(pages)))
        return time.monotonic() - began, cpu_s(resource.RUSAGE_SELF) - used, peak
    finally:
        weighing.cancel()
        await browsers.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=4)
    given = parser.parse_args()
    with JsShop() as shop:
        shop.open()
        children = []
        for pages in (1, given.pages + 1):
            before = cpu_s(resource.RUSAGE_CHILDREN)
            _, _, peak = asyncio.run(run(shop, pages, 1, keep=False))
            children.append(cpu_s(resource.RUSAGE_CHILDREN) - before)
        each = (children[1] - children[0]) / given.pages
        print(f"start of a browser: {children[0]:.1f} CPU-s; one page open: {peak:.0f} MB")
        print(f"a page: {each * 1000:.0f} ms CPU of Chromium and driver")
        for keep in (False, True):
            seconds, own, peak = asyncio.run(run(shop, given.pages, given.at_once, keep=keep))
            kind = "contexts used again" if keep else "a context each"
            print(
                f"{kind}, {given.at_once} at once: {given.pages / seconds:.2f} pages/s, {own / given.pages * 1000:.0f} ms "
                f"CPU of the worker's loop (with the shop's) a page, {peak:.0f} MB at the most"
            )


if __name__ == "__main__":
    main()
