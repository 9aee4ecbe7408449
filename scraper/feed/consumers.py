"""Consumers: named positions in the feed of changes, for one site or for all.

One process at a time reads for a consumer. It takes a lock (`hold_consumer`) that ends with its
transaction. If an outage ends the connection and another process begins, the position moves for
only one of the two (`advance_position`), and the other one ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa

from scraper.errors import BusyError
from scraper.feed import store

_LOCK = "hashtextextended('scraper: consumer ' || :name || ' ' || :site, 0)"
LOCK = sa.text(f"SELECT pg_try_advisory_xact_lock({_LOCK})")
# The transaction is open for as long as the process reads. It has no snapshot, so it delays no
# VACUUM.
PATIENCE = sa.text("SET LOCAL idle_in_transaction_session_timeout = 0")
# PostgreSQL ends the session of a killed process within this time.
LET_GO_S = 1.0

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


@contextmanager
def hold_consumer(engine: sa.Engine, name: str, site: str | None) -> Iterator[None]:
    """Holds a consumer, so that no other process reads as it. Raises `BusyError` if one does."""
    with engine.connect() as connection:
        try:
            connection.execute(PATIENCE)
            store.require_primary(connection)
            values = {"name": name, "site": site or ""}
            until = time.monotonic() + LET_GO_S
            while not connection.execute(LOCK, values).scalar():
                if time.monotonic() >= until:
                    raise BusyError(
                        f"another process reads as consumer {name!r} (fix: end it, or choose "
                        "another name: each consumer has every change)"
                    )
                time.sleep(LET_GO_S / 10)
            yield
        finally:
            # After an outage the lock is released already.
            with suppress(sa.exc.DBAPIError):
                connection.rollback()


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
