"""The overrides that operators set for hosts, in PostgreSQL: a pause, or parts of a budget.

Workers read them with each claim and every two seconds. `scraper.rules.budget` decides what an
override means for a budget; `scraper.views.host_states` shows hosts.
"""

from __future__ import annotations

import sqlalchemy as sa

from scraper.rules.budget import Override
from scraper.sites.grammar import scalars

OVERRIDES = sa.text("SELECT host, paused, rate, concurrency, burst FROM hosts")

PAUSE = sa.text("""
INSERT INTO hosts AS h (host, paused) VALUES (:host, :paused)
ON CONFLICT (host) DO UPDATE SET paused = excluded.paused, updated_at = now()
   WHERE h.paused <> excluded.paused
RETURNING host
""")

SET = sa.text("""
INSERT INTO hosts AS h (host, rate, concurrency, burst) VALUES (:host, :rate, :concurrency, :burst)
ON CONFLICT (host) DO UPDATE
   SET rate = coalesce(excluded.rate, h.rate),
       concurrency = coalesce(excluded.concurrency, h.concurrency),
       burst = coalesce(excluded.burst, h.burst), updated_at = now()
""")

RESET = sa.text("""
UPDATE hosts SET rate = NULL, concurrency = NULL, burst = NULL, updated_at = now()
 WHERE host = :host
""")

# A row without an override is deleted.
TIDY = sa.text("""
DELETE FROM hosts
 WHERE host = :host AND NOT paused AND rate IS NULL AND concurrency IS NULL AND burst IS NULL
""")


def read_overrides(connection: sa.Connection) -> dict[str, Override]:
    """Returns the override of each host that has one: few, so they are read all at once."""
    overrides = {}
    for row in connection.execute(OVERRIDES):
        interval_s = None
        if row.rate is not None:
            per_s = scalars.parse_rate(row.rate)
            interval_s = 1 / per_s if per_s else 0.0
        overrides[row.host] = Override(row.paused, interval_s, row.concurrency, row.burst)
    return overrides


def set_paused(connection: sa.Connection, host: str, *, paused: bool) -> bool:
    """Returns whether that changed anything."""
    if not paused:
        query = sa.text("SELECT paused FROM hosts WHERE host = :host")
        if not connection.execute(query, {"host": host}).scalar():
            return False
    changed = connection.execute(PAUSE, {"host": host, "paused": paused}).first() is not None
    connection.execute(TIDY, {"host": host})
    return changed


def set_budget(
    connection: sa.Connection,
    host: str,
    *,
    rate: str | None,
    concurrency: int | None,
    burst: int | None,
    reset: bool,
) -> None:
    """Sets the override of a host's budget; None keeps the earlier value, which `reset` removes
    first."""
    if reset:
        connection.execute(RESET, {"host": host})
    values = {"host": host, "rate": rate, "concurrency": concurrency, "burst": burst}
    if any(value is not None for value in (rate, concurrency, burst)):
        connection.execute(SET, values)
    connection.execute(TIDY, {"host": host})


def is_known(connection: sa.Connection, host: str) -> bool:
    query = sa.text("SELECT EXISTS (SELECT FROM pages WHERE host = :host)")
    return bool(connection.execute(query, {"host": host}).scalar())
