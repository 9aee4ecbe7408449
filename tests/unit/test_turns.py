"""The order of tests over the workers of xdist."""

from __future__ import annotations

from tests.support.turns import spread

LASTS_S = {"long": 100, "longer": 150, "middle": 60}


def test_each_worker_begins_with_long_files_and_all_tests_run_once() -> None:
    names = [("short", 8), ("middle", 2), ("long", 2), ("longer", 2), ("small", 9)]
    items = [(file, number) for file, count in names for number in range(count)]
    found = spread(items, 3, lambda item: item[0], lambda item: LASTS_S.get(item[0], 0))
    assert sorted(found) == sorted(items)
    parts = [found[:7], found[7:15], found[15:]]
    assert parts[0][:2] == [("longer", 0), ("longer", 1)]
    assert parts[1][:2] == [("long", 0), ("long", 1)]
    assert parts[2][:2] == [("middle", 0), ("middle", 1)]


def test_one_worker_does_the_longest_first() -> None:
    items = ["short", "middle", "longer"]
    found = spread(items, 1, lambda item: item, lambda item: LASTS_S.get(item, 0))
    assert found == ["longer", "middle", "short"]


def test_a_file_that_is_larger_than_a_part_is_split() -> None:
    items = [("long", number) for number in range(10)]
    found = spread(items, 4, lambda item: item[0], lambda _: 1)
    assert sorted(found) == items
