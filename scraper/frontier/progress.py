"""Crawls as people see them: their progress and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import sqlalchemy as sa

from scraper.domain import CrawlStatus
from scraper.frontier.counters import Counts
from scraper.plugin import Coverage, CoverageReader
from scraper.registry import find_service

# The states of a site or its crawl, the worst first.
STATES = (
    *("failed", "suspect", "waiting", "failing", "dead pages", "paused", "running", "planned"),
    *("never crawled", "stopped", "skipped", "completed"),
)
# A crawl counts as waiting only after this time.
BEGINS_S = 10

# One of `STATES`, for a crawl `c` (all null if there is none) of a site `s`.
STATE = f"""
CASE WHEN c.id IS NULL THEN 'never crawled'
     WHEN c.status = 'failed' THEN 'failed'
     WHEN c.suspect THEN 'suspect'
     WHEN c.status = 'running' AND s.paused THEN 'paused'
     WHEN c.status = 'running' AND coalesce(recent.per_s, 0) = 0
          AND c.started_at < now() - interval '{BEGINS_S} s' THEN 'waiting'
     WHEN c.status = 'running' AND c.dead + c.invalid > 0 THEN 'failing'
     WHEN c.status = 'completed' AND c.dead + c.invalid > 0 THEN 'dead pages'
     ELSE c.status END"""

# What a crawl shows in addition to its own columns.
MOVES = f"""
s.name AS site, s.paused, coalesce(recent.per_s, 0) AS recent_per_s, {STATE} AS state,
CASE WHEN position(trouble.host in trouble.error) > 0 THEN trouble.error
     ELSE trouble.host || ': ' || trouble.error END AS last_error,
EXTRACT(EPOCH FROM coalesce(c.finished_at, now()) - coalesce(c.started_at, now())) AS elapsed_s"""

RATE = """
LEFT JOIN LATERAL (
     SELECT sum(t.done)
            / greatest(1, EXTRACT(EPOCH FROM now() - greatest(since.at, c.started_at))) AS per_s
       FROM date_bin('10 s', now() - interval '30 s', 'epoch') AS since(at)
       JOIN throughput t ON t.crawl_id = c.id AND t.at >= since.at
      WHERE c.status = 'running' GROUP BY since.at) recent ON true"""

RECENT = f"""{RATE}
LEFT JOIN LATERAL (
     SELECT p.host, p.error FROM pages p
      WHERE c.status = 'running' AND p.crawl_id = c.id AND p.error IS NOT NULL
        AND p.status <> 'gone'
      ORDER BY p.settled_at DESC LIMIT 1) trouble ON true"""


@dataclass(frozen=True, slots=True)
class CrawlProgress:
    """One crawl as people see it. `recent_per_s` is the pages done a second over the last half
    minute, without fresh ones. `last_error` is a page's error with its host, while the crawl runs.
    `state` is one of `STATES`."""

    id: int
    site: str
    site_id: int
    status: str
    trigger: str
    slot: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    note: str | None
    elapsed_s: float
    counts: Counts
    products_delisted: int
    paused: bool = False
    suspect: bool = False
    recent_per_s: float = 0.0
    last_error: str | None = None
    state: str = ""
    coverage: Coverage | None = None

    @property
    def active(self) -> bool:
        return CrawlStatus(self.status).active

    @property
    def total(self) -> int:
        return self.counts.discovery_total + self.counts.product_total

    @property
    def done(self) -> int:
        return self.counts.discovery_done + self.counts.product_done

    @property
    def failed(self) -> int:
        return self.counts.dead + self.counts.invalid

    @property
    def ending(self) -> str | None:
        """The end of the crawl in words; None while it runs."""
        if self.active:
            return None
        dead = self.status == CrawlStatus.COMPLETED and self.failed
        return "completed with dead pages" if dead else self.status

    @property
    def phase(self) -> str:
        """The status; of a running crawl, `paused`, or whether its total is known yet."""
        if self.status != CrawlStatus.RUNNING:
            return self.status
        if self.paused:
            return "paused"
        return (
            "discovering"
            if self.counts.discovery_done < self.counts.discovery_total
            else "fetching"
        )


_COUNTS = [field.name for field in fields(Counts)]
_COPIED = [
    field.name
    for field in fields(CrawlProgress)
    if field.name not in ("elapsed_s", "recent_per_s", "counts", "coverage")
]
_OWN = [name for name in _COPIED if name not in ("site", "paused", "state", "last_error")]
COLUMNS = ", ".join(f"c.{name}" for name in (*_OWN, *_COUNTS))

PROGRESS = sa.text(f"""
WITH shown AS (
     SELECT id FROM crawls WHERE status IN ('planned', 'running')
     UNION ALL
    (SELECT id FROM crawls
      WHERE NOT :active AND status NOT IN ('planned', 'running')
        AND (CAST(:id AS bigint) IS NULL OR id = :id)
        AND (CAST(:site AS text) IS NULL
             OR site_id = (SELECT id FROM sites WHERE name = :site))
      ORDER BY id DESC LIMIT :newest))
SELECT {COLUMNS}, {MOVES}
  FROM shown JOIN crawls c USING (id) JOIN sites s ON s.id = c.site_id {RECENT}
 WHERE (CAST(:site AS text) IS NULL OR s.name = :site)
   AND (CAST(:id AS bigint) IS NULL OR c.id = :id)
 ORDER BY c.status IN ('planned', 'running') DESC, c.id DESC
""")


def read_progress(
    connection: sa.Connection,
    *,
    site: str | None = None,
    crawl_id: int | None = None,
    active: bool = False,
    newest: int = 20,
) -> list[CrawlProgress]:
    """Returns every active crawl and, unless `active`, the newest ended ones, newest first."""
    values = {"site": site, "id": crawl_id, "active": active, "newest": newest}
    rows = connection.execute(PROGRESS, values).mappings().all()
    coverage = read_coverage(connection, [row["id"] for row in rows])
    return [progress_of(row, coverage.get(row["id"])) for row in rows]


def read_coverage(connection: sa.Connection, crawl_ids: Sequence[int]) -> Mapping[int, Coverage]:
    """Returns what plug-ins know of the coverage of crawls."""
    reader = find_service(CoverageReader)  # type: ignore[type-abstract]
    return reader(connection, crawl_ids) if reader else {}


def progress_of(row: sa.RowMapping, coverage: Coverage | None = None) -> CrawlProgress:
    """Makes a crawl from a row of `COLUMNS` and `MOVES`."""
    return CrawlProgress(
        **{name: row[name] for name in _COPIED},
        elapsed_s=float(row["elapsed_s"]),
        recent_per_s=float(row["recent_per_s"]),
        counts=Counts(**{name: row[name] for name in _COUNTS}),
        coverage=coverage,
    )
