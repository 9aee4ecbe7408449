"""Leases: pages in the hands of workers. Made, claimed, prolonged, counted, taken back. (Settling
them is `scraper.results.transaction`.)

A lease is one row that names its pages; in the frontier they stay due, and nothing is written there
before a page is settled. So what a lease costs does not depend on how large the frontier is. The
statements here are the concurrency design:

- a page is in one lease at a time: one transaction at a time leases
  (`try_lock_dispatch`), and takes what is due and in no lease;
- the crawls that it leases from cannot end before it does (`crawls.hold_running`), so that nothing
  but leases and their ends changes whether a page of theirs is due, and nothing is leased of a
  crawl that has ended;
- a lease is claimed once: the second delivery of its message finds `started_at` set and gets
  nothing;
- every later effect names the lease, so that a worker that lost its lease changes nothing;
- whoever locks more than one lease does so in the order of their ids, and before any page.

All times are PostgreSQL's; no process compares its own clock with a stored one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

import sqlalchemy as sa

from scraper.domain import Kind, LastReading, Lease, LeasedPage, Validators
from scraper.frontier.due import ALONE_LOSSES, LOSSES_MAX, STILL_DUE, DuePage
from scraper.frontier.pages import PageChange
from scraper.infra.database import dumps, rows_as
from scraper.rules.routing import priority_level

# A lease that no worker has claimed by then goes back: its message is lost, or nobody serves its
# queue.
CLAIM_S = 20.0
# So long after PostgreSQL has started, workers that still live may prolong what ran out meanwhile.
RESTART_GRACE_S = 10.0
# A worker prolongs its leases every two seconds. One that has not for so long is silent.
SILENT_S = 10.0

# A coordinator that freezes in the middle holds it until PostgreSQL ends its session: so nobody
# waits for it.
LOCK_DISPATCH = sa.text("SELECT pg_try_advisory_xact_lock(hashtext('scraper.dispatch'))")

LEASE = sa.text("""
INSERT INTO leases (id, queue, kind, priority, pages, page_ids, hosts, until)
SELECT id, :queue, kind, priority, cardinality(page_ids), page_ids, hosts,
       now() + :lease_s * interval '1 second'
  FROM jsonb_to_recordset(CAST(:batches AS jsonb))
    AS b(id uuid, kind text, priority int, page_ids bigint[], hosts text[])
""")

CLAIM = sa.text("""
UPDATE leases SET started_at = now(), until = now() + :lease_s * interval '1 second',
       worker = :worker, claim = :claim,
       alone = :alone
 WHERE id = :id AND (started_at IS NULL OR claim = :claim) AND until > now()
RETURNING kind, queue
""").bindparams(sa.bindparam("claim", type_=sa.Uuid))

# A 304 (and the same bytes) stands for a stored product, so a page that owns none is read whole:
# another page had its product's id first, say, and may be gone by now. So is one that was last read
# before the crawl's line: in a suspect crawl, or before somebody typed `--refetch`. (Subqueries,
# and one with LIMIT, since a join or EXISTS may be answered by hashing a whole table.)
CLAIMED_PAGES = sa.text(f"""
SELECT p.id, p.crawl_id, p.url, p.kind, p.host, p.attempts, p.host_attempts, p.depth, p.priority,
       p.level, p.blocked, p.probe, p.last_item_count,
       coalesce(p.last_outcome IN ('fetched', 'not_modified', 'fresh'), false) AS good_before,
       p.revisit_s,
       CASE WHEN p.revisit_s IS NOT NULL
            THEN CAST(extract(epoch FROM now() - p.fetched_at) AS float8) END AS good_s,
       p.etag, p.last_modified, p.body_hash, p.content_hash, p.extractor_hash,
       CASE WHEN p.extractor_hash IS NOT NULL
            THEN CAST(extract(epoch FROM now() - p.read_at) AS float8) END AS read_s,
       CASE WHEN p.extractor_hash IS NOT NULL
             AND p.read_at > coalesce((SELECT whole_before FROM crawls WHERE id = p.crawl_id),
                                      '-infinity')
            THEN ARRAY(SELECT external_id FROM products WHERE page_id = p.id LIMIT 2) END AS owned
  FROM pages p
 WHERE p.id = ANY (ARRAY(SELECT unnest(page_ids) FROM leases WHERE id = :id)) AND {STILL_DUE}
 ORDER BY p.priority DESC, p.id
""")

# One that has run out and was not taken back yet is still its worker's: nobody else can have got
# its pages.
EXTEND = sa.text("""
WITH mine AS (SELECT id FROM leases WHERE id = ANY (:ids) ORDER BY id FOR UPDATE)
UPDATE leases l SET until = now() + :lease_s * interval '1 second' FROM mine WHERE l.id = mine.id
 RETURNING l.id
""")

LOCK = sa.text("SELECT id, page_ids FROM leases ORDER BY id FOR UPDATE")
REDUCE = sa.text("UPDATE leases SET page_ids = :page_ids WHERE id = :id")
END = sa.text("DELETE FROM leases WHERE id = ANY (:ids)")

# While PostgreSQL was away nobody could prolong a lease. Those from before get a moment once it is
# back.
EXPIRED = sa.text("""
DELETE FROM leases WHERE id IN (
    SELECT id FROM leases
     WHERE until <= now()
       AND NOT (started_at IS NOT NULL AND started_at < pg_postmaster_start_time()
                AND now() < pg_postmaster_start_time() + :grace_s * interval '1 second')
     ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING page_ids, started_at IS NOT NULL AS started, alone
""")

# An unclaimed message is nobody's fault; a worker that died with a page may be the page's.
TAKE_BACK = sa.text(f"""
UPDATE pages p
   SET not_before = now(), settled_at = now(),
       losses = least(losses + CAST(:started AS int), :bound),
       status = CASE WHEN losses + CAST(:started AS int) >= :losses_max AND :alone THEN 'dead'
                     ELSE 'due' END,
       last_outcome = CASE WHEN :started THEN 'worker_lost' ELSE last_outcome END,
       error = CASE WHEN losses + CAST(:started AS int) >= :losses_max AND :alone
                    THEN format('%s workers died or froze while they held it, the last one '
                                'with nothing else to do', losses + 1)
                    ELSE error END
 WHERE id = ANY (:ids) AND {STILL_DUE}
RETURNING crawl_id, kind, status
""")

BUSY = sa.text("""
SELECT queue, count(DISTINCT worker) AS workers FROM leases
 WHERE started_at IS NOT NULL AND until > now() + :alive_s * interval '1 second' GROUP BY queue
""")

WAITING_LEVELS = sa.text("SELECT queue, priority FROM leases WHERE started_at IS NULL")

# A batch's pages are of one level.
HELD = sa.text("""
SELECT u.host, l.priority, count(*) AS pages
  FROM leases l CROSS JOIN LATERAL unnest(l.page_ids, l.hosts) AS u(page_id, host)
 WHERE u.page_id <> 0 AND (l.started_at IS NULL OR l.until > now() + :alive_s * interval '1 second')
 GROUP BY u.host, l.priority
""")


class ClaimedRow(NamedTuple):
    """The columns of `CLAIMED_PAGES`. `good_s` and `read_s`: how long ago its last good answer
    came, and it was read whole. `owned`: its first two products, where they are stored as they
    were read then."""

    id: int
    crawl_id: int
    url: str
    kind: str
    host: str
    attempts: int
    host_attempts: int
    depth: int
    priority: int
    level: str | None
    blocked: int
    probe: bool
    last_item_count: int | None
    good_before: bool
    revisit_s: int | None
    good_s: float | None
    etag: str | None
    last_modified: str | None
    body_hash: int | None
    content_hash: UUID | None
    extractor_hash: int | None
    read_s: float | None
    owned: list[str] | None


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """What dispatch needs to know of a lease it made: the message carries no more than the id.
    `alone`: to be worked on by a worker that does nothing else meanwhile."""

    id: UUID
    queue: str
    kind: Kind
    pages: int
    priority: int
    alone: bool = False


def unclaimed_s(lease_s: float) -> float:
    """How long a lease waits for a worker to claim it, and its message in the broker."""
    return min(CLAIM_S, lease_s)


def try_lock_dispatch(connection: sa.Connection) -> bool:
    """Whether this transaction may lease: nobody else does until it ends. Asked before what is due
    is read."""
    return bool(connection.execute(LOCK_DISPATCH).scalar())


def lease_pages(
    connection: sa.Connection,
    queue: str,
    groups: Iterable[Sequence[DuePage]],
    lease_s: float,
    *,
    alone: bool = False,
) -> list[LeasedBatch]:
    """Leases these pages: of each group at most one batch a task (listings, products).

    The caller has the dispatch lock, holds the crawls (`crawls.hold_running`), and has read since
    that the pages are due: so they still are. `alone`: to be worked on by a worker that does
    nothing else meanwhile.
    """
    batches: list[LeasedBatch] = []
    rows: list[dict[str, object]] = []
    for group in groups:
        for kind in (Kind.LISTING, Kind.PRODUCT):
            pages = [page for page in group if page.product == (kind is Kind.PRODUCT)]
            if not pages:
                continue
            priority = max(page.priority for page in pages)
            batch = LeasedBatch(uuid4(), queue, kind, len(pages), priority, alone=alone)
            batches.append(batch)
            row: dict[str, object] = {"id": batch.id, "kind": kind, "priority": priority}
            row["page_ids"] = [page.id for page in pages]
            row["hosts"] = [page.host for page in pages]
            rows.append(row)
    if batches:
        values = {"queue": queue, "batches": dumps(rows), "lease_s": unclaimed_s(lease_s)}
        connection.execute(LEASE, values)
    return batches


def claim_lease(
    connection: sa.Connection,
    lease_id: UUID,
    worker: str,
    lease_s: float,
    *,
    claim_id: UUID | None = None,
    alone: bool = False,
) -> Lease | None:
    """Starts a lease: its pages, or None where it has expired, was claimed before, or never was.

    Whoever did not hear the answer may ask again with the same `claim_id`. `alone`: the worker
    holds no other lease, and will not for as long as it holds this one.
    """
    claim_id = claim_id or uuid4()
    values = {
        "id": lease_id,
        "worker": worker,
        "lease_s": lease_s,
        "claim": claim_id,
        "alone": alone,
    }
    row = connection.execute(CLAIM, values).first()
    if row is None:
        return None
    claimed = rows_as(ClaimedRow, connection.execute(CLAIMED_PAGES, {"id": lease_id}))
    return Lease(
        id=lease_id, kind=Kind(row.kind), queue=row.queue, pages=tuple(map(_page_of, claimed))
    )


def _page_of(row: ClaimedRow) -> LeasedPage:
    stored = None
    if row.owned and row.extractor_hash is not None and row.read_s is not None:
        stored = LastReading(
            Validators(row.etag, row.last_modified, row.body_hash),
            row.extractor_hash,
            row.read_s,
            row.owned[0] if len(row.owned) == 1 else None,
        )
    return LeasedPage(
        id=row.id,
        crawl_id=row.crawl_id,
        url=row.url,
        kind=Kind(row.kind),
        host=row.host,
        attempts=row.attempts,
        host_attempts=row.host_attempts,
        depth=row.depth,
        priority=row.priority,
        level=row.level,
        blocked=row.blocked,
        probe=row.probe,
        last_item_count=row.last_item_count or 0,
        good_before=row.good_before,
        last_content=row.content_hash,
        last_reading=stored,
        revisit_s=row.revisit_s,
        good_s=row.good_s,
    )


def extend_leases(
    connection: sa.Connection, lease_ids: Sequence[UUID], lease_s: float
) -> set[UUID]:
    """Prolongs the leases a worker is busy with; the ones missing from the answer are lost."""
    return set(connection.execute(EXTEND, {"ids": list(lease_ids), "lease_s": lease_s}).scalars())


def reclaim_expired(connection: sa.Connection) -> list[PageChange]:
    """Ends the expired leases and makes their pages due again, or dead where they keep killing
    workers."""
    expired: dict[tuple[bool, bool], list[int]] = defaultdict(list)
    for row in connection.execute(EXPIRED, {"grace_s": RESTART_GRACE_S}):
        expired[row.started, row.alone] += filter(None, row.page_ids)
    changes: list[PageChange] = []
    for (started, alone), ids in expired.items():
        values = {"ids": ids, "started": started, "alone": alone, "losses_max": LOSSES_MAX}
        values["bound"] = LOSSES_MAX if alone else ALONE_LOSSES
        rows = connection.execute(TAKE_BACK, values)
        changes += [PageChange(row.crawl_id, Kind(row.kind), row.status) for row in rows]
    return changes


def lock_leases(connection: sa.Connection) -> dict[UUID, list[int]]:
    """Locks the leases that there are. Their open pages."""
    return {row.id: row.page_ids for row in connection.execute(LOCK)}


def remove_pages(
    connection: sa.Connection, locked: Mapping[UUID, Sequence[int]], pages: AbstractSet[int]
) -> None:
    """Takes these pages out of leases that are locked; those that have no other page end."""
    reduced = {
        lease_id: [0 if page_id in pages else page_id for page_id in page_ids]
        for lease_id, page_ids in locked.items()
        if not pages.isdisjoint(page_ids)
    }
    for lease_id, page_ids in reduced.items():
        if any(page_ids):
            connection.execute(REDUCE, {"id": lease_id, "page_ids": page_ids})
    empty = [lease_id for lease_id, page_ids in reduced.items() if not any(page_ids)]
    connection.execute(END, {"ids": empty})


def count_leased(connection: sa.Connection, lease_s: float) -> dict[str, Counter[int]]:
    """The pages out on leases: host -> level -> pages.

    Those of a worker that has been silent for a while do not count: it is probably dead, and its
    hosts would have nothing to do until its leases run out.
    """
    pages: dict[str, Counter[int]] = defaultdict(Counter)
    for row in connection.execute(HELD, {"alive_s": _alive_s(lease_s)}):
        pages[row.host][priority_level(row.priority)] += row.pages
    return pages


def busy_workers(connection: sa.Connection, lease_s: float) -> dict[str, int]:
    """How many workers have leases of each queue, but for those that have been silent."""
    rows = connection.execute(BUSY, {"alive_s": _alive_s(lease_s)})
    return {row.queue: row.workers for row in rows}


def waiting_levels(connection: sa.Connection) -> dict[str, Counter[int]]:
    """The leases that no worker has claimed yet, by queue and level: one is as urgent as its most
    urgent page."""
    waiting: dict[str, Counter[int]] = defaultdict(Counter)
    for row in connection.execute(WAITING_LEVELS):
        waiting[row.queue][priority_level(row.priority)] += 1
    return waiting


def _alive_s(lease_s: float) -> float:
    return lease_s - min(SILENT_S, lease_s / 2)
