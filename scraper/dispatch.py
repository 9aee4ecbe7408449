"""Leases due pages and says what to send: enough for every queue for a few seconds, never more.

Each host gets what its budget lets through within a batch's horizon, so that no worker sits on pages it may not fetch
yet. Small shares of many hosts go into one message. The most urgent host comes first, and every host has its turn before
any has a second one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import sqlalchemy as sa

from scraper.domain import Kind, Message
from scraper.settings import Settings
from scraper.stores import frontier
from scraper.stores.database import retried
from scraper.stores.frontier import DueHost, LeasedBatch

BATCHES_AHEAD = 8  # unclaimed batches a queue may hold, whatever the number of workers
ROUNDS = 8  # batches one unlimited host may get in one dispatch

Depth = Callable[[str], int]


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
            batches = []
            for queue, due in hosts.items():
                room = BATCHES_AHEAD - max(waiting.get(queue, 0), depth(queue))
                batches += _fill(connection, queue, due, room, settings)
            return batches

    return [message_of(batch, settings) for batch in retried(work)]


def _fill(
    connection: sa.Connection, queue: str, due: list[DueHost], room: int, settings: Settings
) -> list[LeasedBatch]:
    batches: list[LeasedBatch] = []
    allowances = {host.host: allowance(host, settings) for host in due}
    while room > 0:
        wanted, left = {}, settings.batch_pages
        for host, pages in allowances.items():
            take = min(pages, left)
            if take > 0:
                wanted[host] = take
                left -= take
        if not wanted:
            break
        made = frontier.lease(connection, queue, wanted, settings.lease_s)
        if not made:
            break
        batches += made
        room -= len(made)
        for host, pages in wanted.items():
            allowances[host] -= pages
    return batches


def allowance(host: DueHost, settings: Settings) -> int:
    """Pages a host may have out on leases now: what its rate lets through within the horizon, less what is out.

    Topped up when half of it is gone, so that a slow host gets batches, not single pages. A host without a rate may
    have `ROUNDS` full batches.
    """
    if host.rate_per_s is None:
        return max(0, ROUNDS * settings.batch_pages - host.held)
    most = max(1, int(host.rate_per_s * settings.horizon_s))
    return most - host.held if host.held <= most // 2 else 0


def message_of(batch: LeasedBatch, settings: Settings) -> Message:
    """The batch's message: the lease's id says it all, and expires when the lease does."""
    task = "fetch_products" if batch.kind is Kind.PRODUCT else "fetch_listings"
    return Message(task, batch.queue, {"lease_id": str(batch.id)}, priority=batch.priority, expires_s=settings.lease_s)
