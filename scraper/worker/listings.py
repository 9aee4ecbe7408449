"""Whether a listing page that names no product is believed. Pure.

A challenge in place of a listing looks like a category that has become empty, and would delist what
it used to name. Such a page is not believed where it named products before: it is tried again, and
then its crawl is incomplete. What has the links of a menu still is the shop's own page: the next
crawl believes it. What has none is not believed until a person accepts the crawl.
One that names far fewer products than before is read once more. The last page of a category shrinks
on any day, and is believed then. One that another page follows, by what it says itself, should be
full: its links are taken, but its crawl has not seen the whole catalogue, and the next one believes
it.
"""

from __future__ import annotations

from dataclasses import replace

from scraper.crawl.context import CrawlContext
from scraper.crawl.new_pages import new_pages, page_links
from scraper.domain import Extracted, Kind, LeasedPage, Link, Outcome, Status, Verdict
from scraper.platforms import adapter_of
from scraper.platforms.adapter import origin
from scraper.rules.quality import NOT_FULL
from scraper.settle.transaction import PageResult

# A listing of fewer products may become empty any day.
NAMED_LEAST = 2
# Far fewer: less than this share of so many products.
FEWER, FEWER_LEAST = 0.5, 4
# What stands for one that was empty once, and is believed the second time.
EMPTY_ONCE = 1
# There are pages to go on with.
INTERFACE_TRIES = 4
_REFUSED = (401, 403)


def believed(page: LeasedPage, extracted: Extracted, tries: int) -> tuple[Extracted, int | None]:
    """What was extracted, incomplete where it is not believed; and how many products the page is
    to be known for from now on (None: as many as before). `tries`: so many a page has."""
    if page.kind is not Kind.LISTING or not extracted.complete:
        return extracted, None
    named = len(extracted.products) + sum(link.kind is Kind.PRODUCT for link in extracted.links)
    if named or page.known_for < NAMED_LEAST:
        if page.known_for < FEWER_LEAST or named >= FEWER * page.known_for:
            return extracted, named
        problem = f"{NOT_FULL} {named} products, and named {page.known_for} before"
        if page.attempts == 0 and tries > 1:
            return replace(extracted, complete=False, problems=[problem]), None
        if not extracted.goes_on:
            return extracted, named
        problems = [f"{problem}, and another page follows", *extracted.problems]
        return replace(extracted, partial=True, problems=problems), named
    problem = f"it names no product, and named {page.known_for} before"
    doubted = replace(extracted, complete=False, problems=[problem, *extracted.problems])
    return doubted, EMPTY_ONCE if extracted.links or extracted.framed else None


def without_interface(page: LeasedPage, context: CrawlContext, result: PageResult) -> PageResult:
    """What follows where a page of the platform's interface is given up: the site's own pages are
    read, and the crawl is incomplete, since products have other ids there. Where the interface goes
    on without that page, so does the crawl."""
    adapter = adapter_of(context.site.platform, page.url)
    if adapter is None or not _given_up(page, result):
        return result
    further = adapter.without(page.url)
    if further is not None:
        links = [Link(origin(page.url) + further.path, Kind.LISTING)]
        return replace(
            result,
            outcome=Outcome.FETCHED,
            verdict=Verdict(Status.OK, 0.0, charged=True),
            move=None,
            error=None,
            links=new_pages(links, context, page.depth + 1),
        )
    return replace(
        result,
        verdict=Verdict(Status.DEAD, 0.0, charged=True),
        move=None,
        error=f"{result.error}; the shop's pages are read instead of {context.site.platform}'s "
        "interface",
        links=new_pages(page_links(context.site), context, 0),
    )


def _given_up(page: LeasedPage, result: PageResult) -> bool:
    if result.verdict.status is not Status.DUE:
        return result.verdict.status in (Status.DEAD, Status.INVALID, Status.GONE)
    if not result.verdict.charged or result.outcome is Outcome.THROTTLED:
        return False
    tries = page.attempts + page.host_attempts + 1
    return result.http_status in _REFUSED or tries >= INTERFACE_TRIES
