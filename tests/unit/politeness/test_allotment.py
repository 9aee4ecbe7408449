"""How many requests a process may have in flight, and when it asks again, on a clock that the test
moves."""

from __future__ import annotations

import pytest

from scraper.politeness.allotment import CONTENDED_S, RENEWED_S, RETRY_S, Allotment
from scraper.politeness.fleet import Reservation


def reservation(allotment: int, *, interval_s: float = 0.0, contended: bool = False) -> Reservation:
    return Reservation(0.0, 0.0, interval_s, 0, allotment, contended)


def holding(in_flight: int, granted: int) -> Allotment:
    allotment = Allotment()
    allotment.in_flight = in_flight
    allotment.grant(reservation(granted), granted, 0.0)
    return allotment


def test_no_request_begins_while_too_many_are_in_flight() -> None:
    allotment = holding(3, 2)
    rooms = [allotment.room]
    for _ in range(2):
        allotment.release()
        rooms.append(allotment.room)
    assert rooms == [-1, 0, 1]


def test_the_fleet_is_asked_as_soon_as_enough_requests_have_ended() -> None:
    allotment = holding(3, 1)
    asks = []
    for _ in range(3):
        allotment.release()
        asks.append(allotment.renew_at == 0.0)
    assert asks == [False, True, True]


@pytest.mark.parametrize(("contended", "renewal_s"), [(False, RENEWED_S), (True, CONTENDED_S)])
def test_with_a_rate_it_is_renewed_sooner_where_others_wait(
    contended: bool, renewal_s: float
) -> None:
    allotment = Allotment()
    allotment.grant(reservation(2, interval_s=0.5, contended=contended), 4, 100.0)
    assert allotment.renew_at == 100.0 + renewal_s


def test_too_many_in_flight_are_reported_soon() -> None:
    allotment = holding(4, 4)
    allotment.grant(reservation(2, interval_s=0.5), 4, 100.0)
    assert allotment.renew_at == 100.0 + RETRY_S


def test_without_a_rate_the_wait_for_more_doubles_until_something_changes() -> None:
    allotment, waits = Allotment(), []
    for granted in (1, 1, 1, 1, 2, 2):
        allotment.grant(reservation(granted), 4, 100.0)
        waits.append(allotment.renew_at - 100.0)
    assert waits == [RETRY_S, 2 * RETRY_S, CONTENDED_S, CONTENDED_S, RETRY_S, 2 * RETRY_S]


def test_a_process_that_has_all_it_wants_asks_seldom() -> None:
    allotment = Allotment()
    allotment.grant(reservation(4), 4, 100.0)
    assert allotment.renew_at == 100.0 + CONTENDED_S
