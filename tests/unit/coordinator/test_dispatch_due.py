"""Dispatch reads no more of the frontier than it leases, and still takes the most urgent pages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from scraper.coordinator import dispatch
from scraper.coordinator.dispatch import (
    Due,
    Pages,
    count_pages,
    has_enough,
    limit_due,
    next_batch,
    take_pages,
    unread_hosts,
    unread_priority,
)
from scraper.frontier.due import DueHost, DuePage
from scraper.rules.routing import PRIORITY_LEVELS

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = st.dictionaries(
    st.sampled_from([f"h{n}" for n in range(12)]),
    st.dictionaries(st.integers(0, 5), st.integers(1, 60), min_size=1, max_size=3),
    min_size=1,
)


class Table:
    """Due pages in memory, read as `due_pages` reads them; counts what was read."""

    def __init__(self, hosts: Mapping[str, Mapping[int, int]]) -> None:
        self.hosts = hosts
        self.read = 0

    def due_hosts(self) -> list[DueHost]:
        return [
            DueHost("datacenter", host, max(pages), SINCE, None)
            for host, pages in self.hosts.items()
        ]

    def due_pages(
        self,
        _: object,
        __: str,
        hosts: Sequence[DueHost],
        allowances: Mapping[str, int],
        ___: Sequence[int],
    ) -> Pages:
        found: Pages = defaultdict(dict)
        for host, left in allowances.items():
            assert host in {one.host for one in hosts}
            for priority in sorted(self.hosts[host], reverse=True):
                taken = min(left, self.hosts[host][priority])
                if taken > 0:
                    found[priority][host] = [DuePage(n, True, host, priority) for n in range(taken)]
                    left -= taken
                    self.read += taken
        return found


def due(table: Table, allowed: int, wanted: int, patch: pytest.MonkeyPatch) -> Due:
    patch.setattr(dispatch, "due_pages", table.due_pages)
    may = {host: [allowed] * PRIORITY_LEVELS for host in table.hosts}
    connection: sa.Connection = object()  # type: ignore[assignment] # never asked
    return limit_due(
        count_pages(dispatch._read_due(connection, table.due_hosts(), may, wanted, ())), may
    )


def by_priority(due: Due, wanted: int) -> Counter[int]:
    """How many pages of each priority the batches of one dispatch get."""
    left = {priority: Counter(hosts) for priority, hosts in due.items()}
    taken: Counter[int] = Counter()
    while taken.total() < wanted:
        before = {priority: hosts.total() for priority, hosts in left.items()}
        if not next_batch(left, min(10, wanted - taken.total()), Counter()):
            break
        taken += Counter(
            {priority: count - left[priority].total() for priority, count in before.items()}
        )
    return taken


@given(HOSTS, st.integers(1, 100), st.integers(1, 120))
def test_what_is_leased_is_as_urgent_and_as_much_as_if_all_were_read(
    hosts: Mapping[str, Mapping[int, int]], allowed: int, wanted: int
) -> None:
    table = Table(hosts)
    every = count_pages(
        table.due_pages(None, "", table.due_hosts(), dict.fromkeys(hosts, allowed), ())
    )
    with pytest.MonkeyPatch.context() as patch:
        some = due(table, allowed, wanted, patch)
    assert by_priority(some, wanted) == by_priority(every, wanted)


def test_of_many_hosts_with_many_pages_little_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({f"h{n}": {10: 5000} for n in range(100)})
    assert sum(hosts.total() for hosts in due(table, 800, 200, monkeypatch).values()) >= 200
    assert table.read <= 400


def test_a_large_host_among_small_ones_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({"large": {10: 5000}} | {f"h{n}": {10: 1} for n in range(99)})
    assert due(table, 800, 200, monkeypatch)[10]["large"] == 200


def test_what_was_not_read_and_might_be_more_urgent_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table({"urgent": {19: 5000}} | {f"h{n}": {10: 5000} for n in range(99)})
    assert due(table, 800, 200, monkeypatch)[19]["urgent"] == 200


@given(HOSTS, st.integers(1, 60))
def test_batches_take_each_page_once_the_most_urgent_of_a_host_first(
    hosts: Mapping[str, Mapping[int, int]], size: int
) -> None:
    table = Table(hosts)
    found = table.due_pages(None, "", table.due_hosts(), dict.fromkeys(hosts, 1000), ())
    pages = {
        (priority, host): [(priority, host, page.id) for page in those]
        for priority, each in found.items()
        for host, those in each.items()
    }
    left: Pages = {}
    # of pages, each its own
    numbers = {}
    for (priority, host), named in pages.items():
        left.setdefault(priority, {})[host] = [
            DuePage(len(numbers) + n, True, host, priority) for n in range(len(named))
        ]
        numbers |= dict(zip(left[priority][host], named, strict=True))
    taken: list[DuePage] = []
    for level in sorted({priority // 2 for priority in left}, reverse=True):
        due = count_pages(
            {priority: each for priority, each in left.items() if priority // 2 == level}
        )
        while wanted := next_batch(due, size, Counter()):
            batch = take_pages(left, level, wanted)
            assert Counter(numbers[page][1] for page in batch) == wanted
            taken += batch
    assert len(taken) == len(set(taken)) == len(numbers)
    for host in hosts:
        of_host = [numbers[page] for page in taken if numbers[page][1] == host]
        assert of_host == sorted(of_host, key=lambda page: (-page[0], page[2]))


def test_parts() -> None:
    assert unread_hosts(
        {10: Counter(a=2, b=1)}, {"a": 2, "b": 2, "c": 0}, {"a": 9, "b": 9, "c": 0}
    ) == {"a"}
    assert unread_priority({11: Counter(a=1, b=2), 10: Counter(a=1)}, ["a", "b"]) == 11
    assert has_enough({11: Counter(a=1), 10: Counter(b=3)}, 10, 4) and not has_enough(
        {11: Counter(a=1)}, 10, 4
    )
