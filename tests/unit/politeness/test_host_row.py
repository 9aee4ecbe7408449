"""What Redis holds of a host, decoded."""

from __future__ import annotations

import pytest

from scraper.politeness.host_row import HostRow

NOW_US = 1_000_000_000


def test_a_row_as_the_scripts_write_it() -> None:
    host = {
        b"tat": b"1002500000",
        b"rest": b"1030000000",
        b"why": b"429",
        b"factor": b"0.250000000",
        b"base": b"40000",
        b"interval": b"500000",
        b"concurrency": b"4",
        b"burst": b"2",
    }
    allotments = [b"3:4:1000000001:0:0:1:4", b"9:9:999999999:0:0:1:4"]
    row = HostRow.from_redis(host, allotments, NOW_US)
    assert row.in_flight == 3, "the other process's allotment has expired"
    assert (row.pace, row.base_interval_s) == (0.25, 0.04)
    assert (row.interval_s, row.concurrency, row.burst) == (0.5, 4, 2)
    assert (row.rest_s, row.why) == (30.0, "429")
    assert row.next_slot_s == pytest.approx(2.5)


def test_a_host_that_redis_does_not_know() -> None:
    row = HostRow.from_redis({}, [], NOW_US)
    assert (row.in_flight, row.pace, row.base_interval_s) == (0, 1.0, 1.0)
    assert (row.interval_s, row.concurrency, row.burst) == (None, None, None)
    assert (row.rest_s, row.why, row.next_slot_s) == (None, None, None)


def test_what_has_passed_is_not_waited_for() -> None:
    host = {b"tat": b"999999999", b"rest": b"1000000000", b"why": b"503"}
    row = HostRow.from_redis(host, [], NOW_US)
    assert (row.rest_s, row.why, row.next_slot_s) == (None, None, None)
