"""What a crawl found of what the shop's lists count."""

from __future__ import annotations

import pytest

from scraper.plugins.coverage.judging import measure_coverage
from scraper.plugins.coverage.store import ListCount


def lists(*rows: tuple[str, int, int]) -> list[ListCount]:
    return [ListCount("list", f"https://shop.example{url}", *counts) for url, *counts in rows]


@pytest.mark.parametrize("page", ["/pots?s={}", "/pots/{}", "/pots/{}/", "/pots?sort=a&blatt={}"])
def test_pages_that_a_shop_numbers_in_its_own_way_are_one_list(page: str) -> None:
    first = page.format("1").replace("blatt=1", "").rstrip("&") if "sort" in page else "/pots"
    rows = lists((first, 45, 20), (page.format(2), 45, 20), (page.format(3), 45, 5))
    found = measure_coverage(45, rows)
    assert found is not None and found.expected == 45
    assert found.evidence == "1 of 1 lists name as many as they count"
    found = measure_coverage(40, rows[:2])
    assert found is not None and found.expected == 45 and "40 of 45" in found.evidence


def test_categories_with_numbers_are_lists_of_their_own() -> None:
    # Each shows its first 20 products, and two of them together as many as each one counts.
    rows = lists(("/c?path=2", 40, 20), ("/c?path=3", 40, 20), ("/c/4", 40, 20), ("/c/5", 40, 20))
    found = measure_coverage(80, rows)
    assert found is not None and found.expected == 160
    # The page that all categories share counts something else.
    found = measure_coverage(80, [*rows, *lists(("/c", 160, 20))])
    assert found is not None and found.expected > 160
