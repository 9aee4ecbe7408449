"""The lock that goes to the most urgent: order, cancellation, and those for whom it comes too late."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.errors import DeferredError
from scraper.politeness.priority_lock import PriorityLock


async def held(
    lock: PriorityLock, urgency: int, got: list[int], mark: int, latest: float = float("inf")
) -> None:
    async with lock.held(urgency, min(latest, asyncio.get_running_loop().time() + 60)):
        got.append(mark)
        await asyncio.sleep(0)


@given(st.lists(st.integers(0, 3), max_size=12))
def test_the_most_urgent_goes_next_and_equals_in_their_order(urgencies: list[int]) -> None:
    async def work() -> None:
        lock, got = PriorityLock(), list[int]()
        async with lock.held(0, float("inf")):
            waiting = [
                asyncio.ensure_future(held(lock, each, got, n)) for n, each in enumerate(urgencies)
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert got == sorted(range(len(urgencies)), key=lambda n: (-urgencies[n], n))
        assert not lock.locked()

    asyncio.run(work())


@given(st.integers(0, 10_000))
def test_no_cancellation_loses_or_doubles_it(seed: int) -> None:
    """Cancelled before its turn, as it is handed over, and inside."""

    async def work() -> None:
        rng, lock, inside, most = random.Random(seed), PriorityLock(), 0, 0

        async def one(urgency: int) -> None:
            nonlocal inside, most
            async with lock.held(urgency, asyncio.get_running_loop().time() + 60):
                inside += 1
                most = max(most, inside)
                try:
                    for _ in range(rng.randrange(3)):
                        await asyncio.sleep(0)
                finally:
                    inside -= 1

        tasks = [asyncio.ensure_future(one(rng.randrange(3))) for _ in range(8)]
        for _ in range(10):
            await asyncio.sleep(0)
            rng.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= 1 and not lock.locked()

    asyncio.run(work())


def test_a_waiter_that_gets_it_too_late_is_deferred_and_takes_it_from_no_other() -> None:
    async def work() -> None:
        lock, got, loop = PriorityLock(), list[int](), asyncio.get_running_loop()
        async with lock.held(0, float("inf")):
            late = asyncio.ensure_future(held(lock, 9, got, 1, latest=loop.time() + 0.01))
            patient = asyncio.ensure_future(held(lock, 0, got, 2))
            with pytest.raises(DeferredError):
                await late
        await patient
        assert got == [2] and not lock.locked()

    asyncio.run(work())


def test_each_of_many_who_wait_has_a_time_of_his_own() -> None:
    async def work() -> None:
        lock, loop = PriorityLock(), asyncio.get_running_loop()
        ended: dict[int, float] = {}

        async def late(mark: int, latest: float) -> None:
            with pytest.raises(DeferredError):
                await lock.acquire(0, latest)
            ended[mark] = loop.time() - latest

        async with lock.held(0, float("inf")):
            # some sooner than those who came before, some later, some together
            now = loop.time()
            waits = (0.15, 0.05, 0.1, 0.05, 0.2, 0.1)
            cancelled = asyncio.ensure_future(late(-1, now + 0.01))
            tasks = [
                asyncio.ensure_future(late(mark, now + wait_s)) for mark, wait_s in enumerate(waits)
            ]
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(*tasks)
        assert sorted(ended) == [0, 1, 2, 3, 4, 5] and all(
            seconds >= 0 for seconds in ended.values()
        )
        assert not lock.locked()

    asyncio.run(work())


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 14))
def test_who_is_let_past_goes_on_without_it_the_most_urgent_first(
    urgencies: list[int], most: int
) -> None:
    async def work() -> None:
        lock, past = PriorityLock(), list[int]()

        async def one(urgency: int, mark: int) -> None:
            if await lock.acquire(urgency, asyncio.get_running_loop().time() + 60):
                lock.release()
            else:
                past.append(mark)

        assert await lock.acquire(0, float("inf"))
        waiting = [asyncio.ensure_future(one(each, n)) for n, each in enumerate(urgencies)]
        await asyncio.sleep(0)
        assert lock.admit(most) == min(most, len(urgencies))
        await asyncio.sleep(0)
        assert (
            past == sorted(range(len(urgencies)), key=lambda n: (-urgencies[n], n))[:most]
            and lock.locked()
        )
        lock.release()
        await asyncio.gather(*waiting)
        assert not lock.locked()

    asyncio.run(work())


@pytest.mark.parametrize("turn", ["waiting", "let past"])
def test_who_is_cancelled_after_it_was_let_past_returns_what_it_got(turn: str) -> None:
    async def work() -> None:
        returned = list[int]()
        lock = PriorityLock(lambda: returned.append(1))
        assert await lock.acquire(0, float("inf"))
        one = asyncio.ensure_future(lock.acquire(0, asyncio.get_running_loop().time() + 60))
        await asyncio.sleep(0)
        if turn == "let past":
            assert lock.admit(5) == 1
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        assert one.cancelled() and len(returned) == (turn == "let past")
        assert lock.admit(5) == 0
        lock.release()
        assert not lock.locked()

    asyncio.run(work())
