"""What crawls have done, when, where and by which worker: sums over time, and sums over a crawl by
host. The settling transaction writes them, so they are fenced like everything else: the work of a
lost lease is not in them.

`throughput` has a row for each bucket of time, crawl, worker, queue, proxy class and outcome.
`crawl_hosts` has one for each crawl, host and worker, without time, since a crawl may have
thousands of hosts. The worker is in both keys, so that no two transactions want the same row. Older
rows are coarser (`tidy_buckets`, which the reap tick calls): 10 s for three hours, minutes for two
days, then ten minutes until they are dropped. After a crawl's end, only the hosts that took longest
keep rows of their own (`seal_crawl`).

The tables have no foreign keys: with many shops, each page would cost a check, for crawls that are
never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from scraper.domain import Blame, Outcome
from scraper.infra.database import dumps
from scraper.infra.statements import sql

BUCKET_S = 10
# (from, to, after): buckets of `from` seconds become buckets of `to` seconds once they are `after`
# seconds old.
COARSER = ((BUCKET_S, 60, 3 * 3600), (60, 600, 48 * 3600))
# How many hosts of an ended crawl keep a row of their own; the others share one without a name.
HOSTS_KEPT = 200
ROWS_A_TICK = 20_000

ADD = sa.text(sql("frontier/add_tries.sql"))
COARSEN = sa.text(sql("frontier/coarsen_throughput.sql"))

DROP_OLD = sa.text("""
DELETE FROM throughput WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM throughput
     WHERE step_s = :step AND at < now() - make_interval(days => :days) LIMIT :rows
     FOR UPDATE SKIP LOCKED))
""")

# Crawls are numbered as they begin, so the lowest one goes first; only that one is checked.
DROP_OLD_HOSTS = sa.text("""
DELETE FROM crawl_hosts WHERE crawl_id = (
    SELECT oldest.id FROM (SELECT min(crawl_id) AS id FROM crawl_hosts) oldest
      LEFT JOIN crawls c ON c.id = oldest.id
     WHERE c.id IS NULL OR c.finished_at < now() - make_interval(days => :days))
""")

SEAL = sa.text("""
WITH ended AS (
    DELETE FROM crawl_hosts WHERE crawl_id = :id RETURNING *
), host AS (
    SELECT host, sum(tries) AS tries, sum(failures) AS failures, sum(seconds) AS seconds,
           max(slowest_s) AS slowest_s,
           sum(bytes) AS bytes, row_number() OVER (ORDER BY sum(seconds) DESC, host) AS place
      FROM ended GROUP BY host
)
INSERT INTO crawl_hosts (crawl_id, host, worker, tries, failures, seconds, slowest_s, bytes)
SELECT :id, CASE WHEN place <= :kept THEN host
                 ELSE '' END AS name, '', sum(tries), sum(failures), sum(seconds),
       max(slowest_s), sum(bytes)
  FROM host GROUP BY name
""")

LOCK_TIDY = sa.text("SELECT pg_try_advisory_xact_lock(hashtext('scraper: tidy throughput'))")


@dataclass(slots=True)
class FetchCost:
    """What a try of a page cost: its queue and host, its class of proxies (empty: none), the
    duration of its last request, and the size of the unpacked body."""

    queue: str
    host: str
    proxy: str = ""
    seconds: float = 0.0
    bytes: int = 0


_Key = tuple[int, str, str, str, Outcome]


@dataclass(slots=True)
class TrySums:
    """A row of `ADD`; the fields are its columns."""

    crawl_id: int
    queue: str
    host: str
    proxy: str
    outcome: Outcome
    tries: int = 0
    done: int = 0
    failures: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    bytes: int = 0


def add_tries(
    connection: sa.Connection, worker: str, pages: Iterable[tuple[int, Outcome, bool, FetchCost]]
) -> None:
    """Adds settled pages to the sums: crawl, outcome, whether it was the page's last try in this
    crawl, and its cost. Pages that were handed back untried do not count."""
    sums: dict[_Key, TrySums] = {}
    for crawl_id, outcome, done, cost in pages:
        if outcome is Outcome.DEFERRED:
            continue
        key = (crawl_id, cost.queue, cost.host, cost.proxy, outcome)
        row = sums.get(key)
        if row is None:
            row = sums[key] = TrySums(*key)
        row.tries += 1
        row.done += done
        row.seconds += cost.seconds
        row.bytes += cost.bytes
        if cost.seconds > row.slowest_s:
            row.slowest_s = cost.seconds
    for row in sums.values():
        row.failures = row.tries if is_failure(row.outcome) else 0
    if sums:
        connection.execute(ADD, {"rows": dumps(list(sums.values())), "worker": worker})


def is_failure(outcome: Outcome) -> bool:
    """Returns True if a try failed through the fault of page, host, proxy, parser or scraper. A
    page that answers 404 or 410 has given its answer."""
    return outcome.blame is not Blame.NOBODY and outcome is not Outcome.NOT_FOUND


def seal_crawl(connection: sa.Connection, crawl_id: int) -> None:
    """Reduces an ended crawl's sums to one row a host; the hosts that took least share one without
    a name."""
    connection.execute(SEAL, {"id": crawl_id, "kept": HOSTS_KEPT})


def tidy_buckets(connection: sa.Connection, days: int) -> None:
    """Makes old buckets coarser, and drops those older than `days`. Does a bounded part of this
    work, and nothing while another coordinator does."""
    if not connection.execute(LOCK_TIDY).scalar():
        return
    for step, coarser, after in COARSER:
        values = {"step": step, "coarser": coarser, "after": after, "rows": ROWS_A_TICK}
        connection.execute(COARSEN, values)
    for step in (BUCKET_S, *(coarser for _, coarser, _ in COARSER)):
        connection.execute(DROP_OLD, {"step": step, "days": days, "rows": ROWS_A_TICK})
    connection.execute(DROP_OLD_HOSTS, {"days": days})
