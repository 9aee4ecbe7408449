"""What is due: hosts with due pages, these pages, and the suspects among them. Reads alone;
`scraper.frontier.leases` takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.sites.grammar.scalars import parse_rate

# A worker that dies takes many pages with it, of which one may be the cause. From the second time
# on they are suspects: leased in small batches, then singly, and at last by a worker that does
# nothing else meanwhile. Only such a death counts as the last one, so that nothing but the cause is
# given up. The index `pages_suspect_idx` has the same number.
SUSPECT_LOSSES = 2
LOSSES_MAX = 5
ALONE_LOSSES = LOSSES_MAX - 1
# So many pages of so many losses each are in one lease.
SUSPECT_BATCH = {2: 10, 3: 1, 4: 1}
# So many leases of pages with so many losses may be out on a queue at a time.
SUSPECT_LEASES = {2: 4, 3: 4, 4: 1}
# So many due pages of paused crawls are looked past to find another site's on the same host.
PASSED_OVER = 5000

# It says of pages that are named one by one whether they are due: by CASE, which no index answers.
# Whoever planned that while few pages were due would go through all that are due ever after, to
# find a hundred.
STILL_DUE = "CASE p.status WHEN 'due' THEN true ELSE false END"

# The pages that are out on leases, to be asked whether one is among them: `id NOT IN {LEASED}`. By
# way of an array, of which nobody can tell how long it is: so it is always made into a hash table,
# once a statement, however many leases there seem to be.
LEASED = "(SELECT unnest(ARRAY(SELECT unnest(page_ids) FROM leases)))"

# A loose index scan: one step of the due index for each (queue, host), however many pages each has.
# The page that a step comes upon is its host's most urgent one; only where that is not due yet, out
# on a lease, or its crawl is paused, are others looked at.
DUE_HOSTS = sa.text(f"""
WITH RECURSIVE step AS (
    (SELECT queue, host, priority, not_before, crawl_id, id FROM pages
      WHERE status = 'due' ORDER BY queue, host, priority DESC, not_before LIMIT 1)
    UNION ALL
    SELECT n.* FROM step h CROSS JOIN LATERAL (
        SELECT queue, host, priority, not_before, crawl_id, id FROM pages
         WHERE status = 'due' AND (queue, host) > (h.queue, h.host)
         ORDER BY queue, host, priority DESC, not_before LIMIT 1) n
)
SELECT h.queue, h.host, first.priority, first.not_before, c.rate_per_s, o.rate
  FROM step h
 CROSS JOIN LATERAL (
        (SELECT h.priority, h.crawl_id, h.not_before
          WHERE h.not_before <= now() AND h.crawl_id <> ALL (:paused) AND h.id NOT IN {LEASED})
        UNION ALL
        (SELECT priority, crawl_id, not_before FROM (
                SELECT priority, crawl_id, not_before FROM pages
                 WHERE status = 'due' AND queue = h.queue AND host = h.host AND not_before <= now()
                   AND id NOT IN {LEASED}
                 ORDER BY priority DESC, not_before LIMIT :passed_over) most_urgent
          WHERE crawl_id <> ALL (:paused) LIMIT 1)
        LIMIT 1) first
  JOIN crawls c ON c.id = first.crawl_id
  LEFT JOIN hosts o ON o.host = h.host
 WHERE NOT coalesce(o.paused, false)
 ORDER BY first.priority DESC, first.not_before
""")

# In this form it is asked of each page that is come upon, as LEASED is; no plan can begin at it.
_OF_CRAWLS = "(crawl_id IN (SELECT unnest(CAST(:crawls AS bigint[])))) IS TRUE"

# As many pages are read as may be leased, not all there are: the index is read no further than
# that, and no earlier than from each host's most urgent page on. What is out on leases comes before
# that one, and what was until a vacuum: both would be walked over.
_MAY_BE_LEASED = f"""status = 'due' AND queue = :queue AND host = may.host AND not_before <= now()
                AND losses < {SUSPECT_LOSSES} AND {_OF_CRAWLS} AND id NOT IN {LEASED}"""
DUE_PAGES = sa.text(f"""
WITH may AS (
    SELECT * FROM jsonb_to_recordset(CAST(:hosts AS jsonb))
      AS m(host text, pages int, priority int, since timestamptz)
)
SELECT may.host, due.priorities, due.ids, due.products
  FROM may CROSS JOIN LATERAL (
        SELECT array_agg(priority) AS priorities, array_agg(id) AS ids,
               array_agg(kind = 'product') AS products FROM (
            (SELECT priority, id, kind FROM pages
              WHERE {_MAY_BE_LEASED} AND priority = may.priority AND not_before >= may.since
              ORDER BY not_before LIMIT may.pages)
            UNION ALL
            (SELECT priority, id, kind FROM pages WHERE {_MAY_BE_LEASED} AND priority < may.priority
              ORDER BY priority DESC, not_before LIMIT may.pages)
            LIMIT may.pages) most_urgent) due
 WHERE due.ids IS NOT NULL
""")

_SUSPECTS = f"""
  FROM (SELECT *, (SELECT l.id FROM leases l WHERE p.id = ANY (l.page_ids)) AS lease_id
          FROM pages p WHERE losses >= {SUSPECT_LOSSES} AND status = 'due' AND {_OF_CRAWLS}
           AND host NOT IN (SELECT host FROM hosts WHERE paused)) suspects"""
SUSPECTS = sa.text(f"""
SELECT queue, losses, count(*) FILTER (WHERE lease_id IS NULL AND not_before <= now()) AS due,
       count(DISTINCT lease_id) AS leases {_SUSPECTS}
 GROUP BY queue, losses
""")
SUSPECT_PAGES = sa.text(f"""
SELECT id, kind = 'product' AS product, host, priority {_SUSPECTS}
 WHERE queue = :queue AND losses = :losses AND lease_id IS NULL AND not_before <= now()
 ORDER BY priority DESC, id
""")


@dataclass(frozen=True, slots=True)
class DueHost:
    """A host with pages due now on a queue: the priority of its most urgent one and since when that
    is due, and the host's budget."""

    queue: str
    host: str
    priority: int
    since: datetime
    rate_per_s: float | None


class DuePage(NamedTuple):
    """What it takes to lease a page. `product`: not a listing, or what else is read for its
    links."""

    id: int
    product: bool
    host: str
    priority: int


@dataclass(frozen=True, slots=True)
class SuspectGroup:
    """The suspects of a queue with so many losses: how many are due now, and how many leases of
    them are out."""

    queue: str
    losses: int
    due: int
    leases: int

    @property
    def size(self) -> int:
        """Pages in a lease."""
        return SUSPECT_BATCH.get(self.losses, 1)

    @property
    def room(self) -> int:
        """Leases that may be made now."""
        at_once = SUSPECT_LEASES.get(self.losses, 1)
        return max(0, min(at_once - self.leases, -(-self.due // self.size)))

    @property
    def alone(self) -> bool:
        """Whether a worker is to do nothing else while it has one of them."""
        return self.losses >= ALONE_LOSSES


def due_hosts(connection: sa.Connection, paused: Sequence[int] = ()) -> list[DueHost]:
    """Every (queue, host) with something due now, the most urgent first, but for paused hosts; the
    crawls in `paused` count for nothing."""
    values = {"paused": list(paused), "passed_over": PASSED_OVER if paused else 1}
    hosts = []
    for row in connection.execute(DUE_HOSTS, values):
        rate_per_s = row.rate_per_s if row.rate is None else parse_rate(row.rate)
        hosts.append(DueHost(row.queue, row.host, row.priority, row.not_before, rate_per_s))
    return hosts


def due_pages(
    connection: sa.Connection,
    queue: str,
    hosts: Iterable[DueHost],
    allowances: Mapping[str, int],
    crawl_ids: Sequence[int],
) -> dict[int, dict[str, list[DuePage]]]:
    """What is due now on a queue of these hosts and crawls, no more than each host's allowance:
    priority -> host -> pages, those that have been due for longest first. Suspects apart."""
    rows = [
        {"host": h.host, "pages": allowances[h.host], "priority": h.priority, "since": h.since}
        for h in hosts
        if allowances.get(h.host, 0) > 0
    ]
    due: dict[int, dict[str, list[DuePage]]] = defaultdict(dict)
    values = {"queue": queue, "hosts": dumps(rows), "crawls": list(crawl_ids)}
    for host, priorities, ids, products in connection.execute(DUE_PAGES, values):
        for page in map(DuePage, ids, products, repeat(host), priorities):
            due[page.priority].setdefault(host, []).append(page)
    return due


def suspect_groups(connection: sa.Connection, crawl_ids: Sequence[int]) -> list[SuspectGroup]:
    """The pages of these crawls that several workers died with, by queue and losses: normally
    none."""
    rows = connection.execute(SUSPECTS, {"crawls": list(crawl_ids)})
    return [SuspectGroup(row.queue, row.losses, row.due, row.leases) for row in rows]


def suspect_pages(
    connection: sa.Connection, group: SuspectGroup, crawl_ids: Sequence[int]
) -> list[list[DuePage]]:
    """Those that are due now, in groups that may be leased together: few, of one sort each, the
    most urgent first."""
    values = {"crawls": list(crawl_ids), "queue": group.queue, "losses": group.losses}
    sorts: dict[bool, list[DuePage]] = {}
    for page in map(DuePage._make, connection.execute(SUSPECT_PAGES, values)):
        sorts.setdefault(page.product, []).append(page)
    return [
        pages[start : start + group.size]
        for pages in sorts.values()
        for start in range(0, len(pages), group.size)
    ]
