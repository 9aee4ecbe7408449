"""The frontier: pages added, leased, claimed, extended, and taken back. (Settling them is `stores.settle`.)

The statements here are the concurrency design:

- a page is in one lease at a time (`FOR UPDATE SKIP LOCKED`, and a check constraint ties status and lease id together);
- a lease is claimed once: the second delivery of its message finds `started_at` set and gets nothing;
- every later effect names the lease id, so that a worker that lost its lease changes nothing.

All times are PostgreSQL's; no process compares its own clock with a stored one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from scraper.domain import Kind, Known, Lease, LeasedPage, Validators, value
from scraper.policy.routing import level_of
from scraper.sites.scalars import per_second
from scraper.stores.database import dumps

CLAIM_S = 20.0  # a lease that no worker has claimed by then goes back: its message is lost, or nobody serves its queue
SETTLE_IN_S = 10.0  # after PostgreSQL has started, for workers that still live to prolong what ran out meanwhile

# A worker that dies takes many pages with it, of which one may be the cause. From the second time on they are suspects:
# leased in small batches, then singly, and at last by a worker that does nothing else meanwhile. Only such a death counts
# as the last one, so that nothing but the cause is given up.
SUSPECT_LOSSES = 2  # as in the index `pages_suspect_idx`
LOSSES_MAX = 5
ALONE_LOSSES = LOSSES_MAX - 1
SUSPECT_BATCH = {2: 10, 3: 1, 4: 1}  # losses -> pages in a lease
SUSPECT_LEASES = {2: 4, 3: 4, 4: 1}  # losses -> leases of a queue at a time
SILENT_S = 10.0  # a worker prolongs its leases every two seconds
PASSED_OVER = 5000  # due pages of paused crawls that are looked past to find another site's on the same host

# A product whose last good answer is younger than the crawl's revisit age is reached, but not asked again. Where that age is
# each page's own, it counts between the definition's bounds, as they were when the crawl was opened.
FRESH = """(excluded.kind = 'product' AND p.status NOT IN ('gone', 'dead', 'invalid')
            AND (SELECT p.fetched_at > c.fresh_after OR (p.fetched_at > c.stale_before
                        AND p.fetched_at > c.created_at - p.revisit_s * interval '1 second')
                   FROM crawls c WHERE c.id = excluded.crawl_id))"""


# Pages this crawl knows already are sorted out first and without a lock: two listing pages that link to each other
# would otherwise lock each other's rows. The order makes two writers insert the same links in the same sequence.
# With `again`, dead and invalid pages are taken up once more, even by the crawl that gave them up. (`OFFSET 0`: or whether a
# page is fresh would be found out for each column.)
def _add_statement(*, again: bool) -> sa.TextClause:
    unusable = "p.status IN ('dead', 'invalid')" if again else "false"
    before = (
        "a.crawl_id, a.kind, a.status, 1 AS pages, u.before FROM added a JOIN unknown u USING (site_id, fingerprint)"
    )
    return sa.text(f"""
WITH input AS (
    SELECT DISTINCT ON (site_id, fingerprint) *
      FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(site_id int, crawl_id bigint, fingerprint uuid, url text,
           kind text, host text, queue text, priority int, depth int)
), unknown AS (
    SELECT i.*, row_number() OVER (PARTITION BY i.crawl_id, i.kind = 'product' ORDER BY i.fingerprint) AS place,
           CASE WHEN p.crawl_id = i.crawl_id THEN p.status END AS before
      FROM input i
      LEFT JOIN pages p ON p.site_id = i.site_id AND p.fingerprint = i.fingerprint
     WHERE p.id IS NULL OR p.crawl_id < i.crawl_id OR {unusable}
), room AS (
    SELECT * FROM jsonb_to_recordset(CAST(:room AS jsonb)) AS r(crawl_id bigint, listings int, products int)
), placed AS (
    SELECT u.*, u.place <= CASE WHEN u.kind = 'product' THEN r.products ELSE r.listings END AS fits
      FROM unknown u JOIN room r ON r.crawl_id = u.crawl_id
), added AS (
    INSERT INTO pages AS p (site_id, crawl_id, fingerprint, url, kind, host, queue, priority, depth, status)
    SELECT site_id, crawl_id, fingerprint, url, kind, host, queue, priority, depth, 'due'
      FROM placed WHERE fits ORDER BY site_id, fingerprint
    ON CONFLICT (site_id, fingerprint) DO UPDATE
       SET crawl_id = excluded.crawl_id, url = excluded.url, kind = excluded.kind, host = excluded.host,
           queue = excluded.queue, priority = excluded.priority, depth = excluded.depth,
           attempts = 0, host_attempts = 0, losses = 0, level = NULL, blocked = 0, probe = false,
           not_before = now(), lease_id = NULL,
           read_by = CASE WHEN p.url = excluded.url THEN p.read_by END,
           error = NULL, excerpt = NULL, response_head = NULL,
           (status, last_outcome) = (
               SELECT CASE WHEN fresh THEN 'unchanged' ELSE 'due' END, CASE WHEN fresh THEN 'fresh' ELSE p.last_outcome END
                 FROM (SELECT {FRESH} AS fresh OFFSET 0) once)
     WHERE p.crawl_id < excluded.crawl_id OR {unusable}
    RETURNING site_id, fingerprint, crawl_id, kind, status
)
SELECT {before if again else "crawl_id, kind, status, 1 AS pages, NULL AS before FROM added"}
UNION ALL SELECT crawl_id, kind, 'cut', count(*), NULL FROM placed WHERE NOT fits GROUP BY crawl_id, kind
""")


ADD = _add_statement(again=False)
ADD_AGAIN = _add_statement(again=True)

BUSY = sa.text("""
SELECT queue, count(DISTINCT worker) AS workers FROM leases
 WHERE started_at IS NOT NULL AND until > now() + :alive_s * interval '1 second' GROUP BY queue
""")

# A loose index scan: one step of the due index for each (queue, host), however many pages each has. The page that a step
# comes upon is its host's most urgent one; only where that is not due yet, or its crawl is paused, are others looked at.
DUE_HOSTS = sa.text("""
WITH RECURSIVE each AS (
    (SELECT queue, host, priority, not_before, crawl_id FROM pages
      WHERE status = 'due' ORDER BY queue, host, priority DESC, not_before LIMIT 1)
    UNION ALL
    SELECT n.* FROM each h CROSS JOIN LATERAL (
        SELECT queue, host, priority, not_before, crawl_id FROM pages
         WHERE status = 'due' AND (queue, host) > (h.queue, h.host)
         ORDER BY queue, host, priority DESC, not_before LIMIT 1) n
)
SELECT h.queue, h.host, first.priority, first.not_before, c.rate_per_s, o.rate
  FROM each h
 CROSS JOIN LATERAL (
        (SELECT h.priority, h.crawl_id, h.not_before WHERE h.not_before <= now() AND h.crawl_id <> ALL (:paused))
        UNION ALL
        (SELECT priority, crawl_id, not_before FROM (
                SELECT priority, crawl_id, not_before FROM pages
                 WHERE status = 'due' AND queue = h.queue AND host = h.host AND not_before <= now()
                 ORDER BY priority DESC, not_before LIMIT :passed_over) most_urgent
          WHERE crawl_id <> ALL (:paused) LIMIT 1)
        LIMIT 1) first
  JOIN crawls c ON c.id = first.crawl_id
  LEFT JOIN hosts o ON o.host = h.host
 WHERE NOT coalesce(o.paused, false)
 ORDER BY first.priority DESC, first.not_before
""")

# A batch's pages are of one level, so one of them says which; the others are counted in the index alone.
HELD = sa.text("""
SELECT p.host, first.priority, count(*) AS pages
  FROM leases l
 CROSS JOIN LATERAL (SELECT priority FROM pages WHERE lease_id = l.id LIMIT 1) first
  JOIN pages p ON p.lease_id = l.id AND p.lease_id IS NOT NULL
 WHERE l.started_at IS NULL OR l.until > now() + :alive_s * interval '1 second'
 GROUP BY p.host, first.priority
""")

# As many as may be leased, not all there are: the index is read no further than that, and no earlier than from each host's
# most urgent page on. What was leased before that one stays in the index until a vacuum, and would be walked over.
_MAY_BE_LEASED = f"""status = 'due' AND queue = :queue AND host = may.host AND not_before <= now()
                AND losses < {SUSPECT_LOSSES} AND crawl_id <> ALL (:paused)"""
DUE_PAGES = sa.text(f"""
WITH may AS (
    SELECT * FROM jsonb_to_recordset(CAST(:hosts AS jsonb)) AS m(host text, pages int, priority int, since timestamptz)
)
SELECT may.host, due.priorities, due.ids
  FROM may CROSS JOIN LATERAL (
        SELECT array_agg(priority) AS priorities, array_agg(id) AS ids FROM (
            (SELECT priority, id FROM pages
              WHERE {_MAY_BE_LEASED} AND priority = may.priority AND not_before >= may.since
              ORDER BY not_before LIMIT may.pages)
            UNION ALL
            (SELECT priority, id FROM pages WHERE {_MAY_BE_LEASED} AND priority < may.priority
              ORDER BY priority DESC, not_before LIMIT may.pages)
            LIMIT may.pages) most_urgent) due
 WHERE due.ids IS NOT NULL
""")


# An array of places, which is made once and then gone to directly: joined with what is picked, the whole table would be read
# where it is not large, for nobody can tell beforehand how many pages are wanted. Rows that are locked stay where they are;
# one that was written anew just before that is not found there, and stays due. Each lease is opened with what it got.
def _lease_statement(picked: str) -> sa.TextClause:
    return sa.text(f"""
WITH leased AS (
    UPDATE pages p
       SET status = 'leased', lease_id = CASE WHEN p.kind = 'product' THEN :products ELSE :listings END
     WHERE p.ctid = ANY (ARRAY({picked}))
    RETURNING p.lease_id, p.priority
), made AS (
    SELECT lease_id AS id, CASE WHEN lease_id = :products THEN 'product' ELSE 'listing' END AS kind,
           count(*) AS pages, max(priority) AS priority
      FROM leased GROUP BY lease_id
), opened AS (
    INSERT INTO leases (id, queue, kind, pages, until)
    SELECT id, :queue, kind, pages, now() + :lease_s * interval '1 second' FROM made
)
SELECT id, kind, pages, priority FROM made ORDER BY kind
""").bindparams(
        sa.bindparam("products", type_=sa.Uuid),
        sa.bindparam("listings", type_=sa.Uuid),
    )


# What was due a moment ago may be somebody else's by now. (CASE, which no index answers: whoever planned this while few pages
# were due would go through all that are due ever after, to find a hundred.)
LEASE = _lease_statement(f"""
    SELECT ctid FROM pages
     WHERE id = ANY (:ids)
       AND CASE WHEN status = 'due' THEN queue = :queue AND not_before <= now() AND losses < {SUSPECT_LOSSES} ELSE false END
       FOR UPDATE SKIP LOCKED""")

SUSPECTS = sa.text(f"""
SELECT queue, losses, count(*) FILTER (WHERE status = 'due' AND not_before <= now()) AS due,
       count(DISTINCT lease_id) AS leases
  FROM pages WHERE losses >= {SUSPECT_LOSSES} AND status IN ('due', 'leased') AND crawl_id <> ALL (:paused)
   AND host NOT IN (SELECT host FROM hosts WHERE paused)
 GROUP BY queue, losses
""")

# Of one sort at a time, listings or products, so that it makes one batch.
LEASE_SUSPECTS = _lease_statement(f"""
    SELECT ctid FROM pages
     WHERE losses = :losses AND losses >= {SUSPECT_LOSSES} AND status = 'due' AND queue = :queue AND not_before <= now()
       AND crawl_id <> ALL (:paused) AND host NOT IN (SELECT host FROM hosts WHERE paused)
       AND (kind = 'product') = (
           SELECT kind = 'product' FROM pages
            WHERE losses = :losses AND losses >= {SUSPECT_LOSSES} AND status = 'due' AND queue = :queue
              AND not_before <= now() AND crawl_id <> ALL (:paused)
              AND host NOT IN (SELECT host FROM hosts WHERE paused)
            ORDER BY priority DESC, id LIMIT 1)
     ORDER BY priority DESC, id LIMIT :pages FOR UPDATE SKIP LOCKED""")

CLAIM = sa.text("""
UPDATE leases SET started_at = now(), until = now() + :lease_s * interval '1 second', worker = :worker, claim = :claim,
       alone = :alone
 WHERE id = :id AND (started_at IS NULL OR claim = :claim) AND until > now()
RETURNING kind, queue
""").bindparams(sa.bindparam("claim", type_=sa.Uuid))

WAITING_LEVELS = sa.text("""
SELECT l.queue, coalesce((SELECT max(p.priority) FROM pages p WHERE p.lease_id = l.id), 0) AS priority
  FROM leases l WHERE l.started_at IS NULL
""")

# A 304 stands for a stored product, so a page that owns none is read whole: another page had its product's id first, say,
# and may be gone by now. So is one that was last read before the crawl's line: in a suspect crawl, or by who types
# `--refetch`. (Subqueries, and one with LIMIT, since a join or EXISTS may be answered by hashing a whole table.)
CLAIMED_PAGES = sa.text("""
SELECT p.id, p.crawl_id, p.url, p.kind, p.host, p.attempts, p.host_attempts, p.depth, p.priority, p.level, p.blocked, p.probe,
       coalesce(p.last_outcome IN ('fetched', 'not_modified', 'fresh'), false) AS good_before, p.revisit_s,
       CASE WHEN p.revisit_s IS NOT NULL THEN CAST(extract(epoch FROM now() - p.fetched_at) AS float8) END AS good_s,
       p.etag, p.last_modified, p.read_by,
       CASE WHEN p.read_by IS NOT NULL THEN CAST(extract(epoch FROM now() - p.read_at) AS float8) END AS read_s,
       (p.read_by IS NOT NULL
        AND p.read_at > coalesce((SELECT whole_before FROM crawls WHERE id = p.crawl_id), '-infinity')
        AND (SELECT true FROM products pr WHERE pr.page_id = p.id LIMIT 1)) IS TRUE AS known
  FROM pages p WHERE p.lease_id = :id ORDER BY p.priority DESC, p.id
""")

# One that has run out and was not taken back yet is still its worker's: nobody else can have got its pages.
EXTEND = sa.text("""
UPDATE leases SET until = now() + :lease_s * interval '1 second' WHERE id = ANY (:ids) RETURNING id
""")

END_LEASES = sa.text("""
DELETE FROM leases l WHERE id = ANY (:ids) AND NOT EXISTS (SELECT FROM pages p WHERE p.lease_id = l.id)
""")

# While PostgreSQL was away nobody could prolong a lease. Those from before get a moment once it is back.
EXPIRED = sa.text("""
DELETE FROM leases WHERE id IN (
    SELECT id FROM leases
     WHERE until <= now()
       AND NOT (started_at IS NOT NULL AND started_at < pg_postmaster_start_time()
                AND now() < pg_postmaster_start_time() + :settle_in_s * interval '1 second')
     ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING id, started_at IS NOT NULL AS started, alone
""")

# An unclaimed message is nobody's fault; a worker that died with a page may be the page's.
TAKE_BACK = sa.text("""
UPDATE pages
   SET lease_id = NULL, not_before = now(), settled_at = now(),
       losses = least(losses + CAST(:started AS int), :most),
       status = CASE WHEN losses + CAST(:started AS int) >= :losses_max AND :alone THEN 'dead' ELSE 'due' END,
       last_outcome = CASE WHEN :started THEN 'worker_lost' ELSE last_outcome END,
       error = CASE WHEN losses + CAST(:started AS int) >= :losses_max AND :alone
                    THEN format('%s workers died or froze while they held it, the last one with nothing else to do',
                                losses + 1) ELSE error END
 WHERE lease_id = ANY (:ids)
RETURNING crawl_id, kind, status
""")


@value
class NewPage:
    """A page to add. `queue` is the full queue name, `priority` the frontier's sort key."""

    site_id: int
    crawl_id: int
    fingerprint: UUID
    url: str
    kind: Kind
    host: str
    queue: str
    priority: int
    depth: int


@dataclass(frozen=True, slots=True)
class Room:
    """How many more pages a crawl may get, by its definition's limits."""

    crawl_id: int
    listings: int
    products: int


@value
class PageChange:
    """One page's move, as the crawl counters need it."""

    crawl_id: int
    kind: Kind
    status: str
    before: str | None = None  # the final status that a page of the same crawl had, where it is taken up again


@dataclass(frozen=True, slots=True)
class Added:
    """The pages that joined a crawl (or were found fresh), and how many by crawl there was no room for."""

    pages: list[PageChange]
    cut: dict[int, int]


@dataclass(frozen=True, slots=True)
class DueHost:
    """A host with pages due now on a queue: the priority of its most urgent one and since when that is due, and the host's
    budget."""

    queue: str
    host: str
    priority: int
    since: datetime
    rate_per_s: float | None


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """What dispatch needs to know of a lease it made: the message carries no more than the id."""

    id: UUID
    queue: str
    kind: Kind
    pages: int
    priority: int
    alone: bool = False  # to be worked on by a worker that does nothing else meanwhile


@dataclass(frozen=True, slots=True)
class Suspects:
    """The suspects of a queue with so many losses: how many are due now, and how many leases of them are out."""

    queue: str
    losses: int
    due: int
    leases: int

    @property
    def room(self) -> int:
        """Leases that may be made now."""
        size, at_once = SUSPECT_BATCH.get(self.losses, 1), SUSPECT_LEASES.get(self.losses, 1)
        return max(0, min(at_once - self.leases, -(-self.due // size)))


def unclaimed_s(lease_s: float) -> float:
    """How long a lease waits for a worker to claim it, and its message in the broker."""
    return min(CLAIM_S, lease_s)


def add(connection: sa.Connection, pages: Sequence[NewPage], room: Sequence[Room], *, again: bool = False) -> Added:
    """Adds pages to their crawls while there is room; those a crawl has already are left alone, but for dead and invalid
    ones where they are wanted `again`."""
    if not pages:
        return Added([], {})
    values = {"rows": dumps(pages), "room": dumps(room)}
    changes, cut = [], {r.crawl_id: 0 for r in room}
    for crawl_id, kind, status, pages_cut, before in connection.execute(ADD_AGAIN if again else ADD, values).all():
        if status == "cut":
            cut[crawl_id] += pages_cut
        else:
            changes.append(PageChange(crawl_id, Kind(kind), status, before))
    return Added(changes, cut)


def due_hosts(connection: sa.Connection, paused: Sequence[int] = ()) -> list[DueHost]:
    """Every (queue, host) with something due now, the most urgent first, but for paused hosts; the crawls in `paused`
    count for nothing."""
    values = {"paused": list(paused), "passed_over": PASSED_OVER if paused else 1}
    return [
        DueHost(r.queue, r.host, r.priority, r.not_before, r.rate_per_s if r.rate is None else per_second(r.rate))
        for r in connection.execute(DUE_HOSTS, values)
    ]


def held(connection: sa.Connection, lease_s: float) -> dict[str, Counter[int]]:
    """The pages out on leases: host -> level -> pages.

    Those of a worker that has been silent for a while do not count: it is probably dead, and its hosts would have nothing
    to do until its leases run out.
    """
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for row in connection.execute(HELD, {"alive_s": _alive_s(lease_s)}):
        found[row.host][level_of(row.priority)] += row.pages
    return found


def busy_workers(connection: sa.Connection, lease_s: float) -> dict[str, int]:
    """How many workers have leases of each queue, but for those that have been silent for a while."""
    return {row.queue: row.workers for row in connection.execute(BUSY, {"alive_s": _alive_s(lease_s)})}


def _alive_s(lease_s: float) -> float:
    return lease_s - min(SILENT_S, lease_s / 2)


def due_pages(
    connection: sa.Connection,
    queue: str,
    hosts: Iterable[DueHost],
    allowances: Mapping[str, int],
    paused: Sequence[int],
) -> dict[int, dict[str, list[int]]]:
    """What is due now on a queue of these hosts, no more than each one's allowance: priority -> host -> the pages' ids, those
    that have been due for longest first. Suspects apart."""
    may = [
        {"host": one.host, "pages": allowances[one.host], "priority": one.priority, "since": one.since}
        for one in hosts
        if allowances.get(one.host, 0) > 0
    ]
    due: dict[int, dict[str, list[int]]] = defaultdict(dict)
    values = {"queue": queue, "hosts": dumps(may), "paused": list(paused)}
    for host, priorities, ids in connection.execute(DUE_PAGES, values):
        for priority, page_id in zip(priorities, ids, strict=True):
            due[priority].setdefault(host, []).append(page_id)
    return due


def suspects(connection: sa.Connection, paused: Sequence[int]) -> list[Suspects]:
    """The pages that several workers died with, by queue and losses; normally none."""
    rows = connection.execute(SUSPECTS, {"paused": list(paused)})
    return [Suspects(row.queue, row.losses, row.due, row.leases) for row in rows]


def lease(connection: sa.Connection, queue: str, pages: Sequence[int], lease_s: float) -> list[LeasedBatch]:
    """Leases those of these pages that are due on the queue: at most one batch a task (listings, products)."""
    return _lease(connection, queue, LEASE, {"ids": list(pages)}, lease_s)


def lease_suspects(
    connection: sa.Connection, some: Suspects, lease_s: float, paused: Sequence[int]
) -> list[LeasedBatch]:
    """Leases a few suspects, at most one batch a task."""
    values = {"losses": some.losses, "pages": SUSPECT_BATCH.get(some.losses, 1), "paused": list(paused)}
    made = _lease(connection, some.queue, LEASE_SUSPECTS, values, lease_s)
    return [replace(batch, alone=some.losses >= ALONE_LOSSES) for batch in made]


def _lease(
    connection: sa.Connection, queue: str, statement: sa.TextClause, values: dict[str, Any], lease_s: float
) -> list[LeasedBatch]:
    values |= {"queue": queue, "products": uuid4(), "listings": uuid4(), "lease_s": unclaimed_s(lease_s)}
    rows = connection.execute(statement, values)
    return [LeasedBatch(row.id, queue, Kind(row.kind), row.pages, row.priority) for row in rows]


def claim(
    connection: sa.Connection,
    lease_id: UUID,
    worker: str,
    lease_s: float,
    *,
    claim_id: UUID | None = None,
    alone: bool = False,
) -> Lease | None:
    """Starts a lease: its pages, or None where it has expired, was claimed before, or never was.

    Whoever did not hear the answer may ask again with the same `claim_id`. `alone`: the worker holds no other lease, and
    will not for as long as it holds this one.
    """
    values = {"id": lease_id, "worker": worker, "lease_s": lease_s, "claim": claim_id or uuid4(), "alone": alone}
    row = connection.execute(CLAIM, values).first()
    if row is None:
        return None
    pages = tuple(_leased(*row) for row in connection.execute(CLAIMED_PAGES, {"id": lease_id}).all())
    return Lease(id=lease_id, kind=Kind(row.kind), queue=row.queue, pages=pages)


def _leased(
    id: int,  # noqa: A002 - the columns of CLAIMED_PAGES, in their order: by name each costs 0.7 us
    crawl_id: int,
    url: str,
    kind: str,
    host: str,
    attempts: int,
    host_attempts: int,
    depth: int,
    priority: int,
    level: str | None,
    blocked: int,
    probe: bool,
    good_before: bool,
    revisit_s: int | None,
    good_s: float | None,
    etag: str | None,
    last_modified: str | None,
    read_by: int,  # this and the next: None unless `known`
    read_s: float,
    known: bool,
) -> LeasedPage:
    return LeasedPage(
        id, crawl_id, url, Kind(kind), host, attempts, host_attempts, depth, priority, level, blocked, probe, good_before,
        Known(Validators(etag, last_modified), read_by, read_s) if known else None,
        revisit_s, good_s,
    )  # fmt: skip


def waiting_levels(connection: sa.Connection) -> dict[str, Counter[int]]:
    """The same by queue and level: a lease is as urgent as its most urgent page."""
    waiting: dict[str, Counter[int]] = defaultdict(Counter)
    for row in connection.execute(WAITING_LEVELS):
        waiting[row.queue][level_of(row.priority)] += 1
    return waiting


def extend(connection: sa.Connection, lease_ids: Sequence[UUID], lease_s: float) -> set[UUID]:
    """Prolongs the leases a worker is busy with; the ones missing from the answer are lost."""
    return set(connection.execute(EXTEND, {"ids": list(lease_ids), "lease_s": lease_s}).scalars())


def take_back(connection: sa.Connection) -> list[PageChange]:
    """Ends the expired leases and makes their pages due again, or dead where they keep killing workers."""
    expired: dict[tuple[bool, bool], list[UUID]] = defaultdict(list)
    for row in connection.execute(EXPIRED, {"settle_in_s": SETTLE_IN_S}):
        expired[row.started, row.alone].append(row.id)
    changes: list[PageChange] = []
    for (started, alone), ids in expired.items():
        most = LOSSES_MAX if alone else ALONE_LOSSES
        values = {"ids": ids, "started": started, "alone": alone, "losses_max": LOSSES_MAX, "most": most}
        rows = connection.execute(TAKE_BACK, values)
        changes += [PageChange(row.crawl_id, Kind(row.kind), row.status) for row in rows]
    return changes
