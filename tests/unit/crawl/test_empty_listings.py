"""A listing page that names no product, distinguished from a challenge in its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scraper.crawl.listing_verdict import EMPTY_ONCE, judge_listing
from scraper.domain import Extracted, Fetched, Kind, LeasedPage, Link
from scraper.extract import compile_site
from scraper.sites.definition import Site

PRODUCT, LISTING = (
    Link("https://a.example/p", Kind.PRODUCT),
    Link("https://a.example/", Kind.LISTING),
)

MENU = "<nav><a href=/c/1>x</a><a href=/c/2>x</a><a href=/c/3>x</a></nav>Nothing here"


@pytest.mark.parametrize(
    ("before", "links", "complete", "named"),
    [
        (0, [PRODUCT, LISTING], True, 1),
        (2, [PRODUCT], True, 1),
        # empty as it was
        (0, [], True, 0),
        # never read
        (None, [LISTING], True, 0),
        (None, [], False, None),
        # one that had a single product, and one that was empty once
        (EMPTY_ONCE, [LISTING], True, 0),
        # the shop's own page, without products
        (20, [LISTING], False, EMPTY_ONCE),
        # anything else
        (20, [], False, None),
    ],
)
def test_empty_listings(
    before: int | None, links: list[Link], complete: bool, named: int | None
) -> None:
    page = LeasedPage(
        1, 1, "https://a.example/c", Kind.LISTING, "a.example", 0, 0, 1, 1,
        last_item_count=before or 0, good_before=before is not None,
    )  # fmt: skip
    extracted, last_item_count, reason = judge_listing(page, Extracted(links), 4)
    assert (extracted.complete, last_item_count) == (complete, named)
    if not complete:
        assert extracted.problems == [reason]
        known = "named 20 before" if before else "has no link of the shop's pages"
        assert reason == f"it names no product, and {known}"


def test_product_pages_and_incomplete_ones_are_left_alone() -> None:
    page = LeasedPage(1, 1, "https://a.example/p", Kind.PRODUCT, "a.example", 0, 0, 1, 1)
    assert judge_listing(page, Extracted(), 4) == (Extracted(), None, "")


@pytest.mark.parametrize(
    ("before", "now", "attempts", "complete"),
    [(20, 9, 0, False), (20, 9, 1, True), (20, 10, 0, True), (3, 1, 0, True), (0, 1, 0, True)],
)
def test_a_listing_that_names_far_fewer_is_read_once_more(
    before: int, now: int, attempts: int, complete: bool
) -> None:
    page = LeasedPage(
        1,
        1,
        "https://a.example/c",
        Kind.LISTING,
        "a.example",
        attempts,
        0,
        1,
        1,
        last_item_count=before,
    )
    links = [Link(f"https://a.example/{number}", Kind.PRODUCT) for number in range(now)]
    assert judge_listing(page, Extracted(links), 1).extracted.complete, "there is one try"
    extracted, last_item_count, reason = judge_listing(page, Extracted(links), 4)
    assert (extracted.complete, last_item_count) == (complete, now if complete else None)
    if not complete:
        assert extracted.problems == [reason] == ["it names 9 products, and named 20 before"]


def test_one_with_far_fewer_that_another_page_follows_is_believed_by_the_next_crawl() -> None:
    page = LeasedPage(
        1, 1, "https://a.example/c", Kind.LISTING, "a.example", 3, 0, 1, 1, last_item_count=20
    )
    links = [Link(f"https://a.example/{number}", Kind.PRODUCT) for number in range(9)]
    shown = Extracted(links, goes_on=True)
    extracted, last_item_count, reason = judge_listing(page, shown, 4)
    assert (extracted.complete, extracted.partial, last_item_count) == (True, True, 9)
    assert extracted.links == links
    assert (
        [reason]
        == extracted.problems
        == ["it names 9 products, and named 20 before, and another page follows"]
    )
    accepted = judge_listing(replace(page, last_item_count=9, attempts=0), shown, 4)
    assert accepted == (shown, 9, "")


@pytest.mark.parametrize(
    ("number", "body", "attempts", "complete"),
    [
        # The list has become shorter.
        (2, MENU, 1, True),
        # It is asked again first.
        (2, MENU, 0, False),
        # A challenge has no menu, and a category does not end with its first page.
        (2, "<p>Please show that you are human", 1, False),
        (1, MENU, 1, False),
    ],
)
def test_a_numbered_page_behind_the_last_one_may_become_empty(
    number: int, body: str, attempts: int, complete: bool
) -> None:
    site = Site.model_validate(
        {
            "name": "shop",
            "start": "https://a.example/",
            "listing": {"products": "a.p", "listings": "nav a", "pages": {"param": "page"}},
            "product": {"fields": {"title": "h1"}},
        }
    )
    url = f"https://a.example/c/9?page={number}"
    page = Fetched(url, 200, {}, body.encode())
    extracted = compile_site(site).extract(Kind.LISTING, page, page_url=url, depth=2)
    leased = LeasedPage(1, 1, url, Kind.LISTING, "a.example", attempts, 0, 2, 1, last_item_count=4)
    assert judge_listing(leased, extracted, 4).extracted.complete is complete


@pytest.mark.parametrize(
    ("body", "framed"),
    [
        (MENU, True),
        ("<a href=/c/1>x</a><a href=/c/1#a>x</a><a href=/c/1>x</a><a href=/c/9>x</a>", False),
        (
            "<a href=https://b.example/1>x</a><a href=https://b.example/2>x</a><a href=/>x</a>",
            False,
        ),
        ("<p>Please show that you are human", False),
        ("<a class=p href=/p/1>x</a><a href=/c/2>x</a><a href=/c/3>x</a><a href=/c/4>x</a>", False),
    ],
)
def test_a_page_has_the_shops_frame(body: str, framed: bool) -> None:
    site = Site.model_validate(
        {
            "name": "shop",
            "start": "https://a.example/",
            "listing": {"products": "a.p"},
            "product": {"fields": {"title": "h1"}},
        }
    )
    url = "https://a.example/c/9"
    page = Fetched(url, 200, {}, body.encode())
    extracted = compile_site(site).extract(Kind.LISTING, page, page_url=url, depth=1)
    assert extracted.framed is framed
    leased = LeasedPage(1, 1, url, Kind.LISTING, "a.example", 0, 0, 1, 1, last_item_count=20)
    if not extracted.links:
        assert judge_listing(leased, extracted, 4).remembered_count == (
            EMPTY_ONCE if framed else None
        )
