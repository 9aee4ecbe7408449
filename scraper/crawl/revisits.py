"""Plans the next visit of a good product page: its validators and its interval."""

from __future__ import annotations

from dataclasses import replace

from scraper.crawl.context import CrawlContext
from scraper.domain import (
    NO_VALIDATORS,
    Extracted,
    Fetched,
    LeasedPage,
    Revisit,
    content_hash,
)
from scraper.rules.revisit import Bounds, next_interval_s, read_validators

_OK = 200


def plan_after_reading(
    page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
) -> Revisit | None:
    """Plans the next visit of a page that was read whole. Returns None if nothing is worth
    keeping."""
    site = context.site
    bounds = site.revisit.bounds
    validators, extractor_hash = NO_VALIDATORS, None
    if site.conditional_s and is_comparable(fetched, extracted):
        validators = read_validators(fetched.headers, fetched.body_hash)
        if validators is not NO_VALIDATORS:
            extractor_hash = context.extractor_version.hash
    if not bounds.adaptive:
        return Revisit(validators, extractor_hash) if extractor_hash is not None else None
    return Revisit(
        validators,
        extractor_hash,
        _next_interval(page, bounds, changed=True),
        _next_interval(page, bounds, changed=False),
    )


def plan_after_unchanged(
    page: LeasedPage, fetched: Fetched, context: CrawlContext
) -> Revisit | None:
    """Plans the next visit of an unchanged page. Its row has validators; the answer may have newer
    ones."""
    bounds = context.site.revisit.bounds
    revisit = Revisit(
        if_unchanged_s=_next_interval(page, bounds, changed=False) if bounds.adaptive else None
    )
    if fetched.status == _OK:
        validators = read_validators(fetched.headers, fetched.body_hash)
        revisit = replace(
            revisit, validators=validators, extractor_hash=context.extractor_version.hash
        )
    return revisit if revisit != Revisit() else None


def is_same_product(
    page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
) -> bool:
    """Returns True if a page with other bytes (a nonce, a banner) gives the same as when it was
    last read whole: one product with the same id and values, which need not be stored."""
    last = context.last_reading_of(page)
    if last is None or extracted.items is not None or not is_comparable(fetched, extracted):
        return False
    product = extracted.products[0]
    return (
        product.external_id == last.product_id and content_hash(product.data) == page.last_content
    )


def is_comparable(fetched: Fetched, extracted: Extracted) -> bool:
    """Returns True if a later 304, or the same bytes, say everything about a page.

    Not for a redirected page, whose validators belong to another URL, nor for a page with links,
    which must be followed each time. Not for several products of a function, since another page may
    take over one of them, and only reading this page would return it. (For `items` see
    `scraper.results.page_items`.) Not if one of its items could not be read.
    """
    items = extracted.items
    return (
        fetched.status == _OK
        and not fetched.redirects
        and (len(extracted.products) == 1 if items is None else items.whole and not items.unread)
        and not extracted.links
    )


def _next_interval(page: LeasedPage, bounds: Bounds, *, changed: bool) -> int:
    return round(next_interval_s(bounds, page.revisit_s, page.good_s, changed=changed))
