"""What is due: hosts with due pages, these pages, and the suspects among them. Reads alone; `stores.leases` takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from scraper.sites.scalars import per_second
from scraper.stores.database import dumps

# A worker that dies takes many pages with it, of which one may be the cause. From the second time on they are suspects:
# leased in small batches, then singly, and at last by a worker that does nothing else meanwhile. Only such a death counts
# as the last one, so that nothing but the cause is given up.
SUSPECT_LOSSES = 2  # as in the index `pages_suspect_idx`
LOSSES_MAX = 5
ALONE_LOSSES = LOSSES_MAX - 1
SUSPECT_BATCH = {2: 10, 3: 1, 4: 1}  # losses -> pages in a lease
SUSPECT_LEASES = {2: 4, 3: 4, 4: 1}  # losses -> leases of a queue at a time
PASSED_OVER = 5000  # due pages of paused crawls that are looked past to find another site's on the same host

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

SUSPECTS = sa.text(f"""
SELECT queue, losses, count(*) FILTER (WHERE status = 'due' AND not_before <= now()) AS due,
       count(DISTINCT lease_id) AS leases
  FROM pages WHERE losses >= {SUSPECT_LOSSES} AND status IN ('due', 'leased') AND crawl_id <> ALL (:paused)
   AND host NOT IN (SELECT host FROM hosts WHERE paused)
 GROUP BY queue, losses
""")


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


def due_hosts(connection: sa.Connection, paused: Sequence[int] = ()) -> list[DueHost]:
    """Every (queue, host) with something due now, the most urgent first, but for paused hosts; the crawls in `paused`
    count for nothing."""
    values = {"paused": list(paused), "passed_over": PASSED_OVER if paused else 1}
    return [
        DueHost(r.queue, r.host, r.priority, r.not_before, r.rate_per_s if r.rate is None else per_second(r.rate))
        for r in connection.execute(DUE_HOSTS, values)
    ]


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
