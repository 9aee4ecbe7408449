"""Plans the next visit of a good product page: with which validators it is requested."""

from __future__ import annotations

from typing import NamedTuple

from scraper.crawl.context import CrawlContext
from scraper.domain import NO_VALIDATORS, Extracted, Fetched, Kind, LeasedPage, Revisit
from scraper.rules.revisit import read_validators

_OK = 200


class VisitPlan(NamedTuple):
    """What a good page's next visit is compared with; `same` if the page gives what is stored
    already; and the number of its fields, if it has changed."""

    revisit: Revisit | None = None
    same: bool = False
    fields: int | None = None


def plan_visit(
    page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
) -> VisitPlan:
    """Plans the next visit of a good page. Only product pages are compared with their last
    visit."""
    if page.kind is not Kind.PRODUCT:
        return VisitPlan()
    fields = extracted.fields_found
    changed = None if fields == page.last_item_count else fields
    if _is_same_product(page, fetched, extracted, context):
        return VisitPlan(plan_after_unchanged(fetched, context), True, changed)
    return VisitPlan(_plan_after_reading(fetched, extracted, context), False, changed)


def plan_after_unchanged(fetched: Fetched, context: CrawlContext) -> Revisit | None:
    """Plans the next visit of an unchanged page. Its row has validators; the answer may have newer
    ones."""
    if fetched.status != _OK:
        return None
    validators = read_validators(fetched.headers, fetched.body_hash)
    return Revisit(validators, context.extractor_version.hash)


def _plan_after_reading(
    fetched: Fetched, extracted: Extracted, context: CrawlContext
) -> Revisit | None:
    """Plans the next visit of a page that was read whole. Returns None if nothing is worth
    keeping."""
    if not context.site.conditional_s or not _is_comparable(fetched, extracted):
        return None
    validators = read_validators(fetched.headers, fetched.body_hash)
    extractor_hash = context.extractor_version.hash
    if validators is NO_VALIDATORS or extractor_hash is None:
        return None
    return Revisit(validators, extractor_hash)


def _is_same_product(
    page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
) -> bool:
    """Returns True if a page with other bytes (a nonce, a banner) gives the same as when it was
    last read whole: one product with the same id and values, which need not be stored."""
    last = context.last_reading_of(page)
    if last is None or extracted.items is not None or not _is_comparable(fetched, extracted):
        return False
    product = extracted.products[0]
    return product.external_id == last.product_id and product.content_hash == page.last_content


def _is_comparable(fetched: Fetched, extracted: Extracted) -> bool:
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
