"""The plug-in in a worker: keeps what listings, sitemaps and interfaces say of the number of
products, and stores it before their pages are settled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.context import CrawlContext
from scraper.domain import Extracted, Fetched, Kind, LeasedPage, Link
from scraper.infra.database import dumps, run_transaction
from scraper.plugin import WorkerPart
from scraper.plugins.coverage import store
from scraper.plugins.coverage.hooks import CountedCrawl
from scraper.plugins.coverage.one_address import join_addresses
from scraper.plugins.coverage.stated_counts import (
    name_list,
    read_interface_count,
    read_stated_count,
)
from scraper.plugins.coverage.sterile_lists import SterileLists
from scraper.results.transaction import PageResult, StoredGroup
from scraper.rules.urls import fingerprint
from scraper.worker.batch import Attempt, Batch
from scraper.worker.host import WorkerHost

log = structlog.get_logger()
NAME = "coverage"
# Larger pages are searched in a thread.
INLINE_MAX_BYTES = 50_000


@dataclass(frozen=True, slots=True)
class Claim:
    """What a page says. `fruitless`: the limit of its crawl. `ids`: the ids of linked addresses, at
    a site that reads each product at one. `entries`: the products of a sitemap with their
    `lastmod`."""

    site_id: int
    kind: str
    list_url: str
    claimed: int | None
    named: int
    fruitless: int
    ids: Mapping[str, str]
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
    ) -> Claim | bool | None:
        extracted = attempt.extracted
        if extracted is None:
            return None
        if page.kind is Kind.PRODUCT:
            return True
        crawl = cast(CountedCrawl, context.extras[NAME])
        site_id = crawl.site_id
        limit = context.site.limits.fruitless
        if page.kind is Kind.SITEMAP:
            return await asyncio.to_thread(_read_sitemap, crawl, page, extracted, limit)
        ids = _read_ids(crawl, (link.url for link in extracted.links))
        named = len(extracted.products) + _count_products(extracted.links)
        if context.extractor.reads_interface(page.url):
            count = read_interface_count(dict(fetched.headers), fetched.body)
            return Claim(site_id, "platform", name_list(page.url), count, named, limit, ids)
        if len(fetched.body) > INLINE_MAX_BYTES:
            count = await asyncio.to_thread(read_stated_count, fetched.body)
        else:
            count = read_stated_count(fetched.body)
        return Claim(site_id, "list", name_list(page.url), count, named, limit, ids)

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        claims = [(page, claim) for page, claim in map(_claim_of, pages) if claim is not None]
        if claims:
            try:
                run_transaction(
                    self.host.engine, lambda connection: _store_claims(connection, claims)
                )
                limits = {page.crawl_id: claim.fruitless for page, claim in claims}
                if any(claim.ids for _, claim in claims):
                    pages = run_transaction(
                        self.host.engine, lambda connection: _join_addresses(connection, pages)
                    )
                with self.host.engine.connect() as connection:
                    return self._sterile.cut_links(connection, pages, limits)
            except SQLAlchemyError as error:
                # Pages are worth more than their evidence.
                log.warning("what pages say of the shop's size was lost", error=str(error)[:200])
        return pages

    def after_settling(self, stored: StoredGroup) -> None:
        rows = [
            {
                "page_id": page.page_id,
                "crawl_id": page.crawl_id,
                "site_id": product.site_id,
                "external_id": product.external_id,
            }
            for page, _ in stored.kept
            if NAME in page.extras
            for product in page.products
        ]
        if rows:
            try:
                run_transaction(
                    self.host.engine, lambda connection: _add_repeated(connection, rows)
                )
            except SQLAlchemyError as error:
                log.warning("the number of repeated pages was lost", error=str(error)[:200])


def _add_repeated(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    connection.execute(store.ADD_REPEATED, {"rows": dumps(rows)})


def _store_claims(connection: sa.Connection, claims: Sequence[tuple[PageResult, Claim]]) -> None:
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
    store.add_claims(connection, rows)
    for page, claim in claims:
        if claim.entries:
            store.add_entries(connection, claim.site_id, page.crawl_id, claim.entries)


def _join_addresses(connection: sa.Connection, pages: Sequence[PageResult]) -> Sequence[PageResult]:
    return [
        join_addresses(connection, page, claim.ids) if claim and claim.ids else page
        for page, claim in map(_claim_of, pages)
    ]


def _claim_of(page: PageResult) -> tuple[PageResult, Claim | None]:
    claim = page.extras.get(NAME)
    return page, claim if isinstance(claim, Claim) else None


def _count_products(links: Sequence[Link]) -> int:
    return sum(link.kind is Kind.PRODUCT for link in links)


def _read_ids(crawl: CountedCrawl, addresses: Iterable[str]) -> dict[str, str]:
    if crawl.id_of is None:
        return {}
    try:
        return {url: key for url in addresses if (key := crawl.id_of(url)) is not None}
    except TimeoutError:
        return {}


def _read_sitemap(crawl: CountedCrawl, page: LeasedPage, extracted: Extracted, limit: int) -> Claim:
    entries = [
        {"fingerprint": fingerprint(url), "lastmod": lastmod} for url, lastmod in extracted.named
    ]
    ids = _read_ids(crawl, (url for url, _ in extracted.named))
    count = len({ids.get(url, url) for url, _ in extracted.named})
    return Claim(crawl.site_id, "sitemap", page.url, count, count, limit, ids, entries)
