"""The plug-in in a worker: keeps what listings, sitemaps and interfaces say of the number of
products, and stores it before their pages are settled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import structlog
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.context import CrawlContext
from scraper.domain import Extracted, Fetched, Kind, LeasedPage, Link
from scraper.infra.database import retry_transaction
from scraper.plugin import WorkerPart
from scraper.plugins.coverage import store
from scraper.plugins.coverage.hooks import CountedCrawl
from scraper.plugins.coverage.stated_counts import (
    name_list,
    read_interface_count,
    read_stated_count,
)
from scraper.plugins.coverage.sterile_lists import SterileLists
from scraper.results.transaction import PageResult
from scraper.rules.urls import fingerprint
from scraper.worker.batch import Attempt, Batch
from scraper.worker.host import WorkerHost

log = structlog.get_logger()
NAME = "coverage"
# Larger pages are searched in a thread.
INLINE_MAX_BYTES = 50_000


@dataclass(frozen=True, slots=True)
class Claim:
    """What a page says. `fruitless`: the limit of its crawl. `entries`: the products of a sitemap
    with their `lastmod`."""

    site_id: int
    kind: str
    list_url: str
    claimed: int | None
    named: int
    fruitless: int
    entries: Sequence[dict[str, Any]] = ()


class CoveragePart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self._sterile = SterileLists()

    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> Claim | None:
        extracted = attempt.extracted
        if page.kind is Kind.PRODUCT or extracted is None:
            return None
        site_id = cast(CountedCrawl, context.extras[NAME]).site_id
        limit = context.site.limits.fruitless
        if page.kind is Kind.SITEMAP:
            return await asyncio.to_thread(_read_sitemap, site_id, page, extracted, limit)
        named = len(extracted.products) + _count_products(extracted.links)
        if context.extractor.reads_interface(page.url):
            count = read_interface_count(dict(fetched.headers), fetched.body)
            return Claim(site_id, "platform", name_list(page.url), count, named, limit)
        if len(fetched.body) > INLINE_MAX_BYTES:
            count = await asyncio.to_thread(read_stated_count, fetched.body)
        else:
            count = read_stated_count(fetched.body)
        return Claim(site_id, "list", name_list(page.url), count, named, limit)

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        claims = [(page, claim) for page, claim in map(_claim_of, pages) if claim is not None]
        if claims:
            try:
                retry_transaction(lambda: self._store_claims(claims))
                limits = {page.crawl_id: claim.fruitless for page, claim in claims}
                with self.host.engine.connect() as connection:
                    return self._sterile.cut_links(connection, pages, limits)
            except SQLAlchemyError as error:
                # Pages are worth more than their evidence.
                log.warning("what pages say of the shop's size was lost", error=str(error)[:200])
        return pages

    def _store_claims(self, claims: Sequence[tuple[PageResult, Claim]]) -> None:
        rows = [
            {
                "crawl_id": page.crawl_id,
                "page_id": page.page_id,
                "site_id": claim.site_id,
                "kind": claim.kind,
                "list_url": claim.list_url,
                "claimed": claim.claimed,
                "named": claim.named,
            }
            for page, claim in sorted(claims, key=lambda pair: pair[0].page_id)
        ]
        with self.host.engine.begin() as connection:
            store.add_claims(connection, rows)
            for page, claim in claims:
                if claim.entries:
                    store.add_entries(connection, claim.site_id, page.crawl_id, claim.entries)


def _claim_of(page: PageResult) -> tuple[PageResult, Claim | None]:
    claim = page.extras.get(NAME)
    return page, claim if isinstance(claim, Claim) else None


def _count_products(links: Sequence[Link]) -> int:
    return sum(link.kind is Kind.PRODUCT for link in links)


def _read_sitemap(site_id: int, page: LeasedPage, extracted: Extracted, limit: int) -> Claim:
    entries = [
        {"fingerprint": fingerprint(url), "lastmod": lastmod} for url, lastmod in extracted.named
    ]
    return Claim(site_id, "sitemap", page.url, len(entries), len(entries), limit, entries)
