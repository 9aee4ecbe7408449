"""The plug-in `archive` in a worker: spools a batch's good answers, and writes them as one segment
at the batch's end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, LeasedPage, Outcome, Status
from scraper.plugin import WorkerPart
from scraper.plugins.archive.keys import ArchiveUse
from scraper.plugins.archive.rows import SpooledPage
from scraper.plugins.archive.spool import Archive, Spool
from scraper.results.transaction import StoredGroup
from scraper.worker.batch import Attempt, Batch
from scraper.worker.host import WorkerHost

if TYPE_CHECKING:
    from prometheus_client import Metric

NAME = "archive"


class ArchivePart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self._archive = Archive(host.engine, host.settings)

    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> SpooledPage | None:
        use = cast(ArchiveUse, context.extras[NAME])
        if attempt.outcome is not Outcome.FETCHED or not use.wants(page.kind):
            return None
        spool = batch.extras.get(NAME) or self._archive.open_spool()
        if spool is None:
            return None
        batch.extras[NAME] = spool
        return await self._archive.add(spool, page, fetched, context.site_id, use)

    def after_settling(self, stored: StoredGroup) -> None:
        confirm_archived(stored)

    async def end_batch(self, batch: Batch) -> None:
        spool: Spool | None = batch.extras.get(NAME)
        if spool is not None:
            await self._archive.finish(spool)

    def collect_metrics(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily

        archived = CounterMetricFamily(
            "scraper_worker_archived_pages",
            "Good answers of sites with `archive`, by whether they could be kept",
            labels=["result"],
        )
        archived.add_metric(["stored"], self._archive.stored)
        archived.add_metric(["lost"], self._archive.lost)
        yield archived

    async def aclose(self, within_s: float) -> None:
        self._archive.close()


def confirm_archived(stored: StoredGroup) -> None:
    """Marks the answers to keep of a committed group, with their content hashes."""
    for page, status in stored.kept:
        spooled = page.extras.get(NAME)
        if isinstance(spooled, SpooledPage) and (status is Status.OK or not spooled.changed_only):
            spooled.fetched_at, spooled.content_hash = stored.at, page.content_hash
