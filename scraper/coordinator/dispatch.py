"""Leases due pages and says what to send: enough for every queue for a few seconds, never more.

Each host gets what its budget lets through within a batch's horizon, so that no worker sits on
pages it may not fetch yet. The most urgent pages come first whatever their host, in batches of
their own, and what is less urgent takes no room from them. Among hosts with equally urgent pages a
batch is shared evenly, so a host with few pages never waits for one with many, and many hosts with
a few pages each fill one message.
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
from scraper.infra.database import retry_transaction
from scraper.rules.routing import PRIORITY_LEVELS, is_browser_queue, priority_level, room_by_level
from scraper.settings import Settings

# A queue may hold so many unclaimed batches of a priority and above, for each worker that is busy
# with it.
BATCHES_AHEAD = 8
# No more than so many busy workers count for that: the queue shall stay shallow.
FEEDS_MAX = 4
# A browser shows a few pages at once, each for a second or more: what is read ahead must be few.
BROWSER_BATCH_PAGES = 5
# A lease makes a batch of listings and one of products at the most.
BATCHES_A_LEASE = 2
# A host's pages by its rate are leased for so much of a horizon.
LEASED_AHEAD = 0.6
# An unlimited host may have so many batches out for each worker that is busy: 8 claimed, 8 ahead.
ROUNDS = 16
# At least so many of these are leased at once: a dispatch costs as much for one.
TOP_UP = 4

# Asks the broker how many messages a queue has.
Depth = Callable[[str], int]
# What is due, in the order in which it is to be leased: priority -> host -> pages.
Pages = dict[int, dict[str, list[DuePage]]]
# How many of them there are.
Due = dict[int, Counter[str]]


@dataclass(frozen=True, slots=True)
class QueueSpace:
    """What a queue may still get: unclaimed batches by level, messages whose leases are gone, and
    how many there may be."""

    waiting: Counter[int]
    stale: int
    batches_max: int

    @classmethod
    def of(cls, waiting: Counter[int], depth: int, workers: int) -> QueueSpace:
        """Of a queue that holds so many unclaimed batches and messages, with which so many workers
        are busy."""
        batches_max = BATCHES_AHEAD * min(max(workers, 1), FEEDS_MAX)
        return cls(waiting, max(0, depth - waiting.total()), batches_max)

    def room_by_level(self) -> list[int]:
        """How many more batches, by level."""
        return room_by_level(self.waiting, self.stale, self.batches_max)

    def room(self, due: Sequence[DueHost]) -> int:
        """How many more batches of the most urgent of these hosts' pages."""
        return self.room_by_level()[priority_level(max(host.priority for host in due))]

    def take(self, level: int, batches: int) -> None:
        self.waiting[level] += batches


def dispatch(engine: sa.Engine, settings: Settings, depth: Depth) -> list[Message]:
    """Leases and commits; the messages are to be sent after that. `depth(queue)` is the broker's
    own count, which also knows the messages whose leases have run out unread. Does nothing while
    another coordinator is at it."""

    hosts: dict[str, list[DueHost]] = defaultdict(list)
    with engine.connect() as connection:
        paused = crawls.paused(connection)
        for host in due_hosts(connection, paused):
            hosts[host.queue].append(host)
        if not hosts:
            return []
        waiting = leases.waiting_levels(connection)
        busy = leases.busy_workers(connection, settings.lease_s)
    workers = {queue: busy.get(queue, 1) for queue in hosts}
    # Before the transaction: the broker may take its time. It is not asked about a queue that is
    # full by our own account.
    depths = {
        queue: depth(queue)
        for queue, due in hosts.items()
        if QueueSpace.of(waiting[queue], 0, workers[queue]).room(due) >= BATCHES_A_LEASE
    }
    if not depths:
        return []

    def work() -> list[LeasedBatch]:
        with engine.begin() as connection:
            if not leases.try_lock_dispatch(connection):
                return []
            waiting = leases.waiting_levels(connection)
            spaces = {
                queue: QueueSpace.of(waiting[queue], depths[queue], workers[queue])
                for queue in depths
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
                    groups = group_pages(
                        pages, limit_due(count_pages(pages), may), space, held, size
                    )
                    batches += leases.lease_pages(connection, queue, groups, settings.lease_s)
            return batches

    return [message_of(batch, settings) for batch in retry_transaction(work)]


def batch_pages_of(queue: str, settings: Settings) -> int:
    """How many pages one message of a queue has at the most."""
    pages = settings.batch_pages
    return min(pages, BROWSER_BATCH_PAGES) if is_browser_queue(queue) else pages


def _lease_suspects(
    connection: sa.Connection,
    spaces: Mapping[str, QueueSpace],
    crawl_ids: Sequence[int],
    settings: Settings,
) -> list[LeasedBatch]:
    """Leases of pages that several workers died with, a few at a time: so that one which does it
    again is found out, and the others are not taken for it. What it makes takes space."""
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
    """What is due of one queue's hosts, as far as the most urgent `wanted` pages that may be leased
    need it. A little of each host is read first, and only where that does not do more of those that
    have more: it costs as much as is leased, not as much as is due."""
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
    """How many there are."""
    return {
        priority: Counter({host: len(due) for host, due in hosts.items()})
        for priority, hosts in pages.items()
    }


def unread_hosts(due: Due, read: Mapping[str, int], allowed: Mapping[str, int]) -> set[str]:
    """The hosts that may have more pages due than were read, and are allowed more.

    >>> unread_hosts({10: Counter(a=2, b=1)}, {"a": 2, "b": 2, "c": 2}, {"a": 9, "b": 9, "c": 2})
    {'a'}
    """
    total: Counter[str] = Counter()
    for hosts in due.values():
        total += hosts
    return {host for host in read if read[host] < allowed[host] and total[host] >= read[host]}


def unread_priority(due: Due, hosts: Collection[str]) -> int:
    """What is not read of these hosts is no more urgent than that: the highest of their lowest
    priorities.

    >>> unread_priority({11: Counter(a=1, b=2), 10: Counter(a=1)}, ["a", "b"])
    11
    """
    return max(min(priority for priority, pages in due.items() if pages[host]) for host in hosts)


def has_enough(due: Due, priority: int, wanted: int) -> bool:
    """Whether so many pages are due of at least this priority."""
    return sum(hosts.total() for level, hosts in due.items() if level >= priority) >= wanted


def group_pages(
    pages: Pages, due: Due, space: QueueSpace, held: dict[str, Counter[int]], size: int
) -> list[list[DuePage]]:
    """What is `due`, in groups of `size` pages of one level each, the most urgent first: of each
    comes a batch of listings, one of products, or both. They take `space`, and what they take of
    each host is added to `held`."""
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
    """Takes so many pages of each host out of `pages`, the most urgent of the level first."""
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
    """Takes up to `size` pages out of `due`: how many of each host. Where there are more hosts than
    pages, those with the fewest pages `leased` come first.

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
            # What a small host leaves, the larger ones share.
            take = min(hosts[host], -(-room // left))
            batch[host] += take
            hosts[host] -= take
            room -= take
        due[priority] = +hosts
    return +batch


def limit_due(due: Due, may: Mapping[str, Sequence[int]]) -> Due:
    """As much of `due` as each host may have leased, by level: the most urgent pages, and of lesser
    ones what is left.

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
    """The `allowance` of each level: what is less urgent than that is not counted as leased, so
    that a page of high priority does not wait for a host's many pages of low priority to end. The
    `HostLimiter` has it overtake them there."""
    leased, by_level = 0, [0] * PRIORITY_LEVELS
    for level in reversed(range(PRIORITY_LEVELS)):
        leased += held.get(level, 0)
        by_level[level] = host_allowance(rate_per_s, leased, settings, workers)
    return by_level


def host_allowance(
    rate_per_s: float | None, leased: int, settings: Settings, workers: int = 1
) -> int:
    """Pages a host may have leased now: what its rate lets through within the better part of a
    horizon, less what is `leased`. With a whole one the last of them would not get their turn in
    time, and go back.

    Topped up when half of it is gone, so that a slow host gets batches, not single pages. A host
    without a rate may have `ROUNDS` full batches for each of the workers, topped up by `TOP_UP` and
    more: what one of them holds keeps none of the others waiting.
    """
    if rate_per_s is None:
        left = ROUNDS * workers * settings.batch_pages - leased
        return left if left >= TOP_UP * settings.batch_pages else 0
    allowed = max(1, int(rate_per_s * settings.horizon_s * LEASED_AHEAD))
    return allowed - leased if leased <= allowed // 2 else 0


def message_of(batch: LeasedBatch, settings: Settings) -> Message:
    """The batch's message: the lease's id says it all. It expires when the lease does unless a
    worker claims it."""
    task = "fetch_products" if batch.kind is Kind.PRODUCT else "fetch_listings"
    kwargs: dict[str, object] = {"lease_id": str(batch.id)}
    if batch.alone:
        kwargs["alone"] = True
    expires_s = leases.unclaimed_s(settings.lease_s)
    return Message(task, batch.queue, kwargs, priority=batch.priority, expires_s=expires_s)
