"""Stores groups of settled pages in PostgreSQL, each in one transaction, and sends messages after
the commit.

`scraper.results.transaction` has the statements. This module calls the plug-ins before and after
them, and finds a page that PostgreSQL rejects by halving the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from scraper.coordinator.discover import dispatch_message
from scraper.coordinator.finish import finish_message
from scraper.crawl.context import CrawlContexts
from scraper.crawl.isolation import isolated
from scraper.domain import Message, Outcome, Status, Verdict
from scraper.infra import database, outages
from scraper.infra.database import retry_transaction
from scraper.plugin import WorkerPart
from scraper.results.transaction import PageResult, StoredGroup, settle_pages
from scraper.worker.telemetry import Telemetry

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Settler:
    """Stores groups, in the writer's thread. `worker` is this process's name. If `wants_work` is
    true the process has little to do, and requests a dispatch of the pages it has just stored;
    otherwise they wait for the next tick."""

    engine: sa.Engine
    worker: str
    contexts: CrawlContexts
    parts: Mapping[str, WorkerPart]
    telemetry: Telemetry
    send: Callable[[Sequence[Message]], None]
    wants_work: Callable[[], bool]

    def store(self, pages: Sequence[PageResult]) -> None:
        """Commits a group. Finds a page that PostgreSQL rejects by halving, and settles it as
        crashed."""
        try:
            stored = retry_transaction(lambda: self._settle_group(pages))
        except DBAPIError as error:
            if not outages.is_data_rejected(error):
                # No page is at fault.
                raise
            if len(pages) > 1:
                middle = len(pages) // 2
                self.store(pages[:middle])
                self.store(pages[middle:])
                return
            log.error(
                "page rejected by the database", page=pages[0].page_id, error=str(error.orig)[:500]
            )
            crashed = [_make_crashed_result(pages[0], error)]
            stored = retry_transaction(lambda: self._settle_group(crashed))
        for name, part in self.parts.items():
            # The pages are committed: to store them again would be refused.
            with isolated(name, "after_settling"):
                part.after_settling(stored)
        messages = [finish_message(crawl_id) for crawl_id in stored.drained]
        if stored.added and self.wants_work():
            messages.append(dispatch_message())
        outages.postgres().record_answer()
        outages.storage().record_answer()
        if messages:
            self.send(messages)

    def _settle_group(self, pages: Sequence[PageResult]) -> StoredGroup:
        crawl_ids = {page.crawl_id for page in pages}
        limits = {crawl_id: self.contexts.limits_of(crawl_id) for crawl_id in crawl_ids}
        for name, part in self.parts.items():
            # The caller tries again later.
            with isolated(name, "before_settling", _may_pass):
                pages = part.before_settling(pages)
        with self.telemetry.store(pages), self.engine.begin() as connection:
            return settle_pages(connection, pages, limits, self.worker)


def _may_pass(error: Exception) -> bool:
    """Returns whether the same statements of a plug-in may succeed later."""
    return outages.is_postgres_away(error) or database.is_lock_lost(error)


def _make_crashed_result(page: PageResult, error: DBAPIError) -> PageResult:
    return PageResult(
        page_id=page.page_id,
        crawl_id=page.crawl_id,
        lease_id=page.lease_id,
        outcome=Outcome.CRASHED,
        verdict=Verdict(Status.DEAD, 0.0, charged=True),
        http_status=page.http_status,
        error=f"the database rejects what was extracted: {type(error.orig).__name__}",
        cost=page.cost,
    )
