"""How things stand now, for people and for metrics: queues, leases, workers, dead pages, latest
errors, fresh sites.

Reads only, and of a large frontier only a part. What is of Redis (rests, paces) is in
`views.host_states` and `proxies.health`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scraper.domain import Outcome
from scraper.frontier import crawls
from scraper.infra.statements import sql
from scraper.rules.schedule import latest_slot

# A worker that lives prolongs its leases every two seconds.
SILENT_S = 10.0
# Above this many open pages a sample of as many is counted: a page takes about a microsecond.
COUNTED_MAX = 200_000
# At most this many failures of a crawl are read.
FAILURES_MAX = 500
# The fields of a `PageTrouble` that its row has.
FROM_ROW = ("site", "host", "pages", "ago_s", "url", "error", "final")

DUE = sa.text(sql("views/due_counts.sql"))
ERRORS = sa.text(sql("views/latest_errors.sql"))

LEASES = sa.text("""
SELECT l.queue, l.worker, l.started_at IS NULL AS unclaimed, count(*) AS batches,
       sum(open.pages) AS pages,
       CAST(extract(epoch FROM now() - min(l.started_at)) AS float8) AS busy_s,
       CAST(extract(epoch FROM max(l.until) - now()) AS float8) AS left_s
  FROM leases l CROSS JOIN LATERAL (
       SELECT CASE WHEN CAST(:site AS text) IS NULL THEN cardinality(array_remove(page_ids, 0))
                   ELSE (SELECT count(*) FROM pages p JOIN sites s ON s.id = p.site_id
                          WHERE p.id = ANY (l.page_ids) AND s.name = :site) END AS pages) open
 WHERE open.pages > 0 OR CAST(:site AS text) IS NULL
 GROUP BY l.queue, l.worker, l.started_at IS NULL ORDER BY l.queue, l.worker
""")

UNUSABLE = sa.text("""
SELECT s.name AS site, p.status, count(*) AS pages
  FROM sites s JOIN pages p ON p.site_id = s.id AND p.status IN ('dead', 'invalid')
 WHERE (CAST(:site AS text) IS NULL OR s.name = :site)
 GROUP BY s.name, p.status ORDER BY pages DESC, s.name, p.status
""")

# A crawl of a replay has not looked at the whole site. The slots of a site are in an index; its
# newest are read.
SITES = sa.text("""
SELECT s.name, s.paused, coalesce(good.suspect, false) AS suspect,
       s.definition ->> 'schedule' AS schedule, s.definition ->> 'timezone' AS timezone,
       s.scheduled_since, now() AS now,
       CAST(extract(epoch FROM now() - good.finished_at) AS float8) AS complete_s,
       (SELECT max(c.slot) FROM crawls c
         WHERE c.site_id = s.id AND c.trigger = 'schedule') AS last_slot,
       EXISTS (SELECT FROM crawls c WHERE c.site_id = s.id AND c.trigger = :replay
                  AND c.status IN ('planned', 'running')) AS replaying
  FROM sites s LEFT JOIN LATERAL (
       SELECT c.finished_at, c.suspect FROM crawls c
        WHERE c.site_id = s.id AND c.status = 'completed'
          AND c.trigger NOT IN (:replay, 'visit', 'reextract')
        ORDER BY slot DESC LIMIT 1) good ON true
 WHERE s.enabled ORDER BY s.name
""")


@dataclass(slots=True)
class QueueState:
    """A queue's pages: due now, due later, `held` by a pause of their site or host, leased.
    `waiting` are batches that no worker has claimed yet, `claimed` those under way. `oldest_s`: for
    how long the oldest due page has been due. `workers`: those that serve the queue, if the caller
    has asked them."""

    queue: str
    due: int = 0
    later: int = 0
    held: int = 0
    leased: int = 0
    waiting: int = 0
    claimed: int = 0
    oldest_s: float | None = None
    workers: int | None = None


@dataclass(slots=True)
class LeaseHolder:
    """A worker process with leases. `silent_s`: since it prolonged one; a process that lives does
    so every two seconds."""

    worker: str
    queues: list[str]
    batches: int
    pages: int
    busy_s: float
    silent_s: float


@dataclass(frozen=True, slots=True)
class Unusable:
    site: str
    status: str
    pages: int


@dataclass(frozen=True, slots=True)
class PageTrouble:
    """Pages of a site's host whose last try failed in one way, within a day; the newest as an
    example. `final`: they are given up; otherwise they are tried again."""

    site: str
    host: str
    outcome: str
    blame: str
    pages: int
    ago_s: float
    url: str
    error: str | None
    final: bool


@dataclass(frozen=True, slots=True)
class SiteFreshness:
    """`complete_s`: since the last complete crawl ended; None: there was none. `missed_s`: for how
    long a scheduled crawl has been due without being opened; 0 if none is missed, None without a
    schedule. `suspect`: whether the data of its last complete crawl is suspect."""

    site: str
    paused: bool
    complete_s: float | None
    missed_s: float | None
    suspect: bool


def read_queues(connection: sa.Connection, site: str | None = None) -> list[QueueState]:
    """Every queue with pages that are due or leased; of a site, with its pages alone. Counts of due
    pages are estimates if more than `COUNTED_MAX` pages are open."""
    states: dict[str, QueueState] = {}
    hosts = list(connection.execute(sa.text("SELECT host FROM hosts WHERE paused")).scalars())
    paused = crawls.paused_crawls(connection)
    values = {"hosts": hosts, "crawls": paused, "site": site, "exact": COUNTED_MAX}
    for row in connection.execute(DUE, values):
        states[row.queue] = QueueState(
            row.queue, row.due, row.later, row.held, oldest_s=row.oldest_s
        )
    for row in connection.execute(LEASES, {"site": site}):
        state = states.setdefault(row.queue, QueueState(row.queue))
        state.leased += int(row.pages)
        if row.unclaimed:
            state.waiting += row.batches
        else:
            state.claimed += row.batches
    return [states[name] for name in sorted(states)]


def read_holders(
    connection: sa.Connection, lease_s: float, site: str | None = None
) -> list[LeaseHolder]:
    """The processes with leases; of a site, with its pages. `lease_s`: for how long they prolong
    them, the same for all."""
    holders: dict[str, LeaseHolder] = {}
    for row in connection.execute(LEASES, {"site": site}):
        if row.unclaimed or row.worker is None:
            continue
        holder = holders.setdefault(row.worker, LeaseHolder(row.worker, [], 0, 0, 0.0, lease_s))
        holder.queues.append(row.queue)
        holder.batches += row.batches
        holder.pages += int(row.pages)
        holder.busy_s = max(holder.busy_s, row.busy_s)
        holder.silent_s = min(holder.silent_s, lease_s - row.left_s)
    return [holders[name] for name in sorted(holders)]


def count_unusable(connection: sa.Connection, site: str | None = None) -> list[Unusable]:
    """Dead and invalid pages by site."""
    return [Unusable(*row) for row in connection.execute(UNUSABLE, {"site": site})]


def read_troubles(
    engine: sa.Engine, site: str | None = None, *, limit: int = 10
) -> list[PageTrouble]:
    """Returns the latest failures, newest first, among the newest `FAILURES_MAX` of each crawl."""
    values = {"site": site, "limit": limit, "newest": FAILURES_MAX}
    with engine.connect() as connection:
        return [_make_trouble(row) for row in connection.execute(ERRORS, values)]


def site_names(connection: sa.Connection) -> list[str]:
    """Every site that is not retired."""
    return list(
        connection.execute(sa.text("SELECT name FROM sites WHERE enabled ORDER BY name")).scalars()
    )


def read_freshness(connection: sa.Connection) -> list[SiteFreshness]:
    """Every site that is not retired."""
    return [
        SiteFreshness(row.name, row.paused, row.complete_s, _missed_s(row), row.suspect)
        for row in connection.execute(SITES, {"replay": crawls.REPLAY})
    ]


def _missed_s(row: sa.Row[Any]) -> float | None:
    """Returns for how long the newest slot has been missed. As in `plan`, slots before a change of
    the schedule or the end of a pause do not count."""
    if row.schedule is None:
        return None
    slot: datetime | None = latest_slot(row.schedule, row.timezone or "UTC", row.now)
    since: datetime = max(row.scheduled_since, row.last_slot or row.scheduled_since)
    if slot is None or slot <= since or row.paused or row.replaying:
        return 0.0
    return float((row.now - slot).total_seconds())


def _make_trouble(row: sa.Row[Any]) -> PageTrouble:
    return PageTrouble(
        outcome=row.outcome or "",
        blame=str(Outcome.blame_of(row.outcome)),
        **{name: getattr(row, name) for name in FROM_ROW},
    )
