"""What a product page that was good keeps for its next visit: validators, and when that is due.
Decides nothing else."""

from __future__ import annotations

from dataclasses import replace

from scraper.crawl.context import CrawlContext
from scraper.domain import (
    NO_VALIDATORS,
    Extracted,
    Fetched,
    LeasedPage,
    NextVisit,
    content_hash,
)
from scraper.rules.revisit import Bounds, next_interval_s, read_validators

_OK = 200


def after_read(
    page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
) -> NextVisit | None:
    """Of a page that was read whole. None: there is nothing to keep."""
    site = context.site
    bounds = site.revisit.bounds
    validators, extractor_hash = NO_VALIDATORS, None
    if site.conditional_s and comparable(fetched, extracted):
        validators = read_validators(fetched.headers, fetched.body_hash)
        if validators is not NO_VALIDATORS:
            extractor_hash = context.extractor_version.hash
    if not bounds.adaptive:
        return NextVisit(validators, extractor_hash) if extractor_hash is not None else None
    return NextVisit(
        validators,
        extractor_hash,
        _interval(page, bounds, changed=True),
        _interval(page, bounds, changed=False),
    )


def after_same(page: LeasedPage, fetched: Fetched, context: CrawlContext) -> NextVisit | None:
    """Of a page that has not changed. Its row has validators; an answer may come with others."""
    bounds = context.site.revisit.bounds
    visit = NextVisit(
        if_unchanged_s=_interval(page, bounds, changed=False) if bounds.adaptive else None
    )
    if fetched.status == _OK:
        validators = read_validators(fetched.headers, fetched.body_hash)
        visit = replace(visit, validators=validators, extractor_hash=context.extractor_version.hash)
    return visit if visit != NextVisit() else None


def gives_the_same(
    page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
) -> bool:
    """Whether a page with other bytes (a nonce, a banner) gives what it gave when it was last read
    whole: one product with the same id and values. To store it would change nothing."""
    last = context.last_reading_of(page)
    if last is None or extracted.items is not None or not comparable(fetched, extracted):
        return False
    product = extracted.products[0]
    return (
        product.external_id == last.product_id and content_hash(product.data) == page.last_content
    )


def comparable(fetched: Fetched, extracted: Extracted) -> bool:
    """Whether a later 304, or the same bytes, say all that is to be known of a page. Not where it
    was redirected: the validators are another URL's. Not where it has links, which are to be
    followed each time, nor several products that a function gives: another page may come to own one
    of them meanwhile, and this one would have to be read to get it back. (Of `items` the database
    knows: `scraper.results.page_items`.) Nor where one of its items could not be read."""
    items = extracted.items
    return (
        fetched.status == _OK
        and not fetched.redirects
        and (len(extracted.products) == 1 if items is None else items.whole and not items.unread)
        and not extracted.links
    )


def _interval(page: LeasedPage, bounds: Bounds, *, changed: bool) -> int:
    return round(next_interval_s(bounds, page.revisit_s, page.good_s, changed=changed))
