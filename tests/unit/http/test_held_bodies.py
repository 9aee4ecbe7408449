"""What a process holds of bodies: never more than its limit, one piece of each and one whole body,
and everybody gets through."""

from __future__ import annotations

import asyncio
import random

import pytest

from scraper.http.held_bodies import SMALL_BYTES, HeldBodies, HeldBody

MOST = 1_000_000
PIECE = 50_000


class Pages:
    """Pages whose bodies come in pieces, of which some are then read one after another."""

    def __init__(self, sizes: list[int], *, slow: bool, rng: random.Random) -> None:
        self.bodies = HeldBodies(MOST)
        self.sizes, self.slow, self.rng = sizes, slow, rng
        self.reader = asyncio.Semaphore(2)
        self.most, self.done = 0, 0

    async def page(self, size: int) -> None:
        body = HeldBody(self.bodies)
        try:
            for here in range(PIECE, size + PIECE, PIECE):
                await asyncio.sleep(0)
                if here > SMALL_BYTES and body.grow(min(here, size)):
                    await body.wait_for_room()
                self.most = max(self.most, self.bodies.held)
                if self.rng.random() < 0.002:
                    # Its connection breaks.
                    return
            body.complete(size)
            self.most = max(self.most, self.bodies.held)
            if self.slow:
                async with self.reader:
                    await asyncio.sleep(0.001)
        finally:
            body.release()
            self.done += 1

    async def run(self) -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*map(self.page, self.sizes))


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_many_large_bodies_at_once_stay_within_the_bound(*, slow: bool, seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randrange(PIECE, 1_600_000) for _ in range(300)]

    async def running() -> Pages:
        pages = Pages(sizes, slow=slow, rng=rng)
        await pages.run()
        return pages

    pages = asyncio.run(running())
    assert pages.done == len(sizes)
    assert pages.bodies.held == 0
    # All of them are 240 MB. Each may have been on its way to its second piece.
    assert pages.most <= MOST + len(sizes) * (SMALL_BYTES + PIECE) + max(sizes)


def test_where_all_are_half_here_one_comes_in_whole_and_then_the_next() -> None:
    async def running() -> list[int]:
        bodies, ended = HeldBodies(MOST), []

        async def page(number: int) -> None:
            body = HeldBody(bodies)
            for size in (400_000, 800_000, 1_200_000):
                if body.grow(size):
                    await body.wait_for_room()
                await asyncio.sleep(0)
            body.complete(1_200_000)
            await asyncio.sleep(0)
            body.release()
            ended.append(number)

        async with asyncio.timeout(10):
            await asyncio.gather(*map(page, range(6)))
        assert bodies.held == 0
        return ended

    assert sorted(asyncio.run(running())) == list(range(6))


def test_a_page_that_is_asked_for_again_does_not_wait_for_itself() -> None:
    async def running() -> None:
        bodies = HeldBodies(MOST)
        body = HeldBody(bodies)
        body.complete(2 * MOST)
        async with asyncio.timeout(10):
            if body.grow(2 * MOST):
                await body.wait_for_room()
        body.release()
        assert bodies.held == 0

    asyncio.run(running())


def test_a_waiter_that_is_cancelled_delays_no_other() -> None:
    async def running() -> None:
        bodies = HeldBodies(MOST)
        first, second = HeldBody(bodies), HeldBody(bodies)
        first.complete(MOST)
        assert second.grow(100_000)
        waiting = asyncio.create_task(second.wait_for_room())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        second.release()
        third = HeldBody(bodies)
        assert third.grow(100_000)
        first.release()
        async with asyncio.timeout(10):
            await third.wait_for_room()

    asyncio.run(running())
