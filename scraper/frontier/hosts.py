"""Hosts as operators see and steer them: what they said, in PostgreSQL for good; what the fleet
does now, in Redis.

A pause or an override is a row that workers read with every claim and every two seconds. Refuses to
decide: what an override means for a budget is `scraper.rules.budget`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import redis
import sqlalchemy as sa

from scraper.frontier.due import LEASED
from scraper.rules.budget import Override
from scraper.sites.grammar import scalars

DUE_QUEUES = sa.text("""
WITH RECURSIVE q AS (
    (SELECT queue FROM pages WHERE status = 'due' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM pages WHERE status = 'due' AND queue > q.queue ORDER BY queue LIMIT 1)
      FROM q
     WHERE q.queue IS NOT NULL
) SELECT queue FROM q WHERE queue IS NOT NULL
""")

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

# A row that says nothing any more is none.
RESET = sa.text(
    "UPDATE hosts SET rate = NULL, concurrency = NULL, burst = NULL, updated_at = now() WHERE host = :host"
)
TIDY = sa.text("""
DELETE FROM hosts WHERE host = :host AND NOT paused AND rate IS NULL AND concurrency IS NULL
AND burst IS NULL
""")

OPEN_PAGES = sa.text(f"""
SELECT p.host, count(*) FILTER (WHERE p.not_before <= now() AND p.id NOT IN {LEASED}) AS due,
       count(*) FILTER (WHERE p.not_before > now()) AS later,
       count(*) FILTER (WHERE p.not_before <= now() AND p.id IN {LEASED}) AS leased,
       array_agg(DISTINCT s.name ORDER BY s.name) AS sites,
       CASE WHEN count(c.rate_per_s) > 0
            THEN min(c.rate_per_s) END AS rate_per_s, min(c.concurrency) AS concurrency,
       min(coalesce(CAST(c.definition ->> 'burst' AS int), 1)) AS burst
  FROM pages p JOIN crawls c ON c.id = p.crawl_id JOIN sites s ON s.id = c.site_id
 WHERE p.status = 'due' AND (CAST(:host AS text) IS NULL OR p.host = :host)
 GROUP BY p.host
""")


ROUTES = sa.text("""
SELECT r.host, s.name AS site, r.start, r.level, r.why,
       CAST(greatest(0, extract(epoch FROM r.probe_at - now())) AS float8) AS probe_s
  FROM host_routes r JOIN sites s ON s.id = r.site_id
 WHERE r.level <> r.start AND (CAST(:host AS text) IS NULL OR r.host = :host)
 ORDER BY r.host, s.name, r.start
""")


# Of few hosts: a step of the due index for each queue and host.
OPEN_OF = sa.text(f"""
SELECT h.host, open.due, open.later FROM unnest(CAST(:hosts AS text[])) AS h(host)
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE p.not_before <= now()) AS due,
               count(*) FILTER (WHERE p.not_before > now()) AS later
          FROM unnest(CAST(:queues AS text[])) AS q(queue)
          JOIN pages p ON p.status = 'due' AND p.queue = q.queue AND p.host = h.host
                          AND p.id NOT IN {LEASED}) open
""")


OF_SITE = sa.text("""
SELECT DISTINCT p.host FROM pages p JOIN crawls c ON c.id = p.crawl_id
 JOIN sites s ON s.id = c.site_id
 WHERE s.name = :site AND c.status IN ('planned', 'running') AND p.status = 'due'
""")


@dataclass(slots=True)
class HostState:
    """One host now. `routes`: the levels that sites' pages need there by now, with the next probe
    of a lower one in seconds. `rate_per_s` None: unlimited. `pace`: the part of the budget that is
    in force, 1 being all of it. `rests_s` and `next_slot_s` count from now, None where there is
    nothing to wait for."""

    host: str
    rate_per_s: float | None = None
    concurrency: int | None = None
    burst: int | None = None
    pace: float = 1.0
    pace_per_s: float | None = None
    in_flight: int = 0
    next_slot_s: float | None = None
    rests_s: float | None = None
    why: str | None = None
    paused: bool = False
    override: dict[str, str | int] = field(default_factory=dict)
    due: int = 0
    later: int = 0
    leased: int = 0
    sites: list[str] = field(default_factory=list)
    routes: list[dict[str, str | float | None]] = field(default_factory=list)


def overrides(connection: sa.Connection) -> dict[str, Override]:
    """Of every host of which somebody said something. Few: read whole."""
    return {
        row.host: _override(row.paused, row.rate, row.concurrency, row.burst)
        for row in connection.execute(OVERRIDES)
    }


def set_paused(connection: sa.Connection, host: str, *, paused: bool) -> bool:
    """Returns whether that changed anything."""
    if not paused:
        known = connection.execute(
            sa.text("SELECT paused FROM hosts WHERE host = :host"), {"host": host}
        ).scalar()
        if not known:
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
    """An operator's override; None leaves what there is. `reset` first forgets what was said
    before."""
    if reset:
        connection.execute(RESET, {"host": host})
    values = {"host": host, "rate": rate, "concurrency": concurrency, "burst": burst}
    if any(value is not None for value in (rate, concurrency, burst)):
        connection.execute(SET, values)
    connection.execute(TIDY, {"host": host})


def is_known(connection: sa.Connection, host: str) -> bool:
    return bool(
        connection.execute(
            sa.text("SELECT EXISTS (SELECT FROM pages WHERE host = :host)"), {"host": host}
        ).scalar()
    )


def states(
    connection: sa.Connection, client: redis.Redis, host: str | None = None
) -> list[HostState]:
    """Every host with open pages, with an override, or of which the fleet knows something now; or
    the one asked for."""
    found: dict[str, HostState] = {}
    for row in connection.execute(OPEN_PAGES, {"host": host}):
        found[row.host] = HostState(
            row.host, row.rate_per_s, row.concurrency, row.burst, due=row.due, later=row.later, leased=row.leased,
            sites=row.sites,
        )  # fmt: skip
    for row in connection.execute(OVERRIDES):
        if host in (None, row.host):
            state = found.setdefault(row.host, HostState(row.host))
            state.paused = row.paused
            given = {"rate": row.rate, "concurrency": row.concurrency, "burst": row.burst}
            state.override = {key: value for key, value in given.items() if value is not None}
            if row.rate is not None:
                state.rate_per_s = scalars.per_second(row.rate)
            state.concurrency = row.concurrency or state.concurrency
            state.burst = row.burst or state.burst
    for row in connection.execute(ROUTES, {"host": host}):
        found.setdefault(row.host, HostState(row.host)).routes.append(
            {
                "site": row.site,
                "start": row.start,
                "level": row.level,
                "why": row.why,
                "probe_s": row.probe_s,
            }
        )
    prefix = "scraper:host:"
    live = (
        [prefix + host]
        if host
        else [key.decode() for key in client.scan_iter(f"{prefix}*", count=1000)]
    )
    for key in live:
        found.setdefault(key.removeprefix(prefix), HostState(key.removeprefix(prefix)))
    _add_live(found, client)
    return [found[name] for name in sorted(found)]


def live(client: redis.Redis) -> dict[str, HostState]:
    """What the fleet knows of hosts now, from Redis alone: rests, paces, requests under way."""
    prefix = "scraper:host:"
    names = (
        key.decode().removeprefix(prefix) for key in client.scan_iter(f"{prefix}*", count=1000)
    )
    found = {name: HostState(name) for name in names}
    _add_live(found, client)
    return found


def troubled(connection: sa.Connection, client: redis.Redis) -> list[HostState]:
    """Hosts that rest, are slower than their budget, are paused, or need a higher level; those that
    rest longest first. Reads no more of the frontier than their own pages."""
    found = live(client)
    for row in connection.execute(OVERRIDES):
        if row.paused:
            found.setdefault(row.host, HostState(row.host)).paused = True
    for row in connection.execute(ROUTES, {"host": None}):
        found.setdefault(row.host, HostState(row.host)).routes.append(
            {
                "site": row.site,
                "start": row.start,
                "level": row.level,
                "why": row.why,
                "probe_s": row.probe_s,
            }
        )
    some = {
        name: state
        for name, state in found.items()
        if state.paused or state.routes or state.pace < 1 or state.rests_s is not None
    }
    values = {"hosts": list(some), "queues": list(connection.execute(DUE_QUEUES).scalars())}
    for row in connection.execute(OPEN_OF, values):
        some[row.host].due, some[row.host].later = row.due, row.later
    return sorted(
        some.values(),
        key=lambda state: (-(state.rests_s or 0.0), not state.paused, state.pace, state.host),
    )


def _add_live(found: Mapping[str, HostState], client: redis.Redis) -> None:
    names = list(found)
    pipe = client.pipeline(transaction=False)
    pipe.time()
    for name in names:
        pipe.hgetall(f"scraper:host:{name}")
        pipe.hvals(f"scraper:places:{name}")
    (seconds, micros), *answers = pipe.execute()
    now = int(seconds) * 1_000_000 + int(micros)
    for name, kept, places in zip(names, answers[::2], answers[1::2], strict=True):
        state = found[name]
        known = {key.decode(): value.decode() for key, value in kept.items()}
        held = [re.split(":", place.decode()) for place in places]
        state.in_flight = sum(int(each[0]) for each in held if int(each[2]) >= now)
        state.pace = float(known.get("factor", 1))
        # what counts now, robots.txt included
        if "interval" in known and state.in_flight:
            interval = float(known["interval"])
            state.rate_per_s = 1e6 / interval if interval else None
            state.concurrency, state.burst = int(known["concurrency"]), int(known["burst"])
        if state.pace < 1:
            base = 1e6 / state.rate_per_s if state.rate_per_s else float(known.get("base", 1e6))
            state.pace_per_s = 1e6 * state.pace / base
        if int(known.get("rest", 0)) > now:
            state.rests_s, state.why = (int(known["rest"]) - now) / 1e6, known.get("why")
        if int(known.get("tat", 0)) > now:
            state.next_slot_s = (int(known["tat"]) - now) / 1e6


def _override(
    paused: bool, rate: str | None, concurrency: int | None, burst: int | None
) -> Override:
    interval_s = None
    if rate is not None:
        per_s = scalars.per_second(rate)
        interval_s = 1 / per_s if per_s else 0.0
    return Override(paused, interval_s, concurrency, burst)
