"""How far named consumers have read the feed of changes: one position each, for one site or for
all.

A consumer is read on by one process at a time. Who begins takes a lock (`held`) that goes with its
connection; should that be lost in an outage and another process begin meanwhile, the position moves
for one of the two only (`advance`), and the other one ends.
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
LOCK = sa.text(f"SELECT pg_try_advisory_lock({_LOCK})")
UNLOCK = sa.text(f"SELECT pg_advisory_unlock({_LOCK})")
# PostgreSQL ends the session of a process that was killed within this time.
LET_GO_S = 1.0

ADVANCE = sa.text("""
UPDATE consumers SET position = :position, read_at = now()
 WHERE name = :name AND site = :site AND position = :before
""")

# The position is set, whatever it was.
PUT = sa.text("""
INSERT INTO consumers (name, site, position) VALUES (:name, :site, :position)
ON CONFLICT (name, site) DO UPDATE SET position = excluded.position, read_at = now()
""")

# The count stops at a bound, since nobody needs a larger one exactly.
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
    """Nobody else reads as this consumer meanwhile. Raises `BusyError` where somebody does."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        try:
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
            # After an outage the lock is released already.
            with suppress(sa.exc.DBAPIError):
                # The next process need not wait for the end of this session.
                connection.execute(UNLOCK, values)
        finally:
            # The lock goes with the connection, which must not go back to the pool with it.
            connection.invalidate()


def read_position(connection: sa.Connection, name: str, site: str | None) -> int | None:
    query = sa.text("SELECT position FROM consumers WHERE name = :name AND site = :site")
    cursor = connection.execute(query, {"name": name, "site": site or ""}).scalar()
    return None if cursor is None else int(cursor)


def set_position(connection: sa.Connection, name: str, site: str | None, position: int) -> None:
    connection.execute(PUT, {"name": name, "site": site or "", "position": position})


def advance_position(
    connection: sa.Connection, name: str, site: str | None, before: int, position: int
) -> None:
    """Raises `BusyError` where the consumer is not at `before` any more."""
    values = {"name": name, "site": site or "", "before": before, "position": position}
    if connection.execute(ADVANCE, values).rowcount != 1:
        raise BusyError(
            f"consumer {name!r} was read on, set back or forgotten by another process meanwhile"
        )


def list_consumers(connection: sa.Connection) -> list[sa.Row[Any]]:
    return list(connection.execute(LIST))


def forget_consumer(connection: sa.Connection, name: str) -> int:
    """Returns how many there were: one a site."""
    return connection.execute(
        sa.text("DELETE FROM consumers WHERE name = :name"), {"name": name}
    ).rowcount
