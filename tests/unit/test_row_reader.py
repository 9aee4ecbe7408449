"""Work that is done in a row for many, stage by stage: each gets its own, and who does not come any
more costs nobody anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TypeVar

import pytest

from scraper.worker.row_reader import (
    ROW_BYTES,
    ROW_PAGES,
    ROW_S,
    PageReader,
)

T = TypeVar("T")

who: ContextVar[str] = ContextVar("who", default="nobody")


def staged(work: Callable[[int], T]) -> Callable[[int], Generator[None, None, T]]:
    """The work, as the second of two stages."""

    def stages(number: int) -> Generator[None, None, T]:
        yield
        return work(number)

    return stages


def test_what_comes_in_one_turn_of_the_loop_is_done_in_a_row_and_stage_by_stage() -> None:
    done: list[object] = []

    def double(number: int, *, plus: int = 0) -> Generator[None, None, int]:
        done.append(f"parse {number}")
        yield
        done.append(f"read {number}")
        return 2 * number + plus

    async def work() -> None:
        together = PageReader(double)

        async def one(number: int) -> int:
            found = await together(0, number, plus=1)
            done.append("after")
            return found

        assert await asyncio.gather(*(one(number) for number in range(2))) == [1, 3]
        assert done == ["parse 0", "parse 1", "read 0", "read 1", "after", "after"]
        assert await together(0, 7) == 14, "and the next one, too"

    asyncio.run(work())


@pytest.mark.parametrize(
    ("weight", "most"), [(0, ROW_PAGES), (ROW_BYTES // 2, 2), (2 * ROW_BYTES, 1)]
)
def test_a_row_is_of_so_many_pages_or_bytes(weight: int, most: int) -> None:
    began: set[int] = set()
    open_at_once = []

    def parse(number: int) -> Generator[None, None, None]:
        began.add(number)
        open_at_once.append(len(began))
        yield
        began.remove(number)

    async def work() -> None:
        together = PageReader(parse)
        await asyncio.gather(*(together(weight, number) for number in range(ROW_PAGES + 8)))

    asyncio.run(work())
    assert max(open_at_once) == most and not began


def test_an_error_is_its_callers_and_nobody_elses() -> None:
    async def work() -> None:
        together = PageReader(staged(lambda number: 6 / number))
        found = await asyncio.gather(
            *(together(0, number) for number in (0, 2, 3)), return_exceptions=True
        )
        assert isinstance(found[0], ZeroDivisionError) and found[1:] == [3.0, 2.0]
        with pytest.raises(ZeroDivisionError):
            await together(0, 0)

    asyncio.run(work())


def test_who_is_cancelled_before_is_left_out() -> None:
    done: list[int] = []

    async def work() -> None:
        together = PageReader(staged(done.append))
        pages = [asyncio.ensure_future(together(0, number)) for number in range(3)]
        await asyncio.sleep(0)
        pages[1].cancel()
        await asyncio.gather(*pages, return_exceptions=True)
        assert done == [0, 2] and pages[1].cancelled()

    asyncio.run(work())


def test_who_is_cancelled_between_two_stages_ends_there() -> None:
    ended: list[int] = []

    def slow(number: int) -> Generator[None, None, None]:
        try:
            time.sleep(ROW_S)
            yield
            ended.append(number)
        except GeneratorExit:
            ended.append(-number)
            raise

    async def work() -> None:
        together = PageReader(slow)
        pages = [asyncio.ensure_future(together(0, number)) for number in (1, 2)]
        for _ in range(2):
            await asyncio.sleep(0)
        pages[0].cancel()
        await asyncio.gather(*pages, return_exceptions=True)

    asyncio.run(work())
    assert sorted(ended) == [-1, 2]


def test_the_loop_turns_between_large_ones() -> None:
    turns: list[int] = []

    async def work() -> None:
        together = PageReader(staged(lambda _: time.sleep(ROW_S / 2)))
        turning = asyncio.ensure_future(_turn(turns))
        await asyncio.gather(*(together(0, number) for number in range(12)))
        turning.cancel()

    asyncio.run(work())
    assert len(turns) >= 4, "12 of them last six times as long as a row may"


async def _turn(turns: list[int]) -> None:
    while True:
        turns.append(1)
        await asyncio.sleep(0)


def test_each_is_done_in_its_callers_context() -> None:
    async def work() -> None:
        together = PageReader(staged(lambda _: who.get()))

        async def one(name: str) -> str:
            who.set(name)
            return await together(0, 0)

        assert await asyncio.gather(*(one(name) for name in "ab")) == ["a", "b"]

    asyncio.run(work())
