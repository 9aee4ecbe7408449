"""Many deadlines over one timer, each as `asyncio.timeout` would be."""

from __future__ import annotations

import asyncio

import pytest

from scraper.http.deadlines import Deadlines
from tests.clocks import now, run


async def ends_late(deadlines: Deadlines, seconds: float) -> float:
    """How long it took until it was ended."""
    began = now()
    with pytest.raises(TimeoutError):
        async with deadlines.after(seconds) as deadline:
            await asyncio.sleep(10)
    assert deadline.expired
    return now() - began


async def ends_in_time(deadlines: Deadlines, seconds: float) -> None:
    async with deadlines.after(10) as deadline:
        await asyncio.sleep(seconds)
    assert not deadline.expired


def test_each_ends_at_its_own_time() -> None:
    async def work() -> None:
        deadlines = Deadlines()
        waits = (0.15, 0.05, 0.1, 0.3)
        took = await asyncio.gather(
            *(ends_late(deadlines, wait) for wait in waits), ends_in_time(deadlines, 0.2)
        )
        assert took == pytest.approx([*waits, None])
        await ends_in_time(deadlines, 0)
        last_s = await ends_late(deadlines, 0.05)
        assert last_s == pytest.approx(0.05), "one that came after all others had gone"

    run(work)


def test_what_is_cancelled_by_somebody_else_stays_cancelled() -> None:
    async def work() -> None:
        deadlines = Deadlines()

        async def page() -> None:
            async with deadlines.after(10):
                await asyncio.sleep(10)

        async def late() -> None:
            async with deadlines.after(0.01):
                try:
                    await asyncio.sleep(10)
                finally:
                    asyncio.current_task().cancel()  # type: ignore[union-attr]
                    await asyncio.sleep(0)

        for work_of in (page, late):
            task = asyncio.ensure_future(work_of())
            if work_of is page:
                await asyncio.sleep(0.01)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(work)


def test_an_error_in_time_is_its_own() -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError, match="of a socket") as raised:
            async with Deadlines().after(1) as deadline:
                raise TimeoutError("of a socket")
        assert not deadline.expired and raised.value.__cause__ is None

    run(work)


def test_a_wait_does_not_count() -> None:
    async def work() -> None:
        deadlines = Deadlines()
        began = now()

        async def page() -> None:
            async with deadlines.after(0.1) as deadline:
                deadline.suspend()
                await asyncio.sleep(0.2)
                deadline.put_off(0.2)
                await asyncio.sleep(10)

        with pytest.raises(TimeoutError):
            await page()
        assert now() - began == pytest.approx(0.3)

    run(work)


def test_one_timer_serves_all() -> None:
    async def work() -> None:
        deadlines = Deadlines()
        loop = asyncio.get_running_loop()
        timers = []
        real = loop.call_at
        loop.call_at = lambda when, *args, **kwargs: (
            timers.append(when) or real(when, *args, **kwargs)
        )  # type: ignore
        for _ in range(200):
            async with deadlines.after(5):
                pass
        assert len(timers) == 1

    run(work)
