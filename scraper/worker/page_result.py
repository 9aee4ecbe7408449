"""Turns an attempt and its verdict into a page's result: the rows that the attempt adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
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
from scraper.rules import urls
from scraper.worker.batch import Attempt, Batch

EXCERPT_CHARS = 500
ERROR_CHARS = 500
# A page of a platform's interface is given up after this many tries: the shop's own pages remain.
INTERFACE_TRIES = 4
_REFUSED = (401, 403)


@value
class Decision:
    """What follows from an attempt: the verdict, where the page goes on, and what the attempt shows
    of its host's tier."""

    verdict: Verdict
    move: Move | None = None
    signal: TierSignal | None = None


def make_result(
    *,
    batch: Batch,
    page: LeasedPage,
    attempt: Attempt,
    decision: Decision,
    cost: FetchCost,
    levels: Levels,
) -> PageResult:
    """Returns the page's result; `levels` as in `new_pages`. A page that failed, waits or is
    unchanged has no links and no products."""
    context = batch.contexts[page.crawl_id]
    verdict, error = decision.verdict, cut_storable(attempt.error, ERROR_CHARS)
    if attempt.extracted is None or isinstance(context, Attempt):
        content: dict[str, Any] = {
            "excerpt": cut_storable(attempt.excerpt, EXCERPT_CHARS),
            "head": attempt.head,
            "move": decision.move,
            "content_hash": attempt.doubted,
        }
    else:
        content = _read_content(page, attempt, attempt.extracted, context, levels)
        verdict = verdict._replace(status=Status.UNCHANGED) if attempt.same else verdict
        error = _problems_of(attempt.extracted) or error
    # Made at once: `dataclasses.replace` takes as long as 1 % of a page.
    return PageResult(
        page_id=page.id,
        crawl_id=page.crawl_id,
        lease_id=batch.lease.id,
        outcome=attempt.outcome,
        verdict=verdict,
        http_status=attempt.http_status,
        error=error,
        signal=decision.signal,
        observations=attempt.observations,
        cost=cost,
        revisit=attempt.revisit,
        extras=attempt.extras,
        last_item_count=attempt.last_item_count,
        **content,
    )


def _read_content(
    page: LeasedPage,
    attempt: Attempt,
    extracted: Extracted,
    context: CrawlContext,
    levels: Levels,
) -> dict[str, Any]:
    """Returns the page's links and products, as `PageResult` names them. A product page's content
    hash covers its products; a listing has none."""
    links = new_pages(extracted.links, context, page.depth + 1, levels)
    same, url = attempt.same, attempt.final_url or page.url
    products = [] if same else _new_products(page, extracted, url, context)
    is_product = page.kind is Kind.PRODUCT
    return {
        "links": links,
        "products": products,
        "named": _named_ids(extracted.items, products),
        "content_hash": (
            page.last_content if same else _hash_products(products, is_product=is_product)
        ),
        "partial": extracted.partial,
        "lists": _hash_links(links) if page.kind is Kind.LISTING else None,
        "disallowed": extracted.disallowed,
    }


def _problems_of(extracted: Extracted) -> str | None:
    """Returns what a good page lacks all the same: links, or some of its products."""
    items = extracted.items
    if extracted.partial or (items is not None and (items.unread or not items.whole)):
        return cut_storable(extracted.problems_text, ERROR_CHARS)
    return None


def _named_ids(items: ItemsRead | None, products: Sequence[NewProduct]) -> Sequence[str] | None:
    """Returns the ids of all products on the page; None if they are not known."""
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
            url=urls.clean(str(product.data.get("url", url)), url) or url if moves else url,
            data=product.data,
            content_hash=product.content_hash,
            moves=moves,
        )
        for product in extracted.products
    ]


def _hash_products(products: list[NewProduct], *, is_product: bool) -> UUID | None:
    if len(products) == 1:
        return products[0].content_hash
    if products and is_product:
        return content_hash({product.external_id: product.content_hash for product in products})
    return None


def _hash_links(links: Sequence[NewPage]) -> UUID | None:
    """Returns one value for the products that a listing links to; None if there are none."""
    products = [link.fingerprint.int for link in links if link.kind is Kind.PRODUCT]
    return UUID(int=combine_fingerprints(products)) if products else None


def cut_storable(text: str | None, chars: int) -> str | None:
    """Returns the text as PostgreSQL accepts it (no NUL, no lone surrogates), cut to `chars`."""
    if text is None:
        return None
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:chars]


def replace_interface(page: LeasedPage, context: CrawlContext, result: PageResult) -> PageResult:
    """Returns the result with a way around a page of the platform's interface that was given up.

    If the interface goes on without that page, so does the crawl. Otherwise the site's own pages
    are read; products have other ids there, so the crawl is incomplete. Any other result is
    returned as it is."""
    adapter = context.extractor.adapter
    if adapter is None or not adapter.reads(page.url) or not _is_given_up(page, result):
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


def _is_given_up(page: LeasedPage, result: PageResult) -> bool:
    if result.verdict.status is not Status.DUE:
        return result.verdict.status in (Status.DEAD, Status.INVALID, Status.GONE)
    if not result.verdict.charged or result.outcome is Outcome.THROTTLED:
        return False
    tries = page.attempts + page.host_attempts + 1
    return result.http_status in _REFUSED or tries >= INTERFACE_TRIES
