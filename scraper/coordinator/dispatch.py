"""Leases due pages and returns what to send: enough for every queue for a few seconds, never more.

Each host gets what its budget allows within a batch's horizon, so that no worker holds pages that
it may not fetch yet. The most urgent pages come first whatever their host, in batches of their own,
and less urgent pages take no room from them. Hosts with equally urgent pages share a batch evenly,
so a host with few pages never waits for one with many, and many hosts with a few pages each fill
one message.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from scraper.domain import Kind, Message
from scraper.frontier import crawls, leases
from scraper.frontier.due import (
    DueHost,
    DuePage,
    due_hosts,
    due_pages,
    suspect_groups,
    suspect_pages,
)
from scraper.frontier.leases import LeasedBatch
from scraper.infra.database import run_transaction
from scraper.rules.routing import PRIORITY_LEVELS, is_browser_queue, priority_level, room_by_level
from scraper.settings import Settings

# How many unclaimed batches of a priority and above a queue may hold for each of its busy workers.
BATCHES_AHEAD = 8
# At most this many busy workers count for that, so that the queue stays shallow.
FEEDS_MAX = 4
# A browser shows a few pages at once, each for a second or more, so few are leased ahead.
BROWSER_BATCH_PAGES = 5
# A lease makes at most a batch of listings and one of products.
BATCHES_A_LEASE = 2
# A host with a rate gets the pages of this part of a horizon.
LEASED_AHEAD = 0.6
# How many batches an unlimited host may have out for each busy worker: 8 claimed, 8 ahead.
ROUNDS = 16
# At least this many of these are leased at once, since a dispatch costs the same for one.
TOP_UP = 4

# Returns the broker's count of a queue's messages.
Depth = Callable[[str], int]
# The due pages in the order of leasing: priority -> host -> pages.
Pages = dict[int, dict[str, list[DuePage]]]
# The number of these pages.
Due = dict[int, Counter[str]]


@dataclass(frozen=True, slots=True)
class QueueSpace:
    """The space of a queue: its unclaimed batches by level, its messages without a lease, and the
    maximum of both."""

    waiting: Counter[int]
    stale: int
    batches_max: int

    @classmethod
    def of(cls, waiting: Counter[int], depth: int, workers: int) -> QueueSpace:
        """Returns the space of a queue with these unclaimed batches, messages (`depth`) and busy
        workers."""
        batches_max = BATCHES_AHEAD * min(max(workers, 1), FEEDS_MAX)
        return cls(waiting, max(0, depth - waiting.total()), batches_max)

    def room_by_level(self) -> list[int]:
        """Returns how many more batches fit, by level."""
        return room_by_level(self.waiting, self.stale, self.batches_max)

    def room(self, due: Sequence[DueHost]) -> int:
        """Returns how many more batches of these hosts' most urgent pages fit."""
        return self.room_by_level()[priority_level(max(host.priority for host in due))]

    def take(self, level: int, batches: int) -> None:
        """Reserves space for batches."""
        self.waiting[level] += batches


def dispatch(engine: sa.Engine, settings: Settings, depth: Depth) -> list[Message]:
    """Leases due pages and commits. Returns the messages, which the caller sends afterwards.

    `depth(queue)` is the broker's own count, which includes messages whose leases have expired
    unread. Does nothing while another coordinator dispatches.
    """
    hosts: dict[str, list[DueHost]] = defaultdict(list)
    with engine.connect() as connection:
        paused = crawls.paused_crawls(connection)
        for host in due_hosts(connection, paused):
            hosts[host.queue].append(host)
        if not hosts:
            return []
        waiting = leases.waiting_levels(connection)
        busy = leases.busy_workers(connection, settings.lease_s)
    workers = {queue: busy.get(queue, 1) for queue in hosts}
    # Asked before the transaction, since the broker may be slow, and not for queues that are full
    # by the leases alone.
    depths = {
        queue: depth(queue)
        for queue, due in hosts.items()
        if QueueSpace.of(waiting[queue], 0, workers[queue]).room(due) >= BATCHES_A_LEASE
    }
    if not depths:
        return []

    def lease_batches(connection: sa.Connection) -> list[LeasedBatch]:
        if not leases.try_lock_dispatch(connection):
            return []
        waiting = leases.waiting_levels(connection)
        spaces = {
            queue: QueueSpace.of(waiting[queue], depths[queue], workers[queue]) for queue in depths
        }
        running = crawls.hold_running(connection)
        batches = _lease_suspects(connection, spaces, running, settings)
        held = leases.count_leased(connection, settings.lease_s)
        for queue, space in spaces.items():
            due, room = hosts[queue], space.room(hosts[queue])
            if room >= BATCHES_A_LEASE:
                size = batch_pages_of(queue, settings)
                may = {
                    host.host: level_allowances(
                        host.rate_per_s, held[host.host], settings, workers[queue]
                    )
                    for host in due
                }
                pages = _read_due(connection, due, may, room * size, running)
                groups = group_pages(pages, limit_due(count_pages(pages), may), space, held, size)
                batches += leases.lease_pages(connection, queue, groups, settings.lease_s)
        return batches

    return [message_of(batch, settings) for batch in run_transaction(engine, lease_batches)]


def batch_pages_of(queue: str, settings: Settings) -> int:
    """Returns the maximum of pages in one message of a queue."""
    pages = settings.batch_pages
    return min(pages, BROWSER_BATCH_PAGES) if is_browser_queue(queue) else pages


def _lease_suspects(
    connection: sa.Connection,
    spaces: Mapping[str, QueueSpace],
    crawl_ids: Sequence[int],
    settings: Settings,
) -> list[LeasedBatch]:
    """Leases pages that several workers died with, a few at a time, so that the page that kills
    workers is found and the others are not blamed for it. The leases take space."""
    batches: list[LeasedBatch] = []
    for group in suspect_groups(connection, crawl_ids):
        space = spaces.get(group.queue)
        room = min(group.room, space.room_by_level()[0]) if space else 0
        if space is None or room <= 0:
            continue
        pages = suspect_pages(connection, group, crawl_ids)[:room]
        leased = leases.lease_pages(
            connection, group.queue, pages, settings.lease_s, alone=group.alone
        )
        batches += leased
        for batch in leased:
            space.take(priority_level(batch.priority), 1)
    return batches


def _read_due(
    connection: sa.Connection,
    hosts: Sequence[DueHost],
    may: Mapping[str, Sequence[int]],
    wanted: int,
    crawl_ids: Sequence[int],
) -> Pages:
    """Reads due pages of one queue's hosts, enough for the most urgent `wanted` pages.

    A few pages of each host are read first, and more only of hosts that have more and only if
    needed: the cost depends on what is leased, not on what is due.
    """
    queue = hosts[0].queue
    allowed = {
        host.host: min(may[host.host][priority_level(host.priority)], wanted) for host in hosts
    }
    little = {
        host: min(pages, max(2, 2 * wanted // len(allowed))) for host, pages in allowed.items()
    }
    pages = due_pages(connection, queue, hosts, little, crawl_ids)
    due = count_pages(pages)
    more = unread_hosts(due, little, allowed)
    if more and not has_enough(limit_due(due, may), unread_priority(due, more), wanted):
        whole = {host: allowed[host] for host in more}
        again = due_pages(connection, queue, hosts, whole, crawl_ids)
        for priority, by_host in again.items():
            pages.setdefault(priority, {}).update(by_host)
    return pages


def count_pages(pages: Pages) -> Due:
    """Counts the pages by priority and host."""
    return {
        priority: Counter({host: len(due) for host, due in hosts.items()})
        for priority, hosts in pages.items()
    }


def unread_hosts(due: Due, read: Mapping[str, int], allowed: Mapping[str, int]) -> set[str]:
    """Returns the hosts that may have more due pages than were read, and are allowed more.

    >>> unread_hosts({10: Counter(a=2, b=1)}, {"a": 2, "b": 2, "c": 2}, {"a": 9, "b": 9, "c": 2})
    {'a'}
    """
    total: Counter[str] = Counter()
    for hosts in due.values():
        total += hosts
    return {host for host in read if read[host] < allowed[host] and total[host] >= read[host]}


def unread_priority(due: Due, hosts: Collection[str]) -> int:
    """Returns the priority that bounds these hosts' unread pages: the highest of their lowest
    priorities.

    >>> unread_priority({11: Counter(a=1, b=2), 10: Counter(a=1)}, ["a", "b"])
    11
    """
    return max(min(priority for priority, pages in due.items() if pages[host]) for host in hosts)


def has_enough(due: Due, priority: int, wanted: int) -> bool:
    """Returns True if at least `wanted` pages of this priority or above are due."""
    return sum(hosts.total() for level, hosts in due.items() if level >= priority) >= wanted


def group_pages(
    pages: Pages, due: Due, space: QueueSpace, held: dict[str, Counter[int]], size: int
) -> list[list[DuePage]]:
    """Returns the `due` pages in groups of `size` pages of one level each, the most urgent first.

    Each group becomes a batch of listings, one of products, or both. The groups take `space`, and
    their pages are added to `held` by host.
    """
    groups: list[list[DuePage]] = []
    leased = Counter({host: held[host].total() for hosts in due.values() for host in hosts})
    levels: dict[int, Due] = defaultdict(dict)
    for priority, hosts in due.items():
        levels[priority_level(priority)][priority] = hosts
    for level in sorted(levels, reverse=True):
        while space.room_by_level()[level] >= BATCHES_A_LEASE:
            wanted = next_batch(levels[level], size, leased)
            if not wanted:
                break
            group = take_pages(pages, level, wanted)
            groups.append(group)
            space.take(level, len({page.product for page in group}))
            leased += wanted
            for host, taken in wanted.items():
                held[host][level] += taken
    return groups


def take_pages(pages: Pages, level: int, wanted: Mapping[str, int]) -> list[DuePage]:
    """Takes the `wanted` number of each host's pages out of `pages`, the most urgent first."""
    taken: list[DuePage] = []
    of_level = [
        pages[priority]
        for priority in sorted(pages, reverse=True)
        if priority_level(priority) == level
    ]
    for host, missing in wanted.items():
        for hosts in of_level:
            pages_of_host = hosts.get(host, [])[:missing]
            if pages_of_host:
                del hosts[host][:missing]
                taken += pages_of_host
                missing -= len(pages_of_host)
    return taken


def next_batch(due: Due, size: int, leased: Mapping[str, int]) -> Counter[str]:
    """Takes up to `size` pages out of `due`, and returns how many of each host. If there are more
    hosts than pages, those with the fewest pages `leased` come first.

    >>> next_batch({10: Counter(big=5000, small=3), 18: Counter(urgent=1)}, 100, Counter())
    Counter({'big': 96, 'small': 3, 'urgent': 1})
    """
    batch: Counter[str] = Counter()
    for priority in sorted(due, reverse=True):
        hosts = due[priority]
        room = size - batch.total()
        served = sorted(hosts, key=lambda host: (leased.get(host, 0), random.random()))[:room]
        served.sort(key=lambda host: hosts[host])
        for left, host in zip(range(len(served), 0, -1), served, strict=True):
            # Larger hosts share what a small host leaves.
            take = min(hosts[host], -(-room // left))
            batch[host] += take
            hosts[host] -= take
            room -= take
        due[priority] = +hosts
    return +batch


def limit_due(due: Due, may: Mapping[str, Sequence[int]]) -> Due:
    """Limits `due` to what each host may have leased, by level: the most urgent pages first, and
    less urgent ones in what is left.

    >>> limit_due({4: Counter(shop=40), 16: Counter(shop=1)}, {"shop": [0] * 8 + [40] * 2})
    {16: Counter({'shop': 1}), 4: Counter()}
    """
    allowed: Due = {}
    taken: Counter[str] = Counter()
    for priority in sorted(due, reverse=True):
        level, hosts = priority_level(priority), due[priority].items()
        counts = {host: min(pages, may[host][level] - taken[host]) for host, pages in hosts}
        allowed[priority] = +Counter(counts)
        taken += allowed[priority]
    return allowed


def level_allowances(
    rate_per_s: float | None, held: Mapping[int, int], settings: Settings, workers: int = 1
) -> list[int]:
    """Returns the `host_allowance` of each level. Less urgent pages do not count as leased there,
    so that a page of high priority does not wait for a host's many pages of low priority. In the
    worker, the `HostLimiter` lets it overtake them."""
    leased, by_level = 0, [0] * PRIORITY_LEVELS
    for level in reversed(range(PRIORITY_LEVELS)):
        leased += held.get(level, 0)
        by_level[level] = host_allowance(rate_per_s, leased, settings, workers)
    return by_level


def host_allowance(
    rate_per_s: float | None, leased: int, settings: Settings, workers: int = 1
) -> int:
    """Returns how many more pages a host may have leased: what its rate allows within the larger
    part of a horizon, less what is `leased`. With a whole horizon the last pages would not get
    their permit in time, and be handed back.

    It is topped up once half is used, so that a slow host gets batches, not single pages. A
    host without a rate may have `ROUNDS` full batches for each worker, topped up by at least
    `TOP_UP`, so that no worker waits for another one's batches.
    """
    if rate_per_s is None:
        left = ROUNDS * workers * settings.batch_pages - leased
        return left if left >= TOP_UP * settings.batch_pages else 0
    allowed = max(1, int(rate_per_s * settings.horizon_s * LEASED_AHEAD))
    return allowed - leased if leased <= allowed // 2 else 0


def message_of(batch: LeasedBatch, settings: Settings) -> Message:
    """Returns the message of a batch, which carries only the lease's id. It expires with the
    unclaimed lease."""
    task = "fetch_products" if batch.kind is Kind.PRODUCT else "fetch_listings"
    kwargs: dict[str, object] = {"lease_id": str(batch.id)}
    if batch.alone:
        kwargs["alone"] = True
    expires_s = leases.unclaimed_s(settings.lease_s)
    return Message(task, batch.queue, kwargs, priority=batch.priority, expires_s=expires_s)
