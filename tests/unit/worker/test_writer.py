"""The writer: groups by size and by age, and a store that is slow or fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import chain
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from scraper.domain import Outcome, Status, Verdict
from scraper.frontier.throughput import FetchCost
from scraper.results.products import NewProduct
from scraper.results.transaction import PageResult
from scraper.worker import writer as writer_module
from scraper.worker.writer import (
    FAILURES_MAX,
    GROUP_BYTES,
    GROUP_PAGES,
    GROUP_ROWS,
    HELD_MAX_BYTES,
    Pending,
    Writer,
)
from tests.support.clocks import AdvancingLoop, advance
from tests.support.making import new_page
from tests.support.waiting import GENEROUS_S

LEASE = uuid4()
AWAY = OperationalError("COMMIT", None, psycopg.OperationalError("the connection is lost"))


def page(number: int, lease_id: UUID = LEASE) -> PageResult:
    return PageResult(number, 1, lease_id, Outcome.FETCHED, Verdict(Status.OK, 0.0, True))


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "BACKOFF_MAX_S", 0.02)


class Database:
    """A store that notes what it is given, and does with it what a test says."""

    def __init__(self, *, fails: int = 0, error: Exception = AWAY) -> None:
        self.error = error
        self.groups: list[list[int]] = []
        self.tries: list[list[int]] = []
        self.fails = fails
        self.open = threading.Event()
        self.open.set()
        self.threads: set[str] = set()

    def store(self, pages: Sequence[PageResult]) -> None:
        self.threads.add(threading.current_thread().name)
        ids = [page.page_id for page in pages]
        self.tries.append(ids)
        assert self.open.wait(GENEROUS_S)
        if self.fails:
            self.fails -= 1
            raise self.error
        self.groups.append(ids)


def run(database: Database, work: Callable[[Writer], Awaitable[None]]) -> None:
    async def running() -> None:
        writer = Writer(database.store)
        task = asyncio.create_task(writer.run())
        try:
            await work(writer)
        finally:
            database.open.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with asyncio.Runner(loop_factory=AdvancingLoop) as runner:
        runner.run(running())


def test_a_batch_of_nothing_is_stored() -> None:
    async def work() -> None:
        assert Pending(0).stored.is_set()

    asyncio.run(work())


def test_pending_counts_exactly() -> None:
    async def work() -> None:
        pending = Pending(3)
        for left in (2, 1):
            pending.count_stored()
            assert (pending.left, pending.stored.is_set()) == (left, False)
        pending.count_stored()
        assert (pending.left, pending.stored.is_set()) == (0, True)

    asyncio.run(work())


def test_a_full_group_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "GROUP_AGE_S", 3600.0)
    database = Database()

    async def work(writer: Writer) -> None:
        pending = Pending(2 * GROUP_PAGES)
        for number in range(2 * GROUP_PAGES):
            writer.put(page(number), pending)
        await pending.stored.wait()

    run(database, work)
    assert database.groups == [list(range(GROUP_PAGES)), list(range(GROUP_PAGES, 2 * GROUP_PAGES))]


def large(number: int, size: int) -> PageResult:
    data = {"name": "Pan", "images": ["x" * (size // 2)] * 2, "price": 1}
    product = NewProduct(1, str(number), number, 1, "https://shop.example/p/1", data, uuid4())
    cost = FetchCost("datacenter", "shop.example", bytes=size)
    return replace(page(number), products=[product], cost=cost)


def test_a_group_is_full_of_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "GROUP_AGE_S", 3600.0)
    database = Database()

    async def work(writer: Writer) -> None:
        pending = Pending(6)
        database.open.clear()
        for number in range(6):
            writer.put(large(number, GROUP_BYTES // 2), pending)
        database.open.set()
        await pending.stored.wait()

    run(database, work)
    assert database.groups == [[0, 1], [2, 3], [4, 5]]


def test_while_too_many_bytes_wait_it_is_full_and_pages_wait_for_room() -> None:
    database = Database()

    async def work(writer: Writer) -> None:
        size, put = GROUP_BYTES // 2, 0
        pending = Pending(100)
        database.open.clear()
        while not writer.full:
            writer.put(large(put, size), pending)
            put += 1
        assert HELD_MAX_BYTES // size - 1 <= put <= HELD_MAX_BYTES // size
        # A page that is not wanted any more waits for nothing.
        await writer.wait_for_room(lambda: False)
        waiting = asyncio.create_task(writer.wait_for_room(lambda: True))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        database.open.set()
        await waiting
        assert not writer.full

    run(database, work)


def test_a_group_is_full_of_links_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "GROUP_AGE_S", 3600.0)
    link = new_page((1, 1), "https://shop.example/p/1")
    half, most = GROUP_ROWS // 2, 3 * GROUP_ROWS
    database = Database()

    async def work(writer: Writer) -> None:
        pending = Pending(7)
        database.open.clear()
        for number, links in enumerate((0, half, half, most, 1, half, half)):
            writer.put(replace(page(number), links=[link] * links), pending)
            await asyncio.sleep(0)
        database.open.set()
        await pending.stored.wait()

    run(database, work)
    assert database.groups == [[0, 1, 2], [3], [4, 5, 6]]


def test_pages_that_wait_for_no_other_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "GROUP_AGE_S", 3600.0)
    database = Database()

    async def work(writer: Writer) -> None:
        for number in range(3):
            writer.hurry()  # nothing is there
            pending = Pending(2)
            writer.put(page(number), pending)
            writer.put(page(number + 10), pending)
            writer.hurry()
            await pending.stored.wait()

    run(database, work)
    assert database.groups == [[0, 10], [1, 11], [2, 12]]


def test_a_group_that_is_not_full_is_written_when_it_is_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "GROUP_AGE_S", 3600.0)
    database = Database()

    async def work(writer: Writer) -> None:
        pending = Pending(2)
        writer.put(page(1), pending)
        await advance(1200)
        writer.put(page(2), pending)
        await advance(2300)
        assert not database.tries
        await advance(101)
        await pending.stored.wait()

    run(database, work)
    assert database.groups == [[1, 2]]


def test_what_is_over_a_group_is_in_the_next() -> None:
    database = Database()

    async def work(writer: Writer) -> None:
        pending = Pending(GROUP_PAGES + 30)
        for number in range(GROUP_PAGES + 30):
            writer.put(page(number), pending)
        await pending.stored.wait()

    run(database, work)
    assert [len(group) for group in database.groups] == [GROUP_PAGES, 30]
    assert list(chain(*database.groups)) == list(range(GROUP_PAGES + 30))


def test_pages_of_several_batches_share_a_group_and_each_batch_is_notified() -> None:
    database = Database()

    async def work(writer: Writer) -> None:
        one, other, unfinished = Pending(2), Pending(1), Pending(2)
        for number, pending in enumerate((one, other, one, unfinished)):
            writer.put(page(number), pending)
        await asyncio.gather(one.stored.wait(), other.stored.wait())
        assert (unfinished.left, unfinished.stored.is_set()) == (1, False)

    run(database, work)
    assert database.groups == [[0, 1, 2, 3]]


def test_a_slow_store_blocks_neither_put_nor_the_loop() -> None:
    database = Database()
    database.open.clear()

    async def work(writer: Writer) -> None:
        pending = Pending(1 + GROUP_PAGES + 1)
        writer.put(page(0), pending)
        while not database.tries:
            await asyncio.sleep(0.01)
        for number in range(1, GROUP_PAGES + 2):
            writer.put(page(number), pending)
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert (database.groups, pending.left) == ([], GROUP_PAGES + 2)
        database.open.set()
        await pending.stored.wait()

    run(database, work)
    assert [len(group) for group in database.groups] == [1, GROUP_PAGES, 1]
    assert len(database.threads) == 1


def test_pages_that_aged_during_a_slow_store_wait_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their age counts from when they came, not from when the writer looks at them again."""
    monkeypatch.setattr(writer_module, "GROUP_AGE_S", 3600.0)
    database = Database()
    database.open.clear()

    async def work(writer: Writer) -> None:
        first, second = Pending(GROUP_PAGES), Pending(1)
        for number in range(GROUP_PAGES):
            writer.put(page(number), first)
        while not database.tries:
            await asyncio.sleep(0.01)
        writer.put(page(1000), second)
        await advance(3601)
        database.open.set()
        async with asyncio.timeout(GENEROUS_S):
            await second.stored.wait()

    run(database, work)


def test_a_store_that_fails_is_tried_again_with_the_same_pages() -> None:
    database = Database(fails=2)

    async def work(writer: Writer) -> None:
        pending = Pending(2)
        writer.put(page(1), pending)
        writer.put(page(2), pending)
        await pending.stored.wait()

    run(database, work)
    assert database.tries == [[1, 2]] * 3
    assert database.groups == [[1, 2]]


def test_a_group_that_fails_for_another_reason_is_given_up_and_the_next_is_stored() -> None:
    database = Database(fails=1_000_000, error=ValueError("a fault of ours"))

    async def work(writer: Writer) -> None:
        lost, next_one = Pending(1), Pending(1)
        writer.put(page(1), lost)
        await lost.stored.wait()
        database.fails = 0
        writer.put(page(2), next_one)
        await next_one.stored.wait()

    run(database, work)
    assert database.groups == [[2]]
    assert len(database.tries) == FAILURES_MAX + 1


def test_a_process_that_must_end_does_not_wait_for_a_database_that_is_away() -> None:
    database = Database(fails=1_000_000)

    async def work(writer: Writer) -> None:
        pending = Pending(2)
        writer.put(page(1), pending)
        writer.put(page(2), pending)
        writer.give_up_in(0.2)
        await pending.stored.wait()
        assert writer.lost == 2

    run(database, work)
    assert database.groups == []


def test_it_does_not_wait_for_each_group_again() -> None:
    """Hundreds of pages of many batches: the first group has found out, and once the time is up
    none is tried."""
    database = Database(fails=1_000_000)
    groups = 30

    async def work(writer: Writer) -> None:
        batches = [Pending(GROUP_PAGES) for _ in range(groups)]
        writer.give_up_in(0.0)
        for number in range(groups * GROUP_PAGES):
            writer.put(page(number), batches[number // GROUP_PAGES])
        for pending in batches:
            await pending.stored.wait()
        assert writer.lost == groups * GROUP_PAGES

    run(database, work)
    assert database.tries == [list(range(GROUP_PAGES))]


def test_a_database_that_answers_gets_every_group_however_late() -> None:
    database = Database()
    groups = 30

    async def work(writer: Writer) -> None:
        pending = Pending(groups * GROUP_PAGES)
        writer.give_up_in(0.0)
        for number in range(groups * GROUP_PAGES):
            writer.put(page(number), pending)
        await pending.stored.wait()
        assert writer.lost == 0

    run(database, work)
    assert list(chain(*database.groups)) == list(range(groups * GROUP_PAGES))


def test_one_group_that_is_refused_does_not_make_the_database_away() -> None:
    """It is dropped for its own sake; those after it are stored although the time is up."""
    database = Database(fails=FAILURES_MAX, error=ValueError("a fault of ours"))

    async def work(writer: Writer) -> None:
        pending = Pending(3 * GROUP_PAGES)
        writer.give_up_in(0.0)
        for number in range(3 * GROUP_PAGES):
            writer.put(page(number), pending)
        await pending.stored.wait()
        assert writer.lost == GROUP_PAGES

    run(database, work)
    assert [len(group) for group in database.groups] == [GROUP_PAGES, GROUP_PAGES]
