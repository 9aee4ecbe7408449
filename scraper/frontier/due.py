"""What is due: hosts with due pages, these pages, and the suspects among them. Only reads;
`scraper.frontier.leases` makes leases of the pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.sites.grammar.scalars import parse_rate

# A worker that dies takes many pages with it, and one page may be the cause. After two such deaths
# a page is a suspect: suspects are leased in small batches, then singly, and at last by a worker
# that does nothing else. Only a death there counts as the last one, so that only the
# cause is given up. The index `pages_suspect_idx` and due_pages.sql have the same number.
SUSPECT_LOSSES = 2
LOSSES_MAX = 5
ALONE_LOSSES = LOSSES_MAX - 1
# How many pages are in one lease, by their losses.
SUSPECT_BATCH = {2: 10, 3: 1, 4: 1}
# How many leases of suspects a queue may have out at a time, by their losses.
SUSPECT_LEASES = {2: 4, 3: 4, 4: 1}
# How many due pages of paused crawls are skipped to find another site's page on the same host.
PASSED_OVER = 5000

# Whether a page that is named by its id is due. A CASE, which no index answers: a plan that was
# made while few pages were due would otherwise read all due pages ever after, to find a hundred.
STILL_DUE = "CASE p.status WHEN 'due' THEN true ELSE false END"

# The pages that are leased, for `id NOT IN {LEASED}`. The planner cannot estimate an array's
# length, so it always builds a hash table, once a statement, however many leases there are.
LEASED = "(SELECT unnest(ARRAY(SELECT unnest(page_ids) FROM leases)))"

DUE_HOSTS = sa.text(sql("frontier/due_hosts.sql"))
DUE_PAGES = sa.text(sql("frontier/due_pages.sql"))

# `IS TRUE` makes the condition apply to each page that is read; no plan can begin there.
_SUSPECTS = f"""
  FROM (SELECT *, (SELECT l.id FROM leases l WHERE p.id = ANY (l.page_ids)) AS lease_id
          FROM pages p WHERE losses >= {SUSPECT_LOSSES} AND status = 'due'
           AND (crawl_id IN (SELECT unnest(CAST(:crawls AS bigint[])))) IS TRUE
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
    """A host with due pages on a queue: its most urgent page's priority, the time since which that
    page is due, and the host's rate."""

    queue: str
    host: str
    priority: int
    since: datetime
    rate_per_s: float | None


class DuePage(NamedTuple):
    """What leasing needs to know of a page. `product` is False for pages that are read for their
    links."""

    id: int
    product: bool
    host: str
    priority: int


@dataclass(frozen=True, slots=True)
class SuspectGroup:
    """A queue's suspects with the same number of losses: how many are due, and how many leases of
    them are out."""

    queue: str
    losses: int
    due: int
    leases: int

    @property
    def size(self) -> int:
        """The number of pages in a lease."""
        return SUSPECT_BATCH.get(self.losses, 1)

    @property
    def room(self) -> int:
        """The number of leases that may be made now."""
        at_once = SUSPECT_LEASES.get(self.losses, 1)
        return max(0, min(at_once - self.leases, -(-self.due // self.size)))

    @property
    def alone(self) -> bool:
        """True if the worker must not hold another lease at the same time."""
        return self.losses >= ALONE_LOSSES


def due_hosts(connection: sa.Connection, paused: Sequence[int] = ()) -> list[DueHost]:
    """Returns every queue and host with a due page, the most urgent first. Leaves out paused hosts
    and the pages of `paused` crawls."""
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
    """Returns these hosts' and crawls' due pages on a queue, at most each host's allowance, as
    priority -> host -> pages, the longest due first. Suspects are left out."""
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
    """Returns these crawls' suspects by queue and losses; normally there are none."""
    rows = connection.execute(SUSPECTS, {"crawls": list(crawl_ids)})
    return [SuspectGroup(row.queue, row.losses, row.due, row.leases) for row in rows]


def suspect_pages(
    connection: sa.Connection, group: SuspectGroup, crawl_ids: Sequence[int]
) -> list[list[DuePage]]:
    """Returns a group's due pages in lists that may be leased together: few pages of one kind each,
    the most urgent first."""
    values = {"crawls": list(crawl_ids), "queue": group.queue, "losses": group.losses}
    by_kind: dict[bool, list[DuePage]] = {}
    for page in map(DuePage._make, connection.execute(SUSPECT_PAGES, values)):
        by_kind.setdefault(page.product, []).append(page)
    return [
        pages[start : start + group.size]
        for pages in by_kind.values()
        for start in range(0, len(pages), group.size)
    ]
