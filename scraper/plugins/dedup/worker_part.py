"""The plug-in `dedup` in a worker: moves finished pages from the frontier to a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, Kind, LeasedPage, Status
from scraper.plugin import WorkerPart
from scraper.plugins.dedup.bloom import BloomFilter
from scraper.plugins.dedup.remembered_links import (
    FilterUse,
    FinishedPage,
    RememberedLinks,
    filter_use,
)
from scraper.results.transaction import PageResult, StoredGroup
from scraper.rules.urls import fingerprint
from scraper.worker.batch import Attempt, Batch
from scraper.worker.host import WorkerHost

NAME = "dedup"


class DedupPart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self.links = RememberedLinks(host.settings)

    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> FilterUse | None:
        if attempt.extracted is None:
            return None
        remembered = fingerprint(page.url) if page.kind is Kind.PRODUCT else None
        return FilterUse(cast(BloomFilter, context.extras[NAME]), remembered)

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        return self.links.drop_remembered(pages)

    def after_settling(self, stored: StoredGroup) -> None:
        self.links.remember_pages(self.host.engine, finished_pages(stored))

    async def aclose(self, within_s: float) -> None:
        self.links.close()


def finished_pages(stored: StoredGroup) -> list[FinishedPage]:
    """Returns the pages of a committed group whose rows may be deleted."""
    return [
        FinishedPage(use.filter, page.page_id, use.fingerprint)
        for page, status in stored.kept
        if (use := filter_use(page)) is not None
        and use.fingerprint is not None
        and status in (Status.OK, Status.UNCHANGED)
    ]
