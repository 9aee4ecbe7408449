"""Hosts as operators see them: open pages, budgets and overrides from PostgreSQL, joined with what
the fleet does now, from Redis (`scraper.politeness.host_row`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import redis
import sqlalchemy as sa

from scraper.frontier.due import LEASED
from scraper.frontier.hosts import OVERRIDES
from scraper.politeness.host_row import HostRow, list_hosts, read_rows
from scraper.sites.grammar import scalars

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

# Pages are summed first: each crawl's definition is read once, not for each of its pages.
OPEN_PAGES = sa.text(f"""
WITH open AS (
     SELECT host, crawl_id, count(*) FILTER (WHERE ready AND NOT held) AS due,
            count(*) FILTER (WHERE NOT ready) AS later,
            count(*) FILTER (WHERE ready AND held) AS leased
       FROM (SELECT host, crawl_id, not_before <= now() AS ready, id IN {LEASED} AS held
               FROM pages
              WHERE status = 'due' AND (CAST(:host AS text) IS NULL OR host = :host)) p
      GROUP BY host, crawl_id
)
SELECT o.host, CAST(sum(o.due) AS int) AS due, CAST(sum(o.later) AS int) AS later,
       CAST(sum(o.leased) AS int) AS leased,
       array_agg(DISTINCT s.name ORDER BY s.name) AS sites,
       CASE WHEN count(c.rate_per_s) > 0
            THEN min(c.rate_per_s) END AS rate_per_s, min(c.concurrency) AS concurrency,
       min(coalesce(CAST(c.definition ->> 'burst' AS int), 1)) AS burst
  FROM open o JOIN crawls c ON c.id = o.crawl_id JOIN sites s ON s.id = c.site_id
 GROUP BY o.host
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
    """One host now.

    `routes`: the levels that sites' pages need there by now, with the seconds until the next probe
    of a lower one. `rate_per_s` None: unlimited. `pace`: the part of the budget that is in force, 1
    for all. `rests_s` and `next_slot_s` count from now, None where there is nothing to wait for.
    """

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

    def add_row(self, row: HostRow) -> None:
        """Adds what the fleet does now."""
        self.in_flight = row.in_flight
        self.pace = row.pace
        self.rests_s = row.rest_s
        self.why = row.why
        self.next_slot_s = row.next_slot_s
        # The budget in force, robots.txt included.
        if row.interval_s is not None and row.in_flight:
            self.rate_per_s = 1 / row.interval_s if row.interval_s else None
            self.concurrency = row.concurrency
            self.burst = row.burst
        if row.pace < 1:
            self.pace_per_s = row.pace * (self.rate_per_s or 1 / row.base_interval_s)


class _States(dict[str, HostState]):
    def __missing__(self, host: str) -> HostState:
        self[host] = HostState(host)
        return self[host]

    def add_open_pages(self, connection: sa.Connection, host: str | None) -> None:
        for row in connection.execute(OPEN_PAGES, {"host": host}):
            state = self[row.host]
            state.rate_per_s = row.rate_per_s
            state.concurrency = row.concurrency
            state.burst = row.burst
            state.sites = row.sites
            state.due = row.due
            state.later = row.later
            state.leased = row.leased

    def add_overrides(self, connection: sa.Connection, host: str | None) -> None:
        for row in connection.execute(OVERRIDES):
            if host not in (None, row.host):
                continue
            state = self[row.host]
            state.paused = row.paused
            budget = {"rate": row.rate, "concurrency": row.concurrency, "burst": row.burst}
            state.override = {key: value for key, value in budget.items() if value is not None}
            if row.rate is not None:
                state.rate_per_s = scalars.parse_rate(row.rate)
            state.concurrency = row.concurrency or state.concurrency
            state.burst = row.burst or state.burst

    def add_routes(self, connection: sa.Connection, host: str | None = None) -> None:
        for row in connection.execute(ROUTES, {"host": host}).mappings():
            route = dict(row)
            self[route.pop("host")].routes.append(route)

    def add_rows(self, client: redis.Redis) -> None:
        for host, row in read_rows(client, self).items():
            self[host].add_row(row)


def read_states(
    connection: sa.Connection, client: redis.Redis, host: str | None = None
) -> list[HostState]:
    """Returns `host`, or each host with open pages, an override, or a row in Redis, by name."""
    by_host = _States()
    by_host.add_open_pages(connection, host)
    by_host.add_overrides(connection, host)
    by_host.add_routes(connection, host)
    for name in [host] if host else list_hosts(client):
        by_host[name]
    by_host.add_rows(client)
    return [by_host[name] for name in sorted(by_host)]


def read_live_states(client: redis.Redis) -> dict[str, HostState]:
    """Returns what the fleet does now, from Redis alone: rests, paces, requests in flight."""
    by_host = _States((name, HostState(name)) for name in list_hosts(client))
    by_host.add_rows(client)
    return by_host


def read_troubled_states(connection: sa.Connection, client: redis.Redis) -> list[HostState]:
    """Returns the hosts that rest, are slower than their budget, are paused, or need a higher
    level; those that rest longest first. Reads only these hosts' pages of the frontier."""
    by_host = _States(read_live_states(client))
    for row in connection.execute(OVERRIDES):
        if row.paused:
            by_host[row.host].paused = True
    by_host.add_routes(connection)
    troubled = {
        host: state
        for host, state in by_host.items()
        if state.paused or state.routes or state.pace < 1 or state.rests_s is not None
    }
    values = {"hosts": list(troubled), "queues": list(connection.execute(DUE_QUEUES).scalars())}
    for row in connection.execute(OPEN_OF, values):
        troubled[row.host].due = row.due
        troubled[row.host].later = row.later
    return sorted(
        troubled.values(),
        key=lambda state: (-(state.rests_s or 0.0), not state.paused, state.pace, state.host),
    )


def read_hosts_of_site(connection: sa.Connection, site: str) -> set[str]:
    """Returns the hosts of the due pages in the site's open crawls."""
    return set(connection.execute(OF_SITE, {"site": site}).scalars())
