"""A consumer is leased: its reader occupies no connection, and one that was killed or frozen is
followed by another one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.errors import BusyError
from scraper.feed import consumers
from scraper.feed.consumers import ConsumerLease, hold_consumer
from tests.support.making import rows
from tests.support.waiting import until

LEASED = """INSERT INTO consumer_locks VALUES ('lake', '', gen_random_uuid(), now() + '{}'::interval)
            RETURNING holder, until"""
BUSY = "another process reads as consumer 'lake'"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "RENEW_S", 0.1)
    monkeypatch.setattr(consumers, "LOOK_S", 0.05)


def held(engine: sa.Engine) -> list[tuple[object, ...]]:
    return [tuple(row) for row in rows(engine, "SELECT name, site FROM consumer_locks ORDER BY 2")]


def write(engine: sa.Engine, statement: str) -> list[tuple[Any, ...]]:
    with engine.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def ends(engine: sa.Engine) -> object:
    return rows(engine, "SELECT until FROM consumer_locks")


def test_one_reader_at_a_time_for_a_name_and_a_site(engine: sa.Engine) -> None:
    with hold_consumer(engine, "lake", None), hold_consumer(engine, "lake", "shop"):
        assert held(engine) == [("lake", ""), ("lake", "shop")]
        with pytest.raises(BusyError, match=BUSY), hold_consumer(engine, "lake", None):
            pass
    assert held(engine) == []
    with hold_consumer(engine, "lake", None):
        assert held(engine) == [("lake", "")]


def test_a_reader_occupies_no_connection(engine: sa.Engine) -> None:
    with hold_consumer(engine, "lake", None):
        seen = ends(engine)
        until(lambda: ends(engine) != seen)
        until(lambda: engine.pool.checkedout() == 0)  # type: ignore[attr-defined]


def test_the_lease_of_a_killed_process_ends(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ends by the server's clock alone.
    monkeypatch.setattr(consumers, "LEASE_S", 600.0)
    ((_, its_end),) = write(engine, LEASED.format("1 second"))
    with hold_consumer(engine, "lake", None):
        assert rows(engine, f"SELECT now() > '{its_end}' FROM consumer_locks") == [(True,)]
    assert held(engine) == []


def test_it_ends_also_if_the_servers_clock_was_set_back(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "LEASE_S", 0.5)
    ((its_holder, _),) = write(engine, LEASED.format("1 hour"))
    with hold_consumer(engine, "lake", None):
        ((holder,),) = rows(engine, "SELECT holder FROM consumer_locks")
        assert holder != its_holder
    assert held(engine) == []


def test_a_lease_outlasts_an_outage(engine: sa.Engine) -> None:
    with hold_consumer(engine, "lake", None):
        for _ in range(3):
            rows(
                engine,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            seen = ends(engine)
            until(lambda seen=seen: ends(engine) != seen)  # type: ignore[misc]
        # A promoted standby may lack it.
        assert write(engine, "DELETE FROM consumer_locks RETURNING name") == [("lake",)]
        until(lambda: held(engine) == [("lake", "")])
    assert held(engine) == []


def test_a_process_that_was_frozen_stores_nothing(engine: sa.Engine) -> None:
    frozen = ConsumerLease(engine, "lake", None)
    frozen.wait()
    ended = "UPDATE consumer_locks SET until = now() RETURNING name"
    assert write(engine, ended) == [("lake",)]
    with hold_consumer(engine, "lake", None) as lease:
        lease.set_position(0)
        with pytest.raises(BusyError, match=BUSY):
            frozen.set_position(0)
        stopped = threading.Event()
        stopped.set()
        frozen.keep(stopped)
        assert held(engine) == [("lake", "")]
