"""The plug-in in a worker: takes the fields that an interface lacks from its products' pages.

A row of the interface is stored at once, with what earlier pages have said, and a page that may say
more is requested. A page that fails costs its own values alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import sqlalchemy as sa

from scraper.crawl.context import CrawlContext
from scraper.crawl.new_pages import new_pages
from scraper.domain import Fetched, Kind, LeasedPage, Link, Outcome, Status, Verdict
from scraper.extract.listing import LinkFilter
from scraper.infra.database import run_transaction
from scraper.plugin import WorkerPart
from scraper.plugins.platforms import page_values
from scraper.plugins.platforms.page_fields import PageFields, PageValues
from scraper.results.transaction import PageResult
from scraper.worker.batch import Attempt, Batch

NAME = "platforms"
READ = Verdict(Status.OK, 0.0, charged=True)
# A page without a price may have the fields.
READABLE = (Outcome.FETCHED, Outcome.NOT_EXTRACTED, Outcome.DOUBTFUL)


@dataclass(frozen=True, slots=True)
class InterfaceRows:
    """A page of the interface, whose rows are in its result."""

    context: CrawlContext
    fields: PageFields
    depth: int


@dataclass(frozen=True, slots=True)
class ProductPageRead:
    """What a product page says."""

    context: CrawlContext
    fields: PageFields
    values: PageValues


class PlatformsPart(WorkerPart):
    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> InterfaceRows | ProductPageRead | None:
        fields = cast(PageFields, context.extras[NAME])
        if page.kind is Kind.LISTING:
            reads = context.extractor.reads_interface(page.url) and attempt.extracted is not None
            return InterfaceRows(context, fields, page.depth) if reads else None
        if page.kind is not Kind.PRODUCT or attempt.outcome not in READABLE:
            return None
        values = await asyncio.to_thread(fields.read, fetched, page.url)
        return None if values is None else ProductPageRead(context, fields, values)

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        if not any(NAME in page.extras for page in pages):
            return pages
        return run_transaction(
            self.host.engine, lambda connection: _complete_results(connection, pages)
        )


def _complete_results(connection: sa.Connection, pages: Sequence[PageResult]) -> list[PageResult]:
    read = _store_pages(connection, pages)
    return [
        _complete_rows(connection, page, kept)
        if isinstance(kept := page.extras.get(NAME), InterfaceRows)
        else read.get(page.page_id, page)
        for page in pages
    ]


def _complete_rows(connection: sa.Connection, page: PageResult, rows: InterfaceRows) -> PageResult:
    """Returns the interface's result with known values, and with links to the pages of products
    that lack some."""
    fields, context = rows.fields, rows.context
    products = page_values.add_known_values(connection, page.products, fields)
    filtered = LinkFilter(context.site)
    lacking = [
        Link(product.url, Kind.PRODUCT)
        for product in products
        if fields.list_wanted(product.data)
        and filtered.owns_url(product.url)
        and not context.extractor.reads_interface(product.url)
    ]
    links = {link.fingerprint: link for link in new_pages(lacking, context, rows.depth + 1)}
    lately = page_values.read_lately(connection, context.site_id, links, fields.reading)
    wanted = [link for key, link in links.items() if key not in lately]
    keys = [link.fingerprint for link in wanted]
    page_values.forget_readings(connection, context.site_id, page.crawl_id, keys)
    return replace(page, products=products, links=[*page.links, *wanted])


def _store_pages(connection: sa.Connection, pages: Sequence[PageResult]) -> dict[int, PageResult]:
    """Stores what the product pages that an interface has named say. Returns their results, which
    have no products: the interface gives these."""
    read = {
        page.page_id: (page, kept)
        for page in pages
        if page.verdict.status is not Status.GONE
        and isinstance(kept := page.extras.get(NAME), ProductPageRead)
        and (page.outcome is Outcome.FETCHED or not kept.values.is_empty)
    }
    if not read:
        return {}
    naming = page_values.read_naming_pages(connection, list(read))
    of_interface = {
        page_id: read[page_id]
        for page_id, url in naming.items()
        if read[page_id][1].context.extractor.reads_interface(url)
    }
    values = {page_id: (kept.fields, kept.values) for page_id, (_, kept) in of_interface.items()}
    matched = page_values.store_values(connection, values)
    return {
        page_id: _make_read(page, kept.fields, matched=page_id in matched)
        for page_id, (page, kept) in of_interface.items()
    }


def _make_read(page: PageResult, fields: PageFields, *, matched: bool) -> PageResult:
    """Returns the result of a page that was read for some fields. Unless its product is stored, the
    next crawl reads the page again."""
    return replace(
        page,
        outcome=Outcome.FETCHED,
        verdict=READ,
        error=None,
        excerpt=None,
        head=None,
        move=None,
        links=(),
        products=(),
        named=None,
        content_hash=fields.reading if matched else None,
        observations=None,
        revisit=None,
        last_item_count=None,
    )
