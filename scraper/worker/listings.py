"""Whether a listing page that names no product is believed. Pure.

A challenge in place of a listing looks like a category that has become empty, and would delist what
it used to name. Such a page is not believed where it named products before: it is tried again, and
then its crawl is incomplete. What has the links to other listings still is the shop's own page: the
next crawl believes it. What has no link at all is not believed until a person accepts the crawl.
"""

from __future__ import annotations

from dataclasses import replace

from scraper.domain import Extracted, Kind, LeasedPage

# A listing of fewer products may become empty any day.
NAMED_LEAST = 2
# What stands for one that was empty once, and is believed the second time.
EMPTY_ONCE = 1


def believed(page: LeasedPage, extracted: Extracted) -> tuple[Extracted, int | None]:
    """What was extracted, incomplete where it is not believed; and how many products the page is
    to be known for from now on (None: as many as before)."""
    if page.kind is not Kind.LISTING or not extracted.complete:
        return extracted, None
    named = len(extracted.products) + sum(link.kind is Kind.PRODUCT for link in extracted.links)
    if named or page.products_named < NAMED_LEAST:
        return extracted, named
    problem = f"it names no product, and named {page.products_named} before"
    doubted = replace(extracted, complete=False, problems=[problem, *extracted.problems])
    return doubted, EMPTY_ONCE if extracted.links else None
