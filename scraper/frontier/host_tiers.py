"""Each host's blocks: one row for a site, host and starting level, changed under its lock by
`scraper.rules.escalation`.

A page's signal is part of the transaction that settles it, so a page whose lease was lost signals
nothing. Times are PostgreSQL's, in seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.rules import escalation
from scraper.rules.escalation import FLAP_S, HostRoute, Ladder


class TierKey(NamedTuple):
    """The key of a route. `start` is the level where the pages begin by their definition."""

    site_id: int
    host: str
    start: str


@dataclass(frozen=True, slots=True)
class TierSignal:
    """What one page met at a level. `sign` says what blocked it; None means that it was served.
    `probe` marks pages that probed a cheaper level."""

    key: TierKey
    steps: Ladder
    level: str
    page_id: int
    sign: str | None = None
    probe: bool = False


_COLUMNS = """site_id, host, start, level, blocked_pages, probe_every_s, probes_ok, fell_every_s,
       why,
       CAST(extract(epoch FROM host_routes.changed_at) AS float8) AS changed_at,
       CAST(extract(epoch FROM host_routes.probe_at) AS float8) AS probe_at,
       CAST(extract(epoch FROM host_routes.fell_at) AS float8) AS fell_at"""

ALL = sa.text(f"""
SELECT {_COLUMNS},
       CAST(extract(epoch FROM clock_timestamp()) AS float8) AS now FROM host_routes
""")

NOW = sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)")

HOLD = sa.text(f"""
WITH asked AS (
    SELECT * FROM jsonb_to_recordset(CAST(:keys AS jsonb))
  AS a(site_id int, host text, start text))
SELECT {_COLUMNS} FROM host_routes JOIN asked USING (site_id, host, start)
 ORDER BY site_id, host, start FOR UPDATE OF host_routes
""")

# Inserts a row to lock where there is none, at the starting level.
MAKE = sa.text("""
INSERT INTO host_routes (site_id, host, start, level, changed_at, blocked_pages, probe_every_s,
                         probes_ok, fell_every_s, why)
SELECT site_id, host, start, start, now(), '{}', :every, 0, :every, ''
  FROM jsonb_to_recordset(CAST(:keys AS jsonb)) AS a(site_id int, host text, start text)
 ORDER BY site_id, host, start
ON CONFLICT DO NOTHING
""")

KEEP = sa.text("""
UPDATE host_routes
   SET level = :level, changed_at = to_timestamp(:changed_at), blocked_pages = :blocked_pages,
       probe_at = to_timestamp(CAST(:probe_at AS float8)), probe_every_s = :probe_every_s,
       probes_ok = :probes_ok,
       fell_at = to_timestamp(CAST(:fell_at AS float8)), fell_every_s = :fell_every_s, why = :why
 WHERE site_id = :site_id AND host = :host AND start = :start
""")

_FIELDS = [field.name for field in fields(HostRoute)]

FORGET = sa.text(
    "DELETE FROM host_routes WHERE site_id = :site_id AND host = :host AND start = :start"
)


def read_routes(connection: sa.Connection) -> tuple[dict[TierKey, HostRoute], float]:
    """Returns all routes and PostgreSQL's time (0 without routes). Only hosts that block have a
    route, so there are few."""
    rows = connection.execute(ALL).all()
    return dict(map(_route_of, rows)), rows[0].now if rows else 0.0


def database_time(connection: sa.Connection) -> float:
    return float(connection.execute(NOW).scalar_one())


def apply_signals(connection: sa.Connection, signals: Sequence[TierSignal]) -> None:
    """Applies signals in their order. A host without a row gets one only if it blocks."""
    if not signals:
        return
    blocked = {signal.key for signal in signals if signal.sign is not None}
    if blocked:
        connection.execute(MAKE, {"keys": _keys_json(blocked), "every": escalation.PROBE_FIRST_S})
    held = _lock_routes(connection, {signal.key for signal in signals})
    if not held:
        return
    at = database_time(connection)
    routes, changed = dict(held), set()
    for signal in signals:
        route = routes.get(signal.key)
        if route is None:
            continue
        if signal.sign is None:
            after = escalation.record_success(
                route, signal.steps, signal.level, at, probe=signal.probe
            )
        else:
            after = escalation.record_block(
                route,
                signal.steps,
                signal.level,
                signal.page_id,
                signal.sign,
                at,
                probe=signal.probe,
            )
        if after is not route:
            routes[signal.key] = after
            changed.add(signal.key)
    for key in sorted(changed):
        _store_route(connection, key, routes[key], at)


def begin_probe(connection: sa.Connection, key: TierKey, steps: Ladder) -> bool:
    """Begins a probe if one is due. Returns True if the caller is the probe."""
    route = _lock_routes(connection, {key}).get(key)
    at = database_time(connection)
    if route is None or not escalation.is_probe_due(route, steps, at):
        return False
    _store_route(connection, key, escalation.begin_probe(route, at), at)
    return True


def _lock_routes(connection: sa.Connection, keys: Iterable[TierKey]) -> dict[TierKey, HostRoute]:
    return dict(map(_route_of, connection.execute(HOLD, {"keys": _keys_json(keys)})))


def _store_route(connection: sa.Connection, key: TierKey, route: HostRoute, at: float) -> None:
    forgotten = route.fell_at is None or at - route.fell_at > FLAP_S
    if route.level == key.start and not route.blocked_pages and forgotten:
        connection.execute(FORGET, key._asdict())
        return
    values = {**asdict(route), **key._asdict(), "blocked_pages": list(route.blocked_pages)}
    connection.execute(KEEP, values)


def _keys_json(keys: Iterable[TierKey]) -> str:
    return dumps([key._asdict() for key in sorted(keys)])


def _route_of(row: sa.Row[tuple[object, ...]]) -> tuple[TierKey, HostRoute]:
    values = {name: getattr(row, name) for name in _FIELDS}
    values["blocked_pages"] = tuple(row.blocked_pages)
    return TierKey(row.site_id, row.host, row.start), HostRoute(**values)
