"""A listing page that names no product, told from a challenge in its place."""

from __future__ import annotations

import pytest

from scraper.domain import Extracted, Kind, LeasedPage, Link
from scraper.worker.listings import EMPTY_ONCE, believed

PRODUCT, LISTING = (
    Link("https://a.example/p", Kind.PRODUCT),
    Link("https://a.example/", Kind.LISTING),
)


@pytest.mark.parametrize(
    ("before", "links", "complete", "named"),
    [
        (0, [PRODUCT, LISTING], True, 1),
        (20, [PRODUCT], True, 1),
        # never read, or empty as it was
        (0, [], True, 0),
        # one that had a single product, and one that was empty once
        (EMPTY_ONCE, [LISTING], True, 0),
        # the shop's own page, without products
        (20, [LISTING], False, EMPTY_ONCE),
        # anything else
        (20, [], False, None),
    ],
)
def test_empty_listings(before: int, links: list[Link], complete: bool, named: int | None) -> None:
    page = LeasedPage(
        1, 1, "https://a.example/c", Kind.LISTING, "a.example", 0, 0, 1, 1, known_for=before
    )
    extracted, known_for = believed(page, Extracted(links))
    assert (extracted.complete, known_for) == (complete, named)
    if not complete:
        assert extracted.problems == ["it names no product, and named 20 before"]


def test_product_pages_and_incomplete_ones_are_left_alone() -> None:
    page = LeasedPage(1, 1, "https://a.example/p", Kind.PRODUCT, "a.example", 0, 0, 1, 1)
    assert believed(page, Extracted()) == (Extracted(), None)
