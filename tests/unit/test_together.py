"""Work that is done in a row for many: each gets its own, and who does not come any more costs nobody anything."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar

import pytest

from scraper.together import ROW_S, Together

who: ContextVar[str] = ContextVar("who", default="nobody")


def test_what_comes_in_one_turn_of_the_loop_is_done_in_a_row() -> None:
    done: list[object] = []

    def double(number: int, *, plus: int = 0) -> int:
        done.append(number)
        return 2 * number + plus

    async def work() -> None:
        together = Together(double)

        async def one(number: int) -> int:
            found = await together(number, plus=1)
            done.append("after")
            return found

        assert await asyncio.gather(*(one(number) for number in range(3))) == [1, 3, 5]
        assert done == [0, 1, 2, "after", "after", "after"]
        assert await together(7) == 14, "and the next one, too"

    asyncio.run(work())


def test_an_error_is_its_callers_and_nobody_elses() -> None:
    def divide(number: int) -> float:
        return 6 / number

    async def work() -> None:
        together = Together(divide)
        found = await asyncio.gather(together(0), together(2), together(3), return_exceptions=True)
        assert isinstance(found[0], ZeroDivisionError) and found[1:] == [3.0, 2.0]
        with pytest.raises(ZeroDivisionError):
            await together(0)

    asyncio.run(work())


def test_who_is_cancelled_before_is_left_out() -> None:
    done: list[int] = []

    async def work() -> None:
        together = Together(done.append)
        pages = [asyncio.ensure_future(together(number)) for number in range(3)]
        await asyncio.sleep(0)
        pages[1].cancel()
        await asyncio.gather(*pages, return_exceptions=True)
        assert done == [0, 2] and pages[1].cancelled()

    asyncio.run(work())


def test_the_loop_turns_between_large_ones() -> None:
    turns: list[int] = []

    async def work() -> None:
        together = Together(lambda: time.sleep(ROW_S / 2))
        turning = asyncio.ensure_future(_turn(turns))
        await asyncio.gather(*(together() for _ in range(12)))
        turning.cancel()

    asyncio.run(work())
    assert len(turns) >= 4, "12 of them last six times as long as a row may"


async def _turn(turns: list[int]) -> None:
    while True:
        turns.append(1)
        await asyncio.sleep(0)


def test_each_is_done_in_its_callers_context() -> None:
    async def work() -> None:
        together = Together(who.get)

        async def one(name: str) -> str:
            who.set(name)
            return await together()

        assert await asyncio.gather(*(one(name) for name in "ab")) == ["a", "b"]

    asyncio.run(work())
