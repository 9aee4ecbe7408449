"""Decides whether a listing that names fewer products than before is trusted.

A challenge page looks like a category that has become empty, and would delist the category's
products. So a page that named products before is tried again if it names none, and then its crawl
is incomplete. If the page still has the links of a menu, it is the shop's own page, and the next
crawl accepts it; a page without any link is not accepted until a person accepts the crawl. Nor is
a page without any link that has never been a good listing. A numbered page of the shop's is
accepted at the second try: its list has become shorter.

A page that names far fewer products than before is read again. The last page of a category may
shrink on any day, so the second reading is accepted. A page that says itself that another page
follows should be full: its links are taken, but its crawl has not seen the whole catalogue, and the
next crawl accepts the smaller number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from scraper.domain import Extracted, Kind, LeasedPage
from scraper.rules.quality import NOT_FULL

# A listing of fewer products may become empty any day.
NAMED_LEAST = 2
# A listing of fewer products may shrink any day.
FEWER_LEAST = 4
# Less than this share of the remembered products is far fewer.
FEWER = 0.5
# The number remembered for a listing that was empty once: the next crawl accepts it as empty.
EMPTY_ONCE = 1


class ListingVerdict(NamedTuple):
    """What is kept of a listing. `extracted` is incomplete if the listing is not trusted, and
    partial if only its links are. `remembered_count` is how many products to remember for the
    listing; None keeps the number of before. `reason` says what is wrong; "" if nothing is."""

    extracted: Extracted
    remembered_count: int | None = None
    reason: str = ""


def judge_listing(page: LeasedPage, extracted: Extracted, tries: int) -> ListingVerdict:
    """Compares a listing with its remembered number of products. A page has that many `tries`.

    A listing that named 20 products: 10 are accepted; 9 are read again on the first try, and
    accepted on the second one; 0 make it incomplete. Any page that is not a complete listing is
    returned as it is.
    """
    if page.kind is not Kind.LISTING or not extracted.complete:
        return ListingVerdict(extracted)
    before = page.last_item_count
    named = len(extracted.products) + sum(link.kind is Kind.PRODUCT for link in extracted.links)
    is_bare = not extracted.links and not extracted.framed
    if not named and before >= NAMED_LEAST and not (extracted.ends and page.attempts > 0):
        reason = f"it names no product, and named {before} before"
        return ListingVerdict(
            replace(extracted, complete=False, problems=[reason, *extracted.problems]),
            None if is_bare else EMPTY_ONCE,
            reason,
        )
    if not named and not before and page.depth and is_bare and not page.good_before:
        reason = "it names no product, and has no link of the shop's pages"
        return ListingVerdict(replace(extracted, complete=False, problems=[reason]), None, reason)
    if before < FEWER_LEAST or named >= FEWER * before:
        return ListingVerdict(extracted, named)
    reason = f"{NOT_FULL} {named} products, and named {before} before"
    if page.attempts == 0 and tries > 1:
        retried = replace(extracted, complete=False, problems=[reason])
        return ListingVerdict(retried, None, reason)
    if not extracted.goes_on:
        return ListingVerdict(extracted, named)
    reason += ", and another page follows"
    partial = replace(extracted, partial=True, problems=[reason, *extracted.problems])
    return ListingVerdict(partial, named, reason)
