"""What people look at: crawls over time, by worker, queue, proxy class and host, and what went
wrong last. Reads PostgreSQL alone, in bounded answers, and by indexes; changes nothing.

Who asks for several of these at once does so in one transaction (`REPEATABLE READ`), so that its
numbers agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from scraper.domain import Outcome
from scraper.frontier.throughput import BUCKET_S, is_failure
from scraper.infra.database import dumps
from scraper.quality import report

CHART_POINTS = 120
SPARK_POINTS = 40
ERRORS_MAX = 10
# A last step of fewer seconds is too little to make a rate of.
PARTLY_S = 3.0
# A sparkline shows a crawl's last half hour.
SPARK_S = 1800.0
STEPS_S = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800)
# The latest dead pages, which are counted by reason.
REASONS_OF = 10_000

SPARKS = sa.text("""
SELECT w.id, date_bin(make_interval(secs => w.step), t.at, 'epoch') AS at, sum(t.tries) AS tries,
       max(t.step_s) AS step_s
  FROM jsonb_to_recordset(CAST(:windows AS jsonb)) AS w(id bigint, since timestamptz, step int)
  JOIN throughput t ON t.crawl_id = w.id AND t.at >= w.since
 GROUP BY 1, 2 ORDER BY 1, 2
""")

COARSEST = sa.text("SELECT max(step_s) FROM throughput WHERE crawl_id = :id")

COURSE = sa.text("""
SELECT date_bin(make_interval(secs => :step), at, 'epoch') AS at, outcome, sum(tries) AS tries,
       sum(done) AS done, sum(seconds) AS seconds, sum(bytes) AS bytes
  FROM throughput WHERE crawl_id = :id GROUP BY 1, 2 ORDER BY 1, 2
""")

SHARES = sa.text("""
SELECT CASE WHEN worker IS NOT NULL THEN 'worker' WHEN queue IS NOT NULL THEN 'queue'
            WHEN proxy IS NOT NULL THEN 'proxy' ELSE 'outcome' END AS kind,
       coalesce(worker, queue, proxy, outcome) AS name,
       CAST(sum(tries) AS int) AS tries, CAST(sum(done) AS int) AS done,
       CAST(coalesce(sum(tries) FILTER (WHERE outcome = ANY (:failed)), 0) AS int) AS failures,
       sum(seconds) AS seconds, CAST(sum(bytes) AS bigint) AS bytes, max(at) AS last_at
  FROM throughput WHERE crawl_id = :id
 GROUP BY GROUPING SETS ((worker), (queue), (proxy), (outcome))
 ORDER BY sum(tries) DESC, 1, 2
""")

# The row without a name sums up all hosts that have no row of their own.
HOSTS = sa.text("""
SELECT host, CAST(sum(tries) AS int) AS tries, CAST(sum(failures) AS int) AS failures,
       sum(seconds) AS seconds, max(slowest_s) AS slowest_s, CAST(sum(bytes) AS bigint) AS bytes,
       count(*) OVER () AS hosts
  FROM crawl_hosts WHERE crawl_id = :id GROUP BY host
 ORDER BY sum(seconds) / greatest(1, sum(tries)) DESC, host LIMIT :limit
""")

ERRORS = sa.text("""
SELECT id, url, host, kind, status, last_outcome AS outcome, http_status, error,
       attempts + host_attempts AS tries, settled_at
  FROM pages WHERE crawl_id = :id AND error IS NOT NULL AND status <> 'gone'
 ORDER BY settled_at DESC LIMIT :limit
""")

DEAD = sa.text("""
SELECT id, url, kind, status, last_outcome AS reason, http_status, error, excerpt,
       attempts + host_attempts AS tries, settled_at
  FROM pages
 WHERE crawl_id = :id AND error IS NOT NULL AND status <> 'gone' AND status IN ('dead', 'invalid')
 ORDER BY settled_at DESC LIMIT :limit
""")

REASONS = sa.text("""
SELECT reason, count(*) AS pages FROM (
    SELECT last_outcome AS reason FROM pages
     WHERE crawl_id = :id AND error IS NOT NULL AND status <> 'gone'
       AND status IN ('dead', 'invalid')
     ORDER BY settled_at DESC LIMIT :limit) latest
 GROUP BY reason ORDER BY pages DESC, reason
""")


@dataclass(frozen=True, slots=True)
class Window:
    """A crawl's time on a chart: from where to where, and how long a point is."""

    start: datetime
    end: datetime
    step_s: int


@dataclass(slots=True)
class Point:
    """What happened within one step of a window. `covered_s`: how much of the step lies within the
    crawl's time."""

    at: datetime
    covered_s: float
    tries: int = 0
    done: int = 0
    seconds: float = 0.0
    bytes: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def per_s(self) -> float:
        return self.tries / self.covered_s


@dataclass(frozen=True, slots=True)
class Shares:
    """What each worker, queue, class of proxies and outcome has of a crawl: rows of `SHARES`."""

    worker: list[sa.Row[Any]]
    queue: list[sa.Row[Any]]
    proxy: list[sa.Row[Any]]
    outcome: list[sa.Row[Any]]


def window(
    start: datetime, end: datetime, *, points: int = CHART_POINTS, coarsest_s: int = BUCKET_S
) -> Window:
    """Returns the shortest step that gives at most `points` points and is not finer than what is
    stored.

    >>> window(datetime(2026, 7, 1, 6, tzinfo=UTC), datetime(2026, 7, 1, 7, tzinfo=UTC)).step_s
    60
    """
    span_s = (end - start).total_seconds()
    step_s = next(
        (s for s in STEPS_S if s >= coarsest_s and span_s <= s * (points - 1)), STEPS_S[-1]
    )
    return Window(start, end, step_s)


def floor(at: datetime, step_s: int) -> datetime:
    """The bucket that a time is in, as PostgreSQL's `date_bin(…, 'epoch')` says."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + timedelta(seconds=(at - epoch).total_seconds() // step_s * step_s)


def empty_points(shown: Window) -> list[Point]:
    """Every step of a window, the quiet ones too."""
    step, points, at = timedelta(seconds=shown.step_s), [], floor(shown.start, shown.step_s)
    while at <= shown.end:
        covered = min(shown.end, at + step) - max(shown.start, at)
        points.append(Point(at, max(1.0, covered.total_seconds())))
        at += step
    return points


def read_course(
    connection: sa.Connection, crawl_id: int, start: datetime, end: datetime
) -> tuple[Window, list[Point]]:
    """A crawl's whole course, in no more than `CHART_POINTS` points."""
    coarsest = connection.execute(COARSEST, {"id": crawl_id}).scalar() or BUCKET_S
    shown = window(start, end, coarsest_s=coarsest)
    points = {point.at: point for point in empty_points(shown)}
    for row in connection.execute(COURSE, {"id": crawl_id, "step": shown.step_s}):
        # Pages may settle in the moment between two readings of the clock.
        if row.at not in points:
            points[row.at] = Point(row.at, float(shown.step_s))
        point = points[row.at]
        point.tries += int(row.tries)
        point.done += int(row.done)
        point.seconds += row.seconds
        point.bytes += int(row.bytes)
        point.outcomes[row.outcome] = int(row.tries)
    return shown, [points[at] for at in sorted(points)]


def read_sparks(
    connection: sa.Connection, times: dict[int, tuple[datetime, datetime]]
) -> dict[int, list[float]]:
    """Pages a second of many crawls at once, each over its last half hour: crawl -> one number a
    step."""
    windows = {
        crawl_id: window(max(start, end - timedelta(seconds=SPARK_S)), end, points=SPARK_POINTS)
        for crawl_id, (start, end) in times.items()
    }
    values = [
        {"id": id_, "since": floor(w.start, 600), "step": w.step_s} for id_, w in windows.items()
    ]
    points = {id_: {point.at: point for point in empty_points(w)} for id_, w in windows.items()}
    tries = {id_: dict.fromkeys(by_time, 0.0) for id_, by_time in points.items()}
    for row in connection.execute(SPARKS, {"windows": dumps(values)}):
        # An old row is the sum of several steps, and is spread over them.
        if row.step_s > windows[row.id].step_s:
            last = row.at + timedelta(seconds=row.step_s)
            steps = [at for at in points[row.id] if row.at <= at < last]
        else:
            steps = [row.at] if row.at in points[row.id] else []
        for at in steps:
            tries[row.id][at] += int(row.tries) / len(steps)
    return {
        id_: [
            round(tries[id_][at] / point.covered_s, 2)
            for at, point in by_time.items()
            if point.covered_s >= PARTLY_S or len(by_time) == 1
        ]
        for id_, by_time in points.items()
    }


def read_shares(connection: sa.Connection, crawl_id: int) -> Shares:
    """A crawl's sums by worker, queue, class of proxies and outcome, the largest first."""
    bad = [outcome.value for outcome in Outcome if is_failure(outcome)]
    shares = Shares([], [], [], [])
    for row in connection.execute(SHARES, {"id": crawl_id, "failed": bad}):
        getattr(shares, row.kind).append(row)
    return shares


def read_hosts(connection: sa.Connection, crawl_id: int, limit: int = 15) -> list[sa.Row[Any]]:
    """A crawl's slowest hosts by the mean of their answers, each with how many `read_hosts` it
    has."""
    return list(connection.execute(HOSTS, {"id": crawl_id, "limit": limit}))


def read_errors(connection: sa.Connection, crawl_id: int) -> list[sa.Row[Any]]:
    """The pages of a crawl that failed last, whatever became of them since they did."""
    return list(connection.execute(ERRORS, {"id": crawl_id, "limit": ERRORS_MAX}))


def read_dead_pages(
    connection: sa.Connection, crawl_id: int, limit: int = 15
) -> tuple[list[sa.Row[Any]], list[sa.Row[Any]]]:
    """A crawl's dead and invalid pages, the latest; and of the latest 10,000 how many by reason."""
    pages = list(connection.execute(DEAD, {"id": crawl_id, "limit": limit}))
    if not pages:
        return [], []
    return pages, list(connection.execute(REASONS, {"id": crawl_id, "limit": REASONS_OF}))


def fill_rates(connection: sa.Connection, crawl_id: int) -> Sequence[dict[str, Any]]:
    """Returns how often each field was filled, compared with earlier crawls: `field`, `rate` and
    `usual` (shares; `usual` may be None), `suspect` (a bool). Empty if no product page was read."""
    return [
        {
            "field": field.field,
            "rate": field.fill,
            "usual": field.usual_fill,
            "suspect": field.breach is not None,
        }
        for field in report.read_fields(connection, crawl_id)
        if field.fill is not None
    ]
