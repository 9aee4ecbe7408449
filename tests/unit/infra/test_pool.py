"""The slots of a worker: how many a batch takes up, and which batch begins when some are free."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from scraper import settings
from scraper.infra import slots
from scraper.infra.slots import LEAST_COST, SlotCost
from scraper.rules.routing import may_begin_batch
from scraper.runtime.pool import TaskPool

LIMIT = 2


class Batches:
    """Batches in a pool's threads: each waits until the test ends it, and has its place."""

    def __init__(self) -> None:
        self.begun: dict[str, SlotCost | None] = {}
        self.changed = threading.Condition()
        self.pool = TaskPool(LIMIT)
        self._may_end = threading.Event()

    def send(self, name: str, priority: int = 5, queue: str = "datacenter") -> None:
        def target(*_: object) -> None:
            with self.changed:
                self.begun[name] = slots.current_slot()
                self.changed.notify_all()
            self._may_end.wait(20)

        self.pool.on_apply(
            target, ("task", "id", {"delivery_info": {"priority": priority, "routing_key": queue}})
        )

    def have_begun(self, *names: str) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: set(self.begun) >= set(names), 10) and set(
                self.begun
            ) == set(names)

    def place(self, name: str) -> SlotCost:
        place = self.begun[name]
        assert place is not None
        return place

    def let_go(self) -> None:
        self._may_end.set()

    def end(self) -> None:
        self.let_go()
        self.pool.executor.shutdown()


@pytest.fixture
def batches() -> Iterator[Batches]:
    found = Batches()
    yield found
    found.end()


def test_a_batch_that_waits_for_its_hosts_lets_others_begin(batches: Batches) -> None:
    for name in "abcd":
        batches.send(name)
    assert batches.have_begun("a", "b")
    batches.place("a").weigh(busy=0, paced=100, full=100)
    assert batches.have_begun("a", "b"), "a part of a place and a whole one leave no whole one"
    batches.place("b").weigh(busy=50, paced=40, full=100)
    assert batches.have_begun("a", "b", "c")
    batches.place("c").weigh(busy=0, paced=1, full=100)
    assert batches.have_begun("a", "b", "c", "d")


def test_what_would_only_wait_is_left_to_other_workers(batches: Batches) -> None:
    wants = batches.pool.admission.wants
    for name in ("a", "b", "c"):
        batches.send(name, priority=5)
    assert batches.have_begun("a", "b")
    assert wants("datacenter", 5), "the next one may be at hand"
    batches.send("d", priority=5)
    assert not wants("datacenter", 5) and not wants("residential.eu", 9)
    assert wants("datacenter", 4), "what is more urgent does not wait behind them"
    assert wants("browser", 5), "which has places of its own"
    batches.place("a").weigh(busy=0, paced=1, full=100)
    batches.place("b").weigh(busy=0, paced=1, full=100)
    assert batches.have_begun("a", "b", "c") and wants("datacenter", 9)


def test_urgent_work_begins_before_lesser_work_and_runs_next_to_it(batches: Batches) -> None:
    for name, priority in (("low", 9), ("lower", 9), ("lowest", 9), ("urgent", 0)):
        batches.send(name, priority)
    assert batches.have_begun("low", "lower", "urgent")
    batches.place("low").weigh(0, 0, 100)
    batches.place("lower").weigh(0, 0, 100)
    assert batches.have_begun("low", "lower", "urgent"), "the urgent one has a whole place"
    batches.place("urgent").started()
    batches.place("urgent").weigh(50, 0, 100)
    assert batches.have_begun("low", "lower", "urgent", "lowest")


def test_a_batch_never_takes_more_than_a_place_or_less_than_its_thread() -> None:
    freed = []
    place = SlotCost(3, lambda: freed.append(1))
    for busy, paced, cost in (
        (100, 0, 1),
        (300, 0, 1),
        (50, 32, 0.52),
        (0, 0, LEAST_COST),
        (0, 100, 1 / 16),
    ):
        place.weigh(busy, paced, 100)
        assert place.cost == pytest.approx(cost)
    assert len(freed) == 2, "told when it became less, and only then"


def test_shares_of_places_add_up() -> None:
    assert may_begin_batch(3, {3: 15.0}, 16)
    assert not may_begin_batch(3, {3: 15.01}, 16)
    assert not may_begin_batch(3, {9: 15.5, 3: 0.25}, 16)
    assert may_begin_batch(9, {9: 14.0, 3: 12.0}, 16)


def test_who_is_in_no_pool_has_no_place() -> None:
    assert slots.current_slot() is None


def test_a_lesser_batch_does_not_overtake_an_urgent_one_that_is_being_claimed(
    batches: Batches,
) -> None:
    batches.send("urgent", priority=0)
    assert batches.have_begun("urgent")
    batches.send("lesser", priority=9)
    batches.send("as urgent", priority=0)
    assert batches.have_begun("urgent", "as urgent")
    batches.place("urgent").started()
    assert batches.have_begun("urgent", "as urgent")
    batches.place("urgent").weigh(0, 0, 100)
    batches.place("as urgent").weigh(0, 0, 100)
    assert batches.have_begun("urgent", "as urgent")
    batches.place("as urgent").started()
    assert batches.have_begun("urgent", "as urgent", "lesser")


def test_a_batch_whose_claim_failed_delays_no_other(batches: Batches) -> None:
    for name in ("urgent", "as urgent"):
        batches.send(name, priority=0)
    batches.send("lesser", priority=9)
    assert batches.have_begun("urgent", "as urgent")
    batches.let_go()
    assert batches.have_begun("urgent", "as urgent", "lesser")


def test_batches_for_browsers_have_few_places_of_their_own(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_BROWSER_PAGES", "2")
    settings.load.cache_clear()
    for name in ("shown", "shown too", "not yet"):
        batches.send(name, queue="browser.eu")
    assert batches.have_begun("shown", "shown too"), "two of them, where two pages are open at once"
    batches.send("fetched")
    assert batches.have_begun("shown", "shown too", "fetched"), (
        "they keep out nobody who needs no browser"
    )
    batches.place("shown").weigh(0, 0, 5)
    batches.place("shown too").weigh(0, 0, 5)
    assert batches.have_begun("shown", "shown too", "fetched", "not yet")
