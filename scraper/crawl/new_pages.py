"""Makes frontier pages from the links of a page, and from the URLs where a crawl begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from uuid import UUID

from scraper.crawl.context import CrawlContext
from scraper.domain import Kind, Link
from scraper.extract.adapter import origin
from scraper.frontier.pages import NewPage
from scraper.rules.urls import fingerprint, host_of
from scraper.sites.definition import Site

DEPTH_MAX = 30_000  # a smallint column

# Returns the level that pages of a host need, given their starting level.
Levels = Callable[[CrawlContext, str, str], str]


def new_pages(
    links: Iterable[Link], context: CrawlContext, depth: int, levels: Levels | None = None
) -> list[NewPage]:
    """Returns frontier pages for links, each once. `levels` knows what level their hosts need."""
    pages: dict[UUID, NewPage] = {}
    for link in links:
        key = fingerprint(link.url)
        if key not in pages:
            route, host = context.choose_route(link.kind, link.url), host_of(link.url)
            if levels is not None and context.site.escalate:
                route = replace(route, capability=levels(context, host, route.capability))
            pages[key] = NewPage(
                site_id=context.site_id,
                crawl_id=context.crawl_id,
                fingerprint=key,
                url=link.url,
                kind=link.kind,
                host=host,
                queue=route.queue,
                priority=route.priority,
                depth=min(depth, DEPTH_MAX),
            )
    return list(pages.values())


def start_links(context: CrawlContext) -> list[Link]:
    """Returns where a crawl begins: at the shop's own interface, else at its pages."""
    site, adapter = context.site, context.extractor.adapter
    if adapter is None:
        return page_links(site)
    return [Link(origin(site.starts[0]) + adapter.first, Kind.LISTING)]


def page_links(site: Site) -> list[Link]:
    """Returns the site's sitemaps and start URLs."""
    sitemaps = site.sitemap.urls if site.sitemap else ()
    return [
        *(Link(url, Kind.SITEMAP) for url in sitemaps),
        *(Link(url, Kind.LISTING) for url in site.start),
    ]
