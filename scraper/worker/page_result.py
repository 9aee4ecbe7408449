"""From an attempt and what is decided about it to the page's result: its verdict, and the rows for
what it gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from scraper.crawl.context import CrawlContext
from scraper.crawl.new_pages import Levels, new_pages, page_links
from scraper.domain import (
    Extracted,
    ItemsRead,
    Kind,
    LeasedPage,
    Link,
    Move,
    Outcome,
    Status,
    Verdict,
    content_hash,
    value,
)
from scraper.extract.adapter import origin
from scraper.frontier.host_tiers import TierSignal
from scraper.frontier.pages import NewPage
from scraper.frontier.throughput import FetchCost
from scraper.results.listing_traps import combine_fingerprints
from scraper.results.products import NewProduct
from scraper.results.transaction import PageResult
from scraper.worker.batch import Attempt, Batch

EXCERPT_CHARS = 500
ERROR_CHARS = 500
# There are pages to go on with.
INTERFACE_TRIES = 4
_REFUSED = (401, 403)


@value
class Decision:
    """What is done about an attempt: the verdict, where the page goes on, and what is learned of
    its host's tier."""

    verdict: Verdict
    move: Move | None = None
    signal: TierSignal | None = None


def page_result(
    batch: Batch,
    page: LeasedPage,
    attempt: Attempt,
    decision: Decision,
    cost: FetchCost,
    levels: Levels,
) -> PageResult:
    """The page with its verdict and everything it adds. Its content hash covers its products, so
    listings have none."""
    extracted, context = attempt.extracted, batch.contexts[page.crawl_id]
    if extracted is None or isinstance(context, Attempt):
        return PageResult(
            page.id,
            page.crawl_id,
            batch.lease.id,
            attempt.outcome,
            decision.verdict,
            attempt.http_status,
            storable(attempt.error, ERROR_CHARS),
            storable(attempt.excerpt, EXCERPT_CHARS),
            attempt.head,
            decision.move,
            signal=decision.signal,
            observations=attempt.observations,
            cost=cost,
            next_visit=attempt.next_visit,
            last_item_count=attempt.last_item_count,
        )
    is_product = page.kind is Kind.PRODUCT
    links = new_pages(extracted.links, context, page.depth + 1, levels)
    verdict, products = decision.verdict, list[NewProduct]()
    if attempt.same:
        verdict, content = verdict._replace(status=Status.UNCHANGED), page.last_content
    else:
        products = _new_products(page, extracted, attempt.final_url or page.url, context)
        content = _content_hash_of(products, is_product)
    return PageResult(
        page.id,
        page.crawl_id,
        batch.lease.id,
        attempt.outcome,
        verdict,
        attempt.http_status,
        _error_of(extracted),
        links=links,
        products=products,
        named=_named(extracted.items, products),
        content_hash=content,
        partial=extracted.partial,
        lists=_listed(links) if page.kind is Kind.LISTING else None,
        disallowed=extracted.disallowed,
        signal=decision.signal,
        observations=attempt.observations,
        cost=cost,
        next_visit=attempt.next_visit,
        extras=attempt.extras,
        last_item_count=attempt.last_item_count,
    )


def _error_of(extracted: Extracted) -> str | None:
    """What a page lacks that is good all the same: links, or some of its products."""
    items = extracted.items
    if extracted.partial or (items is not None and (items.unread or not items.whole)):
        return storable(extracted.problems_text, ERROR_CHARS)
    return None


def _named(items: ItemsRead | None, products: Sequence[NewProduct]) -> Sequence[str] | None:
    """The ids of all products that are on the page; None where that is not known."""
    if items is None or not items.whole:
        return None
    return [*(product.external_id for product in products), *items.unread]


def _new_products(
    page: LeasedPage, extracted: Extracted, url: str, context: CrawlContext
) -> list[NewProduct]:
    moves = page.kind is Kind.LISTING and context.extractor.adapter is not None
    return [
        NewProduct(
            site_id=context.site_id,
            external_id=product.external_id,
            page_id=page.id,
            crawl_id=page.crawl_id,
            url=url,
            data=product.data,
            content_hash=content_hash(product.data),
            moves=moves,
        )
        for product in extracted.products
    ]


def _content_hash_of(products: list[NewProduct], is_product: bool) -> UUID | None:
    if len(products) == 1:
        return products[0].content_hash
    if products and is_product:
        return content_hash({product.external_id: product.content_hash for product in products})
    return None


def _listed(links: Sequence[NewPage]) -> UUID | None:
    """One value for the products that a listing links to; None where there are none."""
    products = [link.fingerprint.int for link in links if link.kind is Kind.PRODUCT]
    return UUID(int=combine_fingerprints(products)) if products else None


def storable(text: str | None, chars: int) -> str | None:
    """PostgreSQL takes neither NUL nor lone surrogates."""
    if text is None:
        return None
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:chars]


def without_interface(page: LeasedPage, context: CrawlContext, result: PageResult) -> PageResult:
    """What follows where a page of the platform's interface is given up: the site's own pages are
    read, and the crawl is incomplete, since products have other ids there. Where the interface goes
    on without that page, so does the crawl."""
    adapter = context.extractor.adapter
    if adapter is None or not adapter.reads(page.url) or not _given_up(page, result):
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
        error=f"{result.error}; the shop's pages are read instead of {adapter.name}'s interface",
        links=new_pages(page_links(context.site), context, 0),
    )


def _given_up(page: LeasedPage, result: PageResult) -> bool:
    if result.verdict.status is not Status.DUE:
        return result.verdict.status in (Status.DEAD, Status.INVALID, Status.GONE)
    if not result.verdict.charged or result.outcome is Outcome.THROTTLED:
        return False
    tries = page.attempts + page.host_attempts + 1
    return result.http_status in _REFUSED or tries >= INTERFACE_TRIES
