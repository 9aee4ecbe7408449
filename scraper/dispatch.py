"""Leases due pages and says what to send: enough for every queue for a few seconds, never more.

Each host gets what its budget lets through within a batch's horizon, so that no worker sits on pages it may not fetch
yet. The most urgent pages come first whatever their host. Among hosts with equally urgent pages a batch is shared evenly,
so a host with few pages never waits for one with many, and many hosts with a few pages each fill one message.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import sqlalchemy as sa

from scraper.domain import Kind, Message
from scraper.settings import Settings
from scraper.stores import frontier
from scraper.stores.database import dumps, retried
from scraper.stores.frontier import DueHost, LeasedBatch

BATCHES_AHEAD = 8  # unclaimed batches a queue may hold, whatever the number of workers
BATCHES_A_LEASE = 2  # one lease makes a batch of listings and one of products at the most
ROUNDS = 8  # batches one unlimited host may get in one dispatch

Depth = Callable[[str], int]
Due = dict[int, Counter[str]]  # priority -> host -> pages due

# As many as may be leased, not all there are: the index is read no further than that.
DUE_PAGES = sa.text("""
WITH may AS (
    SELECT * FROM jsonb_to_recordset(CAST(:hosts AS jsonb)) AS m(host text, pages int)
)
SELECT may.host, due.priority, count(*) AS pages
  FROM may CROSS JOIN LATERAL (
        SELECT priority FROM pages
         WHERE status = 'due' AND queue = :queue AND host = may.host AND not_before <= now()
         ORDER BY priority DESC LIMIT may.pages) due
 GROUP BY may.host, due.priority
""")


def dispatch(engine: sa.Engine, settings: Settings, depth: Depth) -> list[Message]:
    """Leases and commits; the messages are to be sent after that. `depth(queue)` is the broker's own count, which also
    knows the messages whose leases have run out unread."""

    def work() -> list[LeasedBatch]:
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('scraper.dispatch'))"))
            waiting = frontier.waiting_batches(connection)
            hosts: dict[str, list[DueHost]] = defaultdict(list)
            for host in frontier.due_hosts(connection):
                hosts[host.queue].append(host)
            out = Counter({host.host: host.held for due in hosts.values() for host in due})
            batches = []
            for queue, due in hosts.items():
                room = BATCHES_AHEAD - max(waiting.get(queue, 0), depth(queue))
                if room >= BATCHES_A_LEASE:
                    allowances = {host.host: allowance(host.rate_per_s, out[host.host], settings) for host in due}
                    pages = _due_pages(connection, queue, allowances)
                    batches += _fill(connection, queue, pages, room, settings, out)
            return batches

    return [message_of(batch, settings) for batch in retried(work)]


def _due_pages(connection: sa.Connection, queue: str, allowances: Mapping[str, int]) -> Due:
    hosts = [{"host": host, "pages": pages} for host, pages in allowances.items() if pages > 0]
    due: Due = defaultdict(Counter)
    for row in connection.execute(DUE_PAGES, {"queue": queue, "hosts": dumps(hosts)}):
        due[row.priority][row.host] = row.pages
    return due


def _fill(
    connection: sa.Connection, queue: str, due: Due, room: int, settings: Settings, out: Counter[str]
) -> list[LeasedBatch]:
    """Leases batch after batch; what it takes of each host is added to `out`."""
    batches: list[LeasedBatch] = []
    while room >= BATCHES_A_LEASE:
        wanted = next_batch(due, settings.batch_pages, out)
        if not wanted:
            break
        made = frontier.lease(connection, queue, wanted, settings.lease_s)
        batches += made
        room -= len(made)
        out += wanted
    return batches


def next_batch(due: Due, size: int, out: Mapping[str, int]) -> Counter[str]:
    """Takes up to `size` pages out of `due`: how many of each host. Where there are more hosts than pages, those with the
    fewest pages `out` come first.

    >>> next_batch({10: Counter(big=5000, small=3), 18: Counter(urgent=1)}, 100, Counter())
    Counter({'big': 96, 'small': 3, 'urgent': 1})
    """
    batch: Counter[str] = Counter()
    for priority in sorted(due, reverse=True):
        hosts = due[priority]
        room = size - batch.total()
        served = sorted(hosts, key=lambda host: (out.get(host, 0), random.random()))[:room]
        served.sort(key=lambda host: hosts[host])
        for left, host in zip(range(len(served), 0, -1), served, strict=True):
            take = min(hosts[host], -(-room // left))  # what a small host leaves, the larger ones share
            batch[host] += take
            hosts[host] -= take
            room -= take
        due[priority] = +hosts
    return +batch


def allowance(rate_per_s: float | None, out: int, settings: Settings) -> int:
    """Pages a host may have leased now: what its rate lets through within the horizon, less what is `out`.

    Topped up when half of it is gone, so that a slow host gets batches, not single pages. A host without a rate may
    have `ROUNDS` full batches.
    """
    if rate_per_s is None:
        return max(0, ROUNDS * settings.batch_pages - out)
    most = max(1, int(rate_per_s * settings.horizon_s))
    return most - out if out <= most // 2 else 0


def message_of(batch: LeasedBatch, settings: Settings) -> Message:
    """The batch's message: the lease's id says it all, and expires when the lease does."""
    task = "fetch_products" if batch.kind is Kind.PRODUCT else "fetch_listings"
    return Message(task, batch.queue, {"lease_id": str(batch.id)}, priority=batch.priority, expires_s=settings.lease_s)
