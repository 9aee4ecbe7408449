"""The slots of one host, on a clock that the test moves."""

from __future__ import annotations

import pytest

from scraper.politeness.fleet import Reservation
from scraper.politeness.slot_queue import LATE_LEAST_S, LATE_S, SlotQueue
from scraper.rules.budget import UnusedSlots


def queue_of(*, first_at: float = 10.0, interval_s: float = 0.5, slots: int = 3) -> SlotQueue:
    queue = SlotQueue()
    queue.add(Reservation(0.0, first_at, interval_s, slots, allotment=1, end=77))
    return queue


def test_slots_come_in_order_and_the_host_is_busy_until_after_the_last() -> None:
    queue = queue_of()
    assert (len(queue), queue.next_at, queue.busy_until) == (3, 10.0, 11.5)
    assert [queue.take(at, at) for at in (10.0, 10.5, 11.0)] == [True] * 3
    assert not queue


def test_a_slot_is_used_until_it_is_late_and_then_dropped() -> None:
    queue = queue_of()
    assert not queue.is_late(10.0 + LATE_S) and queue.is_late(10.001 + LATE_S)
    assert not queue.take(10.0, 10.001 + LATE_S)
    queue.drop_late(10.6)
    assert queue.next_at == 11.0 and queue.take(11.0, 11.0 + LATE_S)


@pytest.mark.parametrize(
    ("interval_s", "late_s"), [(4.0, LATE_S), (0.1, 0.025), (0.001, LATE_LEAST_S)]
)
def test_a_fast_hosts_slots_are_late_sooner(interval_s: float, late_s: float) -> None:
    assert queue_of(interval_s=interval_s).late_s == pytest.approx(late_s)


def test_a_slot_that_was_given_up_is_not_taken() -> None:
    queue = queue_of()
    queue.clear()
    assert not queue.take(10.0, 10.0)
    queue.add(Reservation(0.0, 12.0, 0.5, 1, allotment=1))
    assert not queue.take(10.0, 12.0) and len(queue) == 1


def test_a_rest_drops_the_slots_in_hand_and_those_that_fall_into_it() -> None:
    queue = queue_of()
    queue.rest(until=20.0)
    assert not queue and queue.rests_until == 20.0
    queue.rest(until=15.0)
    assert queue.rests_until == 20.0, "a shorter rest does not end a longer one"
    queue.add(Reservation(0.0, 19.5, 0.5, 2, allotment=1))
    assert not queue.take(19.5, 19.5) and queue.take(20.0, 20.0)


def test_without_a_pace_only_the_rest_counts() -> None:
    queue = queue_of()
    queue.add(Reservation(12.0, 12.0, 0.0, 50, allotment=1))
    assert (len(queue), queue.interval_s, queue.rests_until) == (0, 0.0, 12.0)


def test_unused_slots_name_the_reservation_that_they_came_from() -> None:
    queue = queue_of()
    queue.take(10.0, 10.0)
    queue.add(Reservation(0.0, 11.5, 0.6, 0, allotment=1, end=99))
    assert queue.unused == UnusedSlots(end=77, slots=2, interval_s=0.5)
