"""Which batches work together, and which alone. Threads that wait are seen in `SharedExclusiveLock` itself, never
guessed by the time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from scraper.infra.slots import SharedExclusiveLock
from tests.support.waiting import GENEROUS_S, until


class Guest(threading.Thread):
    """Takes a place, stays until the test lets it leave, and notes what it was given."""

    def __init__(
        self, places: SharedExclusiveLock, *, alone: bool = False, timeout_s: float = GENEROUS_S
    ) -> None:
        super().__init__(daemon=True)
        self.places, self.alone, self.timeout_s = places, alone, timeout_s
        self.inside, self.leave = threading.Event(), threading.Event()
        self.free: bool | None = None
        self.start()

    def run(self) -> None:
        if self.alone:
            with self.places.exclusive(self.timeout_s) as self.free:
                self._stay()
        else:
            with self.places.shared():
                self._stay()

    def _stay(self) -> None:
        self.inside.set()
        assert self.leave.wait(GENEROUS_S)

    def came_in(self) -> bool:
        return self.inside.wait(GENEROUS_S)

    def gone(self) -> None:
        self.leave.set()
        self.join(GENEROUS_S)
        assert not self.is_alive()


@pytest.fixture
def places() -> SharedExclusiveLock:
    return SharedExclusiveLock()


def waits(places: SharedExclusiveLock, guests: int) -> None:
    """Returns once this many threads wait for a place."""

    def counted() -> bool:
        with places._changed:
            return len(places._changed._waiters) == guests  # type: ignore[attr-defined]

    until(counted, f"{guests} threads wait", every_s=0.001)


def test_batches_work_at_the_same_time(places: SharedExclusiveLock) -> None:
    guests = [Guest(places) for _ in range(8)]
    assert all(guest.came_in() for guest in guests)
    for guest in guests:
        guest.gone()


def test_an_exclusive_batch_waits_for_all_others(places: SharedExclusiveLock) -> None:
    guests = [Guest(places) for _ in range(3)]
    assert all(guest.came_in() for guest in guests)
    single = Guest(places, alone=True)
    for guest in guests:
        waits(places, 1)
        assert not single.inside.is_set()
        guest.gone()
    assert single.came_in() and single.free
    single.gone()


def test_no_batch_begins_while_an_exclusive_one_waits(places: SharedExclusiveLock) -> None:
    """Otherwise a busy worker would never have a moment for it."""
    first = Guest(places)
    assert first.came_in()
    single = Guest(places, alone=True)
    waits(places, 1)
    late = [Guest(places) for _ in range(3)]
    waits(places, 4)
    first.gone()
    assert single.came_in() and single.free
    assert not any(guest.inside.is_set() for guest in late)
    single.gone()
    assert all(guest.came_in() for guest in late)
    for guest in late:
        guest.gone()


def test_two_that_want_to_be_alone_take_turns(places: SharedExclusiveLock) -> None:
    first = Guest(places, alone=True)
    assert first.came_in() and first.free
    second = Guest(places, alone=True)
    waits(places, 1)
    assert not second.inside.is_set()
    first.gone()
    assert second.came_in() and second.free
    second.gone()


def test_an_exclusive_batch_that_waits_too_long_gets_nothing_and_delays_no_other(
    places: SharedExclusiveLock,
) -> None:
    busy = Guest(places)
    assert busy.came_in()
    single = Guest(places, alone=True, timeout_s=0.0)
    assert single.came_in()
    assert single.free is False
    beside = Guest(places)
    assert beside.came_in(), "while it is still there"
    for guest in (single, beside, busy):
        guest.gone()
    assert (places._shared, places._exclusive) == (0, 0)


def test_one_that_gives_up_lets_in_those_who_waited_behind_it(places: SharedExclusiveLock) -> None:
    busy = Guest(places)
    assert busy.came_in()
    single = Guest(places, alone=True, timeout_s=0.2)
    late = Guest(places)
    assert late.came_in() and single.came_in()
    assert single.free is False
    for guest in (single, late, busy):
        guest.gone()


def test_a_second_one_that_gives_up_leaves_the_first_one_alone(places: SharedExclusiveLock) -> None:
    first = Guest(places, alone=True)
    assert first.came_in() and first.free
    second = Guest(places, alone=True, timeout_s=0.0)
    assert second.came_in()
    assert second.free is False
    second.gone()
    late = Guest(places)
    waits(places, 1)
    assert not late.inside.is_set()
    first.gone()
    assert late.came_in()
    late.gone()


@pytest.mark.parametrize("alone", [False, True])
def test_a_place_is_free_again_after_an_error(places: SharedExclusiveLock, alone: bool) -> None:
    with (
        pytest.raises(ValueError, match="a fault of ours"),
        places.exclusive(1.0) if alone else places.shared(),
    ):
        raise ValueError("a fault of ours")
    with places.exclusive(0.0) as free:
        assert free


@pytest.mark.parametrize("seed", range(5))
def test_no_batch_ever_runs_with_an_exclusive_one(places: SharedExclusiveLock, seed: int) -> None:
    lock, inside, wrong, singles = threading.Lock(), {False: 0, True: 0}, [], []

    @contextmanager
    def noted(alone: bool) -> Iterator[None]:
        with lock:
            inside[alone] += 1
            if inside[True] and inside[True] + inside[False] > 1:
                wrong.append(dict(inside))
        yield
        with lock:
            inside[alone] -= 1

    def works(rng: random.Random) -> Callable[[], None]:
        def work() -> None:
            for _ in range(200):
                if rng.random() < 0.2:
                    with places.exclusive(rng.choice((0.0, GENEROUS_S))) as free:
                        singles.append(free)
                        if free:
                            with noted(True):
                                pass
                else:
                    with places.shared(), noted(False):
                        pass

        return work

    threads = [
        threading.Thread(target=works(random.Random(f"{seed} {n}")), daemon=True) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS_S)
        assert not thread.is_alive(), "it waits for ever"
    assert wrong == []
    assert any(singles)
    assert (places._shared, places._exclusive) == (0, 0)
