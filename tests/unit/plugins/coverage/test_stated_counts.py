"""The number of products that a listing page states."""

from __future__ import annotations

import pytest

from scraper.plugins.coverage.stated_counts import name_list, read_stated_count
from tests.support.growth import assert_linear


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("<p>Showing 1-15 of 71 products</p>", 71),
        ("<div>Displaying <strong>1</strong> to <strong>10</strong> (of <strong>126</strong> Products)</div>", 126),
        ("<p>Artikel 1 bis 12 (von 1.340)</p>", 1340),
        ("<p>71 products</p>", 71),
        ("<p>Over 10,000 products in stock</p>", None),
        ("<p>1 to 10 (of May 2026)</p>", None),
        ("<p>1-15 of 71</p><p>1-9 of 20</p>", None),
    ],
)  # fmt: skip
def test_a_range_or_a_count_alone_counts_a_list(body: str, count: int | None) -> None:
    assert read_stated_count(body.encode()) == count


@pytest.mark.parametrize("part", ["<", "<!--", "<script>", "<b ", "<x"])
def test_markup_that_never_ends_takes_no_long_time(part: str) -> None:
    assert_linear(lambda size: (part * size).encode(), read_stated_count, 40_000)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pots", "pots_s2"),
        ("pots", "pots?page=2"),
        ("pots?sort=new", "pots?sort=new&start=24"),
        ("pots", "pots/page/2/"),
        ("pots", "pots/seite-2"),
        ("pots.html", "pots-p2.html"),
    ],
)
def test_pages_of_a_list_have_one_name(first: str, second: str) -> None:
    names = {name_list(f"https://shop.example/{path}").rstrip("/") for path in (first, second)}
    assert len(names) == 1


def test_a_number_of_another_kind_names_another_list() -> None:
    assert name_list("https://shop.example/pots?path=2") != name_list("https://shop.example/pots")
    assert name_list("https://shop.example/glass-2") != name_list("https://shop.example/glass")
