"""The plug-in in a worker: reads the cards of planned sites' listings and the dates of their
sitemaps, and stores them before their pages are settled, with what requests use."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.context import CrawlContext
from scraper.domain import Extracted, Fetched, Kind, LeasedPage, Revisit, Status
from scraper.extract.bounds import ReadElsewhere, TooSlow
from scraper.extract.document import Document
from scraper.extract.heuristics.cards import LIMITS, read_cards
from scraper.infra.database import run_transaction
from scraper.plugin import WorkerPart
from scraper.plugins.freshness import revisits, signals, traffic
from scraper.plugins.freshness.hooks import PlannedCrawl
from scraper.plugins.freshness.revisits import Intervals
from scraper.results.transaction import PageResult
from scraper.rules.revisit import Bounds
from scraper.rules.urls import fingerprint
from scraper.worker.batch import Attempt, Batch
from scraper.worker.host import WorkerHost

log = structlog.get_logger()
NAME = "freshness"
MEAN_RATE_S = 3600.0
# A 304 has the length of the body that it does not send (RFC 9110, 8.6).
_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class PageSignals:
    """The cards of a listing, or the dates of a sitemap, as rows to store. `bytes` is the size of
    the response, None if unknown; `measured`: it counts. With
    `bounds`, the page's own interval is learned."""

    site_id: int
    kind: Kind
    bytes: int | None = None
    measured: bool = False
    bounds: Bounds | None = None
    cards: Sequence[dict[str, Any]] = ()
    dates: Sequence[dict[str, Any]] = ()


class FreshnessPart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        # When each site's mean rate was read.
        self._mean_rates: dict[int, tuple[float, float | None]] = {}

    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> PageSignals | None:
        extracted, planned = attempt.extracted, cast(PlannedCrawl, context.extras[NAME])
        size = _read_size(fetched) if planned.measured else None
        kept = PageSignals(planned.site_id, page.kind, size, planned.measured, planned.bounds)
        if planned.bounds is not None:
            return kept if page.kind is Kind.PRODUCT else None
        if page.kind is Kind.PRODUCT or extracted is None:
            return kept if planned.measured else None
        if page.kind is Kind.SITEMAP:
            return replace(kept, dates=await asyncio.to_thread(_date_rows, extracted))
        products = {link.url for link in extracted.links if link.kind is Kind.PRODUCT}
        if not products or context.extractor.reads_interface(page.url):
            return kept if planned.measured else None
        rows = await asyncio.to_thread(_card_rows, page, context, fetched, products)
        return replace(kept, cards=rows)

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        return self._set_intervals(self._keep_signals(pages))

    def _keep_signals(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        listed = [kept for page in pages if isinstance(kept := page.extras.get(NAME), PageSignals)]
        listed = [kept for kept in listed if kept.bounds is None]
        used = [row for page in pages for row in _traffic_rows(page)]
        if listed:
            try:
                run_transaction(
                    self.host.engine, lambda connection: _store_signals(connection, listed, used)
                )
            except SQLAlchemyError as error:
                # Pages are worth more than what hints at their changes.
                log.warning("cards and dates were lost", error=str(error)[:200])
        return pages

    def _set_intervals(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        """Returns the results with each page's own interval."""
        bounds = {page.page_id: limits for page in pages if (limits := _bounds_of(page))}
        if not bounds:
            return pages
        try:
            intervals = run_transaction(
                self.host.engine, lambda connection: self._plan_intervals(connection, bounds)
            )
        except SQLAlchemyError as error:
            # These pages rest for the shortest time.
            log.warning("intervals were not learned", error=str(error)[:200])
            return pages
        return [
            replace(page, revisit=replace(page.revisit or Revisit(), **planned._asdict()))
            if (planned := intervals.get(page.page_id))
            else page
            for page in pages
        ]

    def _plan_intervals(
        self, connection: sa.Connection, bounds: Mapping[int, Bounds]
    ) -> dict[int, Intervals]:
        return revisits.plan_intervals(connection, bounds, partial(self._mean_rate, connection))

    def _mean_rate(self, connection: sa.Connection, site_id: int) -> float | None:
        """Returns the mean rate of changes of a site's pages, as of the last hour."""
        read_at, rate = self._mean_rates.get(site_id, (-math.inf, None))
        if time.monotonic() - read_at > MEAN_RATE_S:
            rate = revisits.read_mean_rate(connection, site_id)
            self._mean_rates[site_id] = (time.monotonic(), rate)
        return rate


def _store_signals(
    connection: sa.Connection, listed: Sequence[PageSignals], used: Sequence[dict[str, Any]]
) -> None:
    cards: dict[int, list[dict[str, Any]]] = {}
    dates: dict[int, list[dict[str, Any]]] = {}
    for kept in listed:
        cards.setdefault(kept.site_id, []).extend(kept.cards)
        dates.setdefault(kept.site_id, []).extend(kept.dates)
    traffic.add_requests(connection, used)
    for site_id, rows in sorted(cards.items()):
        signals.store_cards(connection, site_id, rows)
        signals.store_dates(connection, site_id, dates[site_id])


def _read_size(fetched: Fetched) -> int | None:
    """Returns how long a body was as it came, or if the server does not say so, unpacked; with a
    browser, all that came. None: it was as last time, and not unpacked."""
    if fetched.wire_bytes is not None:
        return fetched.wire_bytes
    length = fetched.headers.get("content-length", "")
    if length.isdecimal() and len(length) <= 15 and fetched.status != _NOT_MODIFIED:
        return int(length)
    return None if fetched.same else len(fetched.body)


def _bounds_of(page: PageResult) -> Bounds | None:
    kept = page.extras.get(NAME)
    good = page.verdict.status in (Status.OK, Status.UNCHANGED)
    return kept.bounds if good and isinstance(kept, PageSignals) else None


def _traffic_rows(page: PageResult) -> Iterator[dict[str, Any]]:
    kept = page.extras.get(NAME)
    if isinstance(kept, PageSignals) and kept.measured:
        yield {
            "site_id": kept.site_id,
            "product": kept.kind is Kind.PRODUCT,
            "proxied": page.cost is not None and page.cost.proxy != "",
            "bytes": kept.bytes,
        }


def _date_rows(extracted: Extracted) -> list[dict[str, Any]]:
    return [
        {"fingerprint": fingerprint(url), "lastmod": lastmod}
        for url, lastmod in extracted.named
        if lastmod is not None
    ]


def _card_rows(
    page: LeasedPage, context: CrawlContext, fetched: Fetched, products: set[str]
) -> list[dict[str, Any]]:
    try:
        document = Document(fetched, page.url, LIMITS)
        cards = read_cards(document, products, context.site.product_url_rules)
    except (ReadElsewhere, TooSlow):
        return []
    return [
        {"fingerprint": fingerprint(url), "prices": card.prices, "available": card.available}
        for url, card in cards.items()
    ]
