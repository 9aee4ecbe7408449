"""The clock of a page in a browser: what it counts, and what its waits do to the deadline."""

from __future__ import annotations

import asyncio

import pytest

from scraper.plugins.browser.page_clock import PageClock


async def wait_for(event: asyncio.Event) -> None:
    await event.wait()


def test_the_deadline_is_stopped_while_any_request_waits() -> None:
    async def wait_twice() -> None:
        clock, first, second = PageClock(60.0), asyncio.Event(), asyncio.Event()
        async with asyncio.timeout(60) as deadline:
            clock.deadline = deadline
            waits = [
                asyncio.ensure_future(clock.wait_stopped(wait_for(event)))
                for event in (first, second)
            ]
            await asyncio.sleep(0)
            assert deadline.when() is None
            first.set()
            assert await waits[0]
            assert deadline.when() is None, "the second request still waits"
            second.set()
            assert await waits[1]
            assert deadline.when() is not None

    asyncio.run(wait_twice())


def test_waits_end_when_their_time_is_up() -> None:
    async def wait_in_vain() -> bool:
        return await PageClock(0.0).wait_stopped(wait_for(asyncio.Event()))

    assert not asyncio.run(wait_in_vain())


def test_waits_that_overlap_last_no_longer_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("scraper.plugins.browser.page_clock.monotonic", lambda: now[0])

    async def wait_twice() -> bool:
        clock, permit = PageClock(60.0), asyncio.Event()
        first = asyncio.ensure_future(clock.wait_stopped(wait_for(permit)))
        await asyncio.sleep(0)
        now[0] += 60
        async with asyncio.timeout(5):
            in_time = await clock.wait_stopped(wait_for(asyncio.Event()))
        permit.set()
        assert await first
        return in_time

    assert not asyncio.run(wait_twice())


def test_the_pages_time_leaves_out_what_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("scraper.plugins.browser.page_clock.monotonic", lambda: now[0])

    async def read_clock() -> list[float]:
        clock, permit = PageClock(60.0), asyncio.Event()
        times = [clock.now()]
        wait = asyncio.ensure_future(clock.wait_stopped(wait_for(permit)))
        await asyncio.sleep(0)
        now[0] += 5
        times.append(clock.now())
        permit.set()
        await wait
        now[0] += 2
        return [*times, clock.now(), clock.waited_s]

    assert asyncio.run(read_clock()) == [100.0, 100.0, 102.0, 5.0]
