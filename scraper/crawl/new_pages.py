"""From what a page gave to the rows it means: frontier pages for its links, product rows for its
products."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from uuid import UUID

from scraper.crawl.context import CrawlContext
from scraper.domain import Extracted, FieldObservations, Kind, LeasedPage, Link, NextVisit, Settled
from scraper.frontier.host_tiers import TierSignal
from scraper.frontier.pages import NewPage
from scraper.frontier.throughput import FetchCost
from scraper.rules.urls import fingerprint, host_of
from scraper.settle.products import NewProduct, content_hash
from scraper.settle.transaction import PageResult

DEPTH_MAX = 30_000  # a smallint column

# of a host, where pages start at a level: the level they need
Levels = Callable[[CrawlContext, str, str], str]


def page_result(
    settled: Settled,
    page: LeasedPage,
    extracted: Extracted,
    final_url: str,
    context: CrawlContext,
    levels: Levels | None = None,
    news: TierSignal | None = None,
    reading: FieldObservations | None = None,
    cost: FetchCost | None = None,
    next_visit: NextVisit | None = None,
) -> PageResult:
    """The settled page with everything it adds. Its content hash covers its products, so listings
    have none."""
    products = [
        NewProduct(
            site_id=context.site_id,
            external_id=product.external_id,
            page_id=page.id,
            crawl_id=page.crawl_id,
            url=final_url,
            data=product.data,
            content_hash=content_hash(product.data),
        )
        for product in extracted.products
    ]
    links = new_pages(extracted.links, context, page.depth + 1, levels)
    whole = products[0].content_hash if len(products) == 1 else None
    if len(products) > 1 and page.kind is Kind.PRODUCT:
        whole = content_hash({product.external_id: product.content_hash for product in products})
    return PageResult(
        settled,
        links=links,
        products=products,
        content_hash=whole,
        partial=extracted.partial,
        news=news,
        reading=reading,
        cost=cost,
        next_visit=next_visit,
        filter=context.filter,
        fingerprint=fingerprint(page.url)
        if context.filter is not None and page.kind is Kind.PRODUCT
        else None,
    )


def new_pages(
    links: Iterable[Link], context: CrawlContext, depth: int, levels: Levels | None = None
) -> list[NewPage]:
    """Frontier pages of a crawl for links, each once. `levels` tells what their hosts are known to
    need."""
    pages: dict[UUID, NewPage] = {}
    for link in links:
        key = fingerprint(link.url)
        if key not in pages:
            way, host = context.route(link.kind, link.url), host_of(link.url)
            if levels is not None and context.site.escalate:
                way = replace(way, capability=levels(context, host, way.capability))
            pages[key] = NewPage(
                site_id=context.site_id,
                crawl_id=context.crawl_id,
                fingerprint=key,
                url=link.url,
                kind=link.kind,
                host=host,
                queue=way.queue,
                priority=way.priority,
                depth=min(depth, DEPTH_MAX),
            )
    return list(pages.values())


def start_links(context: CrawlContext) -> list[Link]:
    """Where a crawl begins: the site's sitemaps and start URLs."""
    site = context.site
    sitemaps = site.sitemap.urls if site.sitemap else ()
    return [
        *(Link(url, Kind.SITEMAP) for url in sitemaps),
        *(Link(url, Kind.LISTING) for url in site.start),
    ]
