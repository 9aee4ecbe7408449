"""Leases: the pages that workers hold. Made, claimed, extended, counted, reclaimed. (Settling is
`scraper.results.transaction`.)

A lease is one row that names its pages. In the frontier these stay due, and nothing is written
there before a page is settled, so the cost of a lease does not depend on the frontier's size. The
statements here are the concurrency design:

- a page is in one lease at a time: only one transaction leases at a time (`try_lock_dispatch`), and
  it takes pages that are due and in no lease;
- the crawls that it leases from cannot end before it does (`crawls.hold_running`), so only leases
  and their ends change whether one of their pages is due, and nothing is leased of an ended crawl;
- a lease is claimed once: the second delivery of its message finds `started_at` set and gets
  nothing;
- every later effect names the lease, so a worker that lost its lease changes nothing;
- a transaction that locks several leases locks them in the order of their ids, and before any page.

All times are PostgreSQL's; no process compares its own clock with a stored time.
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
from scraper.infra.statements import sql
from scraper.rules.routing import priority_level

# A lease that no worker has claimed by then expires: its message is lost, or its queue has no
# worker.
CLAIM_S = 20.0
# For this long after PostgreSQL has started, workers may extend leases that expired during the
# outage.
RESTART_GRACE_S = 10.0
# A worker extends its leases every two seconds. One that has not for this long counts as silent.
SILENT_S = 10.0

# A coordinator that freezes holds the lock until PostgreSQL ends its session, so the others do not
# wait for it.
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

CLAIMED_PAGES = sa.text(sql("frontier/claimed_pages.sql"))

# An expired lease that was not reclaimed yet is still its worker's: no other worker can have its
# pages.
EXTEND = sa.text("""
WITH mine AS (SELECT id FROM leases WHERE id = ANY (:ids) ORDER BY id FOR UPDATE)
UPDATE leases l SET until = now() + :lease_s * interval '1 second' FROM mine WHERE l.id = mine.id
 RETURNING l.id
""")

LOCK = sa.text("SELECT id, page_ids FROM leases ORDER BY id FOR UPDATE")
REDUCE = sa.text("UPDATE leases SET page_ids = :page_ids WHERE id = :id")
END = sa.text("DELETE FROM leases WHERE id = ANY (:ids)")

EXPIRED = sa.text(sql("frontier/reclaim_expired.sql"))

# A page cannot cause an unclaimed message, but it may cause the death of the worker that holds it.
TAKE_BACK = sa.text(f"""
UPDATE pages p
   SET not_before = now(), settled_at = now(),
       losses = least(losses + CAST(:started AS int), :bound),
       status = CASE WHEN losses + CAST(:started AS int) >= :losses_max AND :alone THEN 'dead'
                     ELSE 'due' END,
       last_outcome = CASE WHEN :started THEN 'worker_lost' ELSE last_outcome END,
       error = CASE WHEN losses + CAST(:started AS int) >= :losses_max AND :alone
                    THEN CAST(:death AS text) ELSE error END
 WHERE id = ANY (:ids) AND {STILL_DUE}
RETURNING crawl_id, kind, status
""")
# The last loss is the one that the page is given up for.
DEATH = (
    f"{LOSSES_MAX} workers died or froze while they held it, the last one with nothing else to do"
)

BUSY = sa.text("""
SELECT queue, count(DISTINCT worker) AS workers FROM leases
 WHERE started_at IS NOT NULL AND until > now() + :alive_s * interval '1 second' GROUP BY queue
""")

WAITING_LEVELS = sa.text("SELECT queue, priority FROM leases WHERE started_at IS NULL")

HELD = sa.text(sql("frontier/held_pages.sql"))


class ClaimedRow(NamedTuple):
    """The columns of `CLAIMED_PAGES`. `good_s` and `read_s` are the seconds since the last good
    answer, and since the page was read whole. `owned` has its first two products, if they are
    stored as they were read then."""

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
    doubted_hash: UUID | None
    good_before: bool
    etag: str | None
    last_modified: str | None
    body_hash: int | None
    content_hash: UUID | None
    extractor_hash: int | None
    read_s: float | None
    owned: list[str] | None
    again: bool


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """What dispatch needs to know of a lease that it made; the message carries only the id. The
    worker holds no other lease at the same time if `alone`."""

    id: UUID
    queue: str
    kind: Kind
    pages: int
    priority: int
    alone: bool = False


def unclaimed_s(lease_s: float) -> float:
    """Returns how long a lease waits for a worker to claim it, and its message in the broker."""
    return min(CLAIM_S, lease_s)


def try_lock_dispatch(connection: sa.Connection) -> bool:
    """Returns True if this transaction may lease; no other one may until it ends. Call it before
    reading what is due."""
    return bool(connection.execute(LOCK_DISPATCH).scalar())


def lease_pages(
    connection: sa.Connection,
    queue: str,
    groups: Iterable[Sequence[DuePage]],
    lease_s: float,
    *,
    alone: bool = False,
) -> list[LeasedBatch]:
    """Leases these pages: at most one batch of listings and one of products for each group.

    The caller has the dispatch lock, holds the crawls (`crawls.hold_running`), and has read since
    then that the pages are due: so they still are.
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
    """Claims a lease for a worker. Returns None if the lease has expired, was claimed before, or
    never existed.

    A caller that did not get the answer may ask again with the same `claim_id`. `alone` states that
    the worker holds no other lease while it holds this one.
    """
    values = {
        "id": lease_id,
        "worker": worker,
        "lease_s": lease_s,
        "claim": claim_id or uuid4(),
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
        again=row.again,
        doubted=row.doubted_hash,
    )


def extend_leases(
    connection: sa.Connection, lease_ids: Sequence[UUID], lease_s: float
) -> set[UUID]:
    """Extends the leases that a worker holds. Returns those that it still holds; the others are
    lost."""
    return set(connection.execute(EXTEND, {"ids": list(lease_ids), "lease_s": lease_s}).scalars())


def reclaim_expired(connection: sa.Connection, *, is_back: bool = False) -> list[PageChange]:
    """Ends the expired leases. Their pages become due again, or dead if they keep killing workers.
    If PostgreSQL `is_back` from a long outage, workers keep their leases for now."""
    expired: dict[tuple[bool, bool], list[int]] = defaultdict(list)
    for row in connection.execute(EXPIRED, {"grace_s": RESTART_GRACE_S, "is_back": is_back}):
        expired[row.started, row.alone] += filter(None, row.page_ids)
    changes: list[PageChange] = []
    for (started, alone), ids in expired.items():
        values = {"ids": ids, "started": started, "alone": alone, "losses_max": LOSSES_MAX}
        values |= {"bound": LOSSES_MAX if alone else ALONE_LOSSES, "death": DEATH}
        rows = connection.execute(TAKE_BACK, values)
        changes += [PageChange(row.crawl_id, Kind(row.kind), row.status) for row in rows]
    return changes


def lock_leases(connection: sa.Connection) -> dict[UUID, list[int]]:
    """Locks all leases. Returns the open pages of each."""
    return {row.id: row.page_ids for row in connection.execute(LOCK)}


def remove_pages(
    connection: sa.Connection, locked: Mapping[UUID, Sequence[int]], pages: AbstractSet[int]
) -> None:
    """Removes pages from leases that are locked, and ends the leases that have no other page."""
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
    """Counts the leased pages as host -> level -> pages.

    A silent worker's pages do not count: the worker is probably dead, and its hosts would have
    nothing to do until its leases expire.
    """
    pages: dict[str, Counter[int]] = defaultdict(Counter)
    for row in connection.execute(HELD, {"alive_s": _alive_s(lease_s)}):
        pages[row.host][priority_level(row.priority)] += row.pages
    return pages


def busy_workers(connection: sa.Connection, lease_s: float) -> dict[str, int]:
    """Counts the workers that hold leases, by queue. Silent workers do not count."""
    rows = connection.execute(BUSY, {"alive_s": _alive_s(lease_s)})
    return {row.queue: row.workers for row in rows}


def waiting_levels(connection: sa.Connection) -> dict[str, Counter[int]]:
    """Counts the leases that no worker has claimed yet, by queue and level. A lease is as urgent as
    its most urgent page."""
    waiting: dict[str, Counter[int]] = defaultdict(Counter)
    for row in connection.execute(WAITING_LEVELS):
        waiting[row.queue][priority_level(row.priority)] += 1
    return waiting


def _alive_s(lease_s: float) -> float:
    return lease_s - min(SILENT_S, lease_s / 2)
