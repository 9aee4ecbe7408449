"""Settled pages on their way into PostgreSQL: a group in one transaction, and what is to be sent
after its commit.

The statements are `scraper.results.transaction`'s. Here: a filter's new links before them, the page
that PostgreSQL rejects found by halving and settled as crashed, and what leaves the frontier
remembered afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError

from scraper.coordinator.discover import dispatch_message
from scraper.coordinator.finish import finish_message
from scraper.crawl.context import CrawlContexts
from scraper.domain import Message, Outcome, Status, Verdict
from scraper.infra import outages
from scraper.infra.database import retry_transaction
from scraper.plugin import WorkerPart
from scraper.results.transaction import PageResult, StoredGroup, settle_pages
from scraper.worker.telemetry import Telemetry

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Settler:
    """Belongs to its writer's thread, but for being made. `worker` names this process; `wants_work`
    says whether it has little to do, so that links it has stored are asked for at once; others wait
    for the next tick."""

    engine: sa.Engine
    worker: str
    contexts: CrawlContexts
    parts: Sequence[WorkerPart]
    telemetry: Telemetry
    send: Callable[[Sequence[Message]], None]
    wants_work: Callable[[], bool]

    def store(self, pages: Sequence[PageResult]) -> None:
        """Commits a group. A page that PostgreSQL rejects is found by halving and settled as
        crashed, alone."""
        try:
            stored = retry_transaction(lambda: self._settle(pages))
        except (DataError, IntegrityError, ProgrammingError) as error:
            if outages.is_schema_missing(error):
                raise  # no page's fault
            if len(pages) > 1:
                middle = len(pages) // 2
                self.store(pages[:middle])
                self.store(pages[middle:])
                return
            log.error(
                "page rejected by the database",
                page=pages[0].page_id,
                error=str(error.orig)[:500],
            )
            crashed = [_crashed(pages[0], error)]
            stored = retry_transaction(lambda: self._settle(crashed))
        messages = [finish_message(crawl_id) for crawl_id in stored.drained]
        if stored.added and self.wants_work():
            messages.append(dispatch_message())
        outages.postgres().record_answer()
        if messages:
            self.send(messages)

    def _settle(self, pages: Sequence[PageResult]) -> StoredGroup:
        crawl_ids = {page.crawl_id for page in pages}
        limits = {crawl_id: self.contexts.limits_of(crawl_id) for crawl_id in crawl_ids}
        for part in self.parts:
            pages = part.before_settling(pages)
        with self.telemetry.store(pages), self.engine.begin() as connection:
            stored = settle_pages(connection, pages, limits, self.worker)
        for part in self.parts:
            part.after_settling(stored)
        return stored


def _crashed(page: PageResult, error: DataError | IntegrityError | ProgrammingError) -> PageResult:
    return PageResult(
        page.page_id,
        page.crawl_id,
        page.lease_id,
        Outcome.CRASHED,
        Verdict(Status.DEAD, 0.0, charged=True),
        page.http_status,
        f"the database rejects what was extracted: {type(error.orig).__name__}",
        cost=page.cost,
    )
