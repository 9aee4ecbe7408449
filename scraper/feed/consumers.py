"""Consumers: named positions in the feed of changes, for one site or for all.

One process at a time reads for a consumer. It takes a lease (`hold_consumer`), and a thread renews
it. If an outage or a frozen process outlasts the lease and another process begins, the position
moves for only one of the two (`advance_position`), and the other one ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, NoReturn
from uuid import uuid4

import sqlalchemy as sa

from scraper.errors import BusyError
from scraper.feed import store

# A lease ends this long after its last renewal, by the server's clock. Its holder renews it at the
# second interval; a process that waits for it looks at the third.
LEASE_S, RENEW_S, LOOK_S = 10.0, 3.0, 0.2
# A reader that ends waits for at most this long until its lease is released.
RELEASE_S = 3.0

# `dead` is an end that has not moved for a whole lease, whatever the server's clock says.
TAKE = sa.text("""
INSERT INTO consumer_locks AS l (name, site, holder, until)
VALUES (:name, :site, :holder, now() + make_interval(secs => :lease))
ON CONFLICT (name, site) DO UPDATE SET holder = excluded.holder, until = excluded.until
 WHERE l.until < now() OR l.holder = excluded.holder OR l.until = CAST(:dead AS timestamptz)
""")
UNTIL = sa.text("SELECT until FROM consumer_locks WHERE name = :name AND site = :site")
RELEASE = sa.text("""
DELETE FROM consumer_locks WHERE name = :name AND site = :site AND holder = :holder
""")

ADVANCE = sa.text("""
UPDATE consumers SET position = :position, read_at = now()
 WHERE name = :name AND site = :site AND position = :before
""")

# Sets the position, whatever it was.
PUT = sa.text("""
INSERT INTO consumers (name, site, position) VALUES (:name, :site, :position)
ON CONFLICT (name, site) DO UPDATE SET position = excluded.position, read_at = now()
""")

# The count stops at a bound: a larger number need not be exact.
LIST = sa.text("""
SELECT c.name, c.site, c.position, c.created_at, c.read_at, f.trimmed > c.position AS expired,
       (SELECT count(*) FROM (
           SELECT FROM changes e WHERE e.id > c.position
              AND (c.site = '' OR e.site_id = (SELECT id FROM sites s WHERE s.name = c.site))
            LIMIT 1000000) AS unread) AS behind
  FROM consumers c CROSS JOIN feed f ORDER BY c.name, c.site
""")


class ConsumerLease:
    """The right to read as a consumer. It occupies no connection."""

    def __init__(self, engine: sa.Engine, name: str, site: str | None) -> None:
        self._engine = engine
        self._name = name
        self._site = site
        self._values = {"name": name, "site": site or "", "holder": uuid4(), "lease": LEASE_S}

    def set_position(self, position: int) -> None:
        """Sets the consumer's position, whatever it was. Raises `BusyError` if another process
        holds the lease by now."""
        with self._engine.begin() as connection:
            if not self._take_lease(connection):
                self._refuse_process()
            set_position(connection, self._name, self._site, position)

    def wait(self) -> None:
        """Takes it, or waits until that of a killed process has ended. Raises `BusyError` if
        another process renews its own."""
        seen, dead_at = None, time.monotonic() + LEASE_S
        while True:
            dead = seen if time.monotonic() > dead_at else None
            with self._engine.begin() as connection:
                store.require_primary(connection)
                if self._take_lease(connection, dead):
                    return
                until = connection.execute(UNTIL, self._values).scalar()
            if seen and until and until != seen:
                self._refuse_process()
            seen = until
            time.sleep(LOOK_S)

    def keep(self, stop: threading.Event) -> None:
        """Renews it until `stop` is set, also after outages, and gives it back."""
        while not stop.wait(RENEW_S):
            with suppress(sa.exc.SQLAlchemyError), self._engine.begin() as connection:
                self._take_lease(connection)
        with suppress(sa.exc.SQLAlchemyError), self._engine.begin() as connection:
            connection.execute(RELEASE, self._values)

    def _take_lease(self, connection: sa.Connection, dead: datetime | None = None) -> bool:
        return connection.execute(TAKE, {**self._values, "dead": dead}).rowcount == 1

    def _refuse_process(self) -> NoReturn:
        raise BusyError(
            f"another process reads as consumer {self._name!r} (fix: end it, or choose another "
            "name: each consumer has every change)"
        )


@contextmanager
def hold_consumer(engine: sa.Engine, name: str, site: str | None) -> Iterator[ConsumerLease]:
    """Holds a consumer, so that no other process reads as it. Raises `BusyError` if one does."""
    lease, stop = ConsumerLease(engine, name, site), threading.Event()
    lease.wait()
    thread = threading.Thread(target=lease.keep, args=(stop,), daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        stop.set()
        # During an outage the lease ends by itself.
        thread.join(RELEASE_S)


def read_position(connection: sa.Connection, name: str, site: str | None) -> int | None:
    query = sa.text("SELECT position FROM consumers WHERE name = :name AND site = :site")
    cursor = connection.execute(query, {"name": name, "site": site or ""}).scalar()
    return None if cursor is None else int(cursor)


def set_position(connection: sa.Connection, name: str, site: str | None, position: int) -> None:
    connection.execute(PUT, {"name": name, "site": site or "", "position": position})


def advance_position(
    connection: sa.Connection, name: str, site: str | None, before: int, position: int
) -> None:
    """Moves the position. Raises `BusyError` if it is no longer at `before`."""
    values = {"name": name, "site": site or "", "before": before, "position": position}
    if connection.execute(ADVANCE, values).rowcount != 1:
        raise BusyError(
            f"another process advanced, set back or forgot consumer {name!r} at the same time"
        )


def list_consumers(connection: sa.Connection) -> list[sa.Row[Any]]:
    return list(connection.execute(LIST))


def forget_consumer(connection: sa.Connection, name: str) -> int:
    """Deletes a consumer. Returns how many positions it had: one for each site."""
    return connection.execute(
        sa.text("DELETE FROM consumers WHERE name = :name"), {"name": name}
    ).rowcount
