"""Hosts as operators see and steer them: their overrides, in PostgreSQL for good; what the fleet
does now, in Redis.

A pause or an override is a row that workers read with every claim and every two seconds. Refuses to
decide: what an override means for a budget is `scraper.rules.budget`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import redis
import sqlalchemy as sa

from scraper.frontier.due import LEASED
from scraper.rules.budget import Override
from scraper.sites.grammar import scalars

LIVE_PREFIX = "scraper:host:"

DUE_QUEUES = sa.text("""
WITH RECURSIVE q AS (
    (SELECT queue FROM pages WHERE status = 'due' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM pages
             WHERE status = 'due' AND queue > q.queue ORDER BY queue LIMIT 1)
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

# A row that says nothing any more is deleted (`TIDY`).
RESET = sa.text("""
UPDATE hosts SET rate = NULL, concurrency = NULL, burst = NULL, updated_at = now()
 WHERE host = :host
""")
TIDY = sa.text("""
DELETE FROM hosts
 WHERE host = :host AND NOT paused AND rate IS NULL AND concurrency IS NULL AND burst IS NULL
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

# This is for few hosts: it takes a step of the due index for each queue and host.
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
    """Of every host that somebody has paused or given a budget: few, so they are read whole."""
    overrides = {}
    for row in connection.execute(OVERRIDES):
        interval_s = None
        if row.rate is not None:
            per_s = scalars.per_second(row.rate)
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
    """An operator's override; None leaves what there is. `reset` first forgets the one before."""
    if reset:
        connection.execute(RESET, {"host": host})
    values = {"host": host, "rate": rate, "concurrency": concurrency, "burst": burst}
    if any(value is not None for value in (rate, concurrency, burst)):
        connection.execute(SET, values)
    connection.execute(TIDY, {"host": host})


def is_known(connection: sa.Connection, host: str) -> bool:
    query = sa.text("SELECT EXISTS (SELECT FROM pages WHERE host = :host)")
    return bool(connection.execute(query, {"host": host}).scalar())


class _States(dict[str, HostState]):
    def __missing__(self, host: str) -> HostState:
        self[host] = HostState(host)
        return self[host]

    def add_routes(self, connection: sa.Connection, host: str | None = None) -> None:
        for row in connection.execute(ROUTES, {"host": host}).mappings():
            route = dict(row)
            self[route.pop("host")].routes.append(route)

    def add_live(self, client: redis.Redis) -> None:
        """What the fleet knows now of the hosts that are here."""
        pipe = client.pipeline(transaction=False)
        pipe.time()
        for host in self:
            pipe.hgetall(f"{LIVE_PREFIX}{host}")
            pipe.hvals(f"scraper:places:{host}")
        (seconds, micros), *answers = pipe.execute()
        now_us = int(seconds) * 1_000_000 + int(micros)
        for state, live, slots in zip(self.values(), answers[::2], answers[1::2], strict=True):
            fields = {key.decode(): value.decode() for key, value in live.items()}
            _add_live(state, fields, [slot.decode() for slot in slots], now_us)


def states(
    connection: sa.Connection, client: redis.Redis, host: str | None = None
) -> list[HostState]:
    """Every host with open pages, with an override, or of which the fleet knows something now; or
    the one asked for."""
    by_host = _States()
    for row in connection.execute(OPEN_PAGES, {"host": host}):
        state = by_host[row.host]
        state.rate_per_s, state.concurrency, state.burst = (
            row.rate_per_s,
            row.concurrency,
            row.burst,
        )
        state.due, state.later, state.leased, state.sites = (
            row.due,
            row.later,
            row.leased,
            row.sites,
        )
    for row in connection.execute(OVERRIDES):
        if host in (None, row.host):
            state = by_host[row.host]
            state.paused = row.paused
            budget = {"rate": row.rate, "concurrency": row.concurrency, "burst": row.burst}
            state.override = {key: value for key, value in budget.items() if value is not None}
            if row.rate is not None:
                state.rate_per_s = scalars.per_second(row.rate)
            state.concurrency = row.concurrency or state.concurrency
            state.burst = row.burst or state.burst
    by_host.add_routes(connection, host)
    for name in [host] if host else _live_hosts(client):
        by_host[name]
    by_host.add_live(client)
    return [by_host[name] for name in sorted(by_host)]


def live(client: redis.Redis) -> dict[str, HostState]:
    """What the fleet knows of hosts now, from Redis alone: rests, paces, requests under way."""
    by_host = _States((name, HostState(name)) for name in _live_hosts(client))
    by_host.add_live(client)
    return by_host


def troubled(connection: sa.Connection, client: redis.Redis) -> list[HostState]:
    """Hosts that rest, are slower than their budget, are paused, or need a higher level; those that
    rest longest first. Reads no more of the frontier than their own pages."""
    by_host = _States(live(client))
    for row in connection.execute(OVERRIDES):
        if row.paused:
            by_host[row.host].paused = True
    by_host.add_routes(connection)
    in_trouble = {
        host: state
        for host, state in by_host.items()
        if state.paused or state.routes or state.pace < 1 or state.rests_s is not None
    }
    values = {"hosts": list(in_trouble), "queues": list(connection.execute(DUE_QUEUES).scalars())}
    for row in connection.execute(OPEN_OF, values):
        in_trouble[row.host].due, in_trouble[row.host].later = row.due, row.later
    return sorted(
        in_trouble.values(),
        key=lambda state: (-(state.rests_s or 0.0), not state.paused, state.pace, state.host),
    )


def _live_hosts(client: redis.Redis) -> list[str]:
    keys = client.scan_iter(f"{LIVE_PREFIX}*", count=1000)
    return [key.decode().removeprefix(LIVE_PREFIX) for key in keys]


def _add_live(state: HostState, live: Mapping[str, str], slots: Sequence[str], now_us: int) -> None:
    in_flight = [slot.split(":") for slot in slots]
    state.in_flight = sum(int(slot[0]) for slot in in_flight if int(slot[2]) >= now_us)
    state.pace = float(live.get("factor", 1))
    # What counts now, robots.txt included.
    if "interval" in live and state.in_flight:
        interval_us = float(live["interval"])
        state.rate_per_s = 1e6 / interval_us if interval_us else None
        state.concurrency, state.burst = int(live["concurrency"]), int(live["burst"])
    if state.pace < 1:
        base_us = 1e6 / state.rate_per_s if state.rate_per_s else float(live.get("base", 1e6))
        state.pace_per_s = 1e6 * state.pace / base_us
    if int(live.get("rest", 0)) > now_us:
        state.rests_s, state.why = (int(live["rest"]) - now_us) / 1e6, live.get("why")
    if int(live.get("tat", 0)) > now_us:
        state.next_slot_s = (int(live["tat"]) - now_us) / 1e6
