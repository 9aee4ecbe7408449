"""What crawls have done, when, where and by whom: sums over time, and sums over a crawl by host.
Written by settling transactions, so that they are fenced as all else: what a lost lease did is not
in them.

`throughput` has a row for each bucket of time, crawl, worker, queue, proxy class and outcome;
`crawl_hosts` one for each crawl, host and worker, without time, for a crawl may have thousands of
hosts. The worker is in both keys so that no two ever want the same row. What is old is kept more
coarsely (`tidy`, which the reap tick calls): 10 s for three hours, minutes for two days, then ten
minutes until it is dropped. Of a crawl that has ended, the hosts that took longest are kept singly
(`seal`).

No foreign keys: a row would be checked for nearly each page where there are many shops, for crawls
that are never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from scraper.domain import Blame, Outcome
from scraper.infra.database import dumps

BUCKET_S = 10
# (from, to, after): buckets of `from` seconds become buckets of `to` seconds once they are `after`
# seconds old.
COARSER = ((BUCKET_S, 60, 3 * 3600), (60, 600, 48 * 3600))
# So many hosts of a crawl that has ended are kept singly; the others are one row without a name.
HOSTS_KEPT = 200
ROWS_A_TICK = 20_000

# Rows are written in the order of their keys, though nobody else wants them but the reaper, of a
# worker that is late by hours.
ADD = sa.text(f"""
WITH i AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
      AS i(crawl_id bigint, queue text, host text, proxy text, outcome text, tries int, done int,
           failures int, seconds float8, slowest_s float8, bytes bigint)
), by_host AS (
    INSERT INTO crawl_hosts AS h (crawl_id, host, worker, tries, failures, seconds, slowest_s,
                                  bytes)
    SELECT crawl_id, host, :worker, sum(tries), sum(failures), sum(seconds), max(slowest_s),
           sum(bytes)
      FROM i GROUP BY crawl_id, host ORDER BY crawl_id, host
    ON CONFLICT (crawl_id, host, worker) DO UPDATE
       SET tries = h.tries + excluded.tries, failures = h.failures + excluded.failures,
           seconds = h.seconds + excluded.seconds,
           slowest_s = greatest(h.slowest_s, excluded.slowest_s),
           bytes = h.bytes + excluded.bytes
)
INSERT INTO throughput AS t (crawl_id, at, step_s, worker, queue, proxy, outcome, tries, done,
                             seconds, bytes)
SELECT crawl_id, date_bin('{BUCKET_S} s', now(), 'epoch'), {BUCKET_S}, :worker, queue, proxy,
       outcome,
       sum(tries), sum(done), sum(seconds), sum(bytes)
  FROM i GROUP BY crawl_id, queue, proxy, outcome ORDER BY crawl_id, queue, proxy, outcome
ON CONFLICT (crawl_id, at, step_s, worker, queue, proxy, outcome) DO UPDATE
   SET tries = t.tries + excluded.tries, done = t.done + excluded.done,
       seconds = t.seconds + excluded.seconds,
       bytes = t.bytes + excluded.bytes
""")

# It takes whole buckets of the coarser step, so that each is made once; what comes too late is
# added to it.
COARSEN = sa.text("""
WITH old AS (
    DELETE FROM throughput t USING (
        SELECT ctid FROM throughput
         WHERE step_s = :step
           AND at < date_bin(make_interval(secs => :coarser), now() - make_interval(secs => :after),
                             'epoch')
         LIMIT :rows FOR UPDATE SKIP LOCKED) picked
     WHERE t.ctid = picked.ctid RETURNING t.*
)
INSERT INTO throughput AS t (crawl_id, at, step_s, worker, queue, proxy, outcome, tries, done,
                             seconds, bytes)
SELECT crawl_id, date_bin(make_interval(secs => :coarser), at, 'epoch') AS bin, :coarser, worker,
       queue, proxy, outcome,
       sum(tries), sum(done), sum(seconds), sum(bytes)
  FROM old GROUP BY crawl_id, bin, worker, queue, proxy, outcome
ON CONFLICT (crawl_id, at, step_s, worker, queue, proxy, outcome) DO UPDATE
   SET tries = t.tries + excluded.tries, done = t.done + excluded.done,
       seconds = t.seconds + excluded.seconds,
       bytes = t.bytes + excluded.bytes
""")

DROP_OLD = sa.text("""
DELETE FROM throughput WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM throughput
     WHERE step_s = :step AND at < now() - make_interval(days => :days) LIMIT :rows
     FOR UPDATE SKIP LOCKED))
""")

# Crawls are numbered as they begin: the lowest one goes first, and is looked at alone.
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
    """What a try of a page took: where it ran, through which class of proxies (empty: none), how
    long its last request was under way, and the size of the body once unpacked."""

    queue: str
    host: str
    proxy: str = ""
    seconds: float = 0.0
    bytes: int = 0


_Key = tuple[int, str, str, str, Outcome]


@dataclass(slots=True)
class _Sum:
    """A row of `ADD`. Field for field its columns."""

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
    """Adds settled pages to the sums: (crawl, outcome, whether that was its last try in this crawl,
    what it took). What was handed back untried is nothing that happened, and does not count."""
    sums: dict[_Key, _Sum] = {}
    for crawl_id, outcome, done, cost in pages:
        if outcome is Outcome.DEFERRED:
            continue
        key = (crawl_id, cost.queue, cost.host, cost.proxy, outcome)
        row = sums.get(key)
        if row is None:
            row = sums[key] = _Sum(*key)
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
    """Whether a try gave nothing and somebody is to blame. A page that is gone has given its
    answer."""
    return outcome.blame is not Blame.NOBODY and outcome is not Outcome.NOT_FOUND


def seal_crawl(connection: sa.Connection, crawl_id: int) -> None:
    """A crawl has ended, and nobody adds to its sums any more: its hosts become one row each, those
    that took least together one row without a name."""
    connection.execute(SEAL, {"id": crawl_id, "kept": HOSTS_KEPT})


def tidy_buckets(connection: sa.Connection, days: int) -> None:
    """Makes old buckets coarser, and drops what is older than so many days. A bounded piece of it,
    and cheap where there is nothing to do; where another coordinator is at it, none."""
    if not connection.execute(LOCK_TIDY).scalar():
        return
    for step, coarser, after in COARSER:
        values = {"step": step, "coarser": coarser, "after": after, "rows": ROWS_A_TICK}
        connection.execute(COARSEN, values)
    for step in (BUCKET_S, *(coarser for _, coarser, _ in COARSER)):
        connection.execute(DROP_OLD, {"step": step, "days": days, "rows": ROWS_A_TICK})
    connection.execute(DROP_OLD_HOSTS, {"days": days})
