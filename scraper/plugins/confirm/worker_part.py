"""The plug-in in a worker: reads the cards of listings that a crawl requests again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, Kind, LeasedPage
from scraper.extract.bounds import ReadElsewhere, TooSlow
from scraper.extract.document import Document
from scraper.extract.heuristics.cards import LIMITS, read_cards
from scraper.infra.database import run_transaction
from scraper.plugin import WorkerPart
from scraper.plugins.confirm import cards
from scraper.plugins.confirm.cards import DoubtingCrawl
from scraper.results.transaction import PageResult
from scraper.rules.urls import fingerprint
from scraper.worker.batch import Attempt, Batch

log = structlog.get_logger()
NAME = "confirm"


class ListingCards(NamedTuple):
    """The cards of a listing, as rows to store."""

    crawl: DoubtingCrawl
    rows: Sequence[dict[str, Any]]


class ConfirmPart(WorkerPart):
    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> ListingCards | None:
        extracted = attempt.extracted
        if not page.again or page.kind is not Kind.LISTING or extracted is None:
            return None
        products = {link.url for link in extracted.links if link.kind is Kind.PRODUCT}
        if not products or context.extractor.reads_interface(page.url):
            return None
        rows = await asyncio.to_thread(_read_rows, page, context, fetched, products)
        return ListingCards(cast(DoubtingCrawl, context.extras[NAME]), rows)

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        listed = [kept for page in pages if isinstance(kept := page.extras.get(NAME), ListingCards)]
        if listed:
            try:
                run_transaction(
                    self.host.engine, lambda connection: _store_cards(connection, listed)
                )
            except SQLAlchemyError as error:
                # Without cards, a doubt stays a doubt.
                log.warning("cards were lost", error=str(error)[:200])
        return pages


def _store_cards(connection: sa.Connection, listed: Sequence[ListingCards]) -> None:
    for crawl, rows in listed:
        cards.store_cards(connection, crawl, rows)


def _read_rows(
    page: LeasedPage, context: CrawlContext, fetched: Fetched, products: set[str]
) -> list[dict[str, Any]]:
    try:
        document = Document(fetched, page.url, LIMITS)
        by_url = read_cards(document, products, context.site.product_url_rules)
    except (ReadElsewhere, TooSlow):
        return []
    return [
        {"fingerprint": fingerprint(url), "prices": card.prices} for url, card in by_url.items()
    ]
