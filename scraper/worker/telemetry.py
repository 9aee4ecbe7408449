"""What a worker process tells of its work: one log event a batch and one a failure, counters,
spans. Decides nothing.

Called for each page, so what is switched off costs a call and no more: no address is cleaned, no
text put together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

import structlog

from scraper.domain import Blame, LeasedPage, Outcome, Verdict
from scraper.errors import DeferredError
from scraper.plugins.metrics.tracing import NOTHING, Tracing
from scraper.politeness.page_permits import PagePermits
from scraper.results.transaction import PageResult
from scraper.worker.batch import Attempt, Batch

if TYPE_CHECKING:
    # prometheus_client is imported only where somebody asked for a port.
    from scraper.plugins.metrics.meters import WorkerMeters

log = structlog.get_logger()

FAILURES = frozenset(
    outcome
    for outcome in Outcome
    if outcome.tried and outcome.blame is not Blame.NOBODY and outcome is not Outcome.NOT_FOUND
)
# A batch's event names so many hosts; it counts all.
NAMES_MAX = 10


class Telemetry:
    """One a process, used on its loop, but for `store`. Without meters and spans, nothing is
    counted and no spans are sent."""

    def __init__(self, meters: WorkerMeters | None = None, tracing: Tracing | None = None) -> None:
        self._meters, self._tracing = meters, tracing

    @contextmanager
    def batch(self, batch: Batch) -> Iterator[None]:
        """Around a batch, until its last page is stored."""
        loop = asyncio.get_running_loop()
        began, lease = loop.time(), batch.lease
        try:
            with self._tracing.batch(lease) if self._tracing else NOTHING:
                yield
        finally:
            seconds = loop.time() - began
            if self._meters:
                self._meters.batch(lease.queue, seconds)
            hosts = sorted({page.host for page in lease.pages})
            sites = {
                each.site.name for each in batch.contexts.values() if not isinstance(each, Attempt)
            }
            log.info(
                "batch done" if not batch.unsettled else "batch given up",
                lease=str(lease.id),
                queue=lease.queue,
                kind=lease.kind,
                crawls=sorted({page.crawl_id for page in lease.pages}),
                sites=sorted(sites),
                hosts=hosts[:NAMES_MAX],
                hosts_total=len(hosts),
                pages=len(lease.pages),
                unsettled=batch.unsettled,
                outcomes=dict(batch.outcomes),
                seconds=round(seconds, 2),
            )

    def settled(
        self, batch: Batch, page: LeasedPage, site: str, tried: Attempt, verdict: Verdict
    ) -> None:
        """A page has its verdict. A failure is one event; what waits or was never asked is counted
        in its batch's alone."""
        outcome, lease = tried.outcome, batch.lease
        batch.outcomes[outcome] += 1
        if self._meters:
            self._meters.page(site, lease.queue, outcome)
        if outcome is Outcome.FETCHED or outcome not in FAILURES:
            return
        log.log(
            30 if verdict.status.final else 20,  # logging's WARNING and INFO
            "page failed",
            outcome=outcome,
            blame=outcome.blame,
            status=verdict.status,
            http_status=tried.http_status,
            error=tried.error,
            crawl=page.crawl_id,
            site=site,
            host=page.host,
            page=page.id,
            url=page.url,
            lease=str(lease.id),
            queue=lease.queue,
            again_in_s=None if verdict.status.final else round(verdict.delay_s, 1),
        )

    def fetch(
        self, batch: Batch, page: LeasedPage, permits: PagePermits
    ) -> AbstractContextManager[None]:
        """Around a page's way to its answer. What is measured is the last request alone, from its
        turn on."""
        if self._meters is None and self._tracing is None:
            return NOTHING
        span = self._tracing.fetch(page) if self._tracing else NOTHING
        return _Fetch(self._meters, span, batch.lease.queue, permits)

    def extract(self, page: LeasedPage) -> AbstractContextManager[None]:
        return self._tracing.extract(page) if self._tracing else NOTHING

    @contextmanager
    def store(self, pages: Sequence[PageResult]) -> Iterator[None]:
        """Around the transaction that stores a group, in the writer's thread."""
        began = time.monotonic()
        leases = {page.lease_id for page in pages}
        with self._tracing.store(len(pages), leases) if self._tracing else NOTHING:
            yield
        if self._meters:
            self._meters.group(len(pages), time.monotonic() - began)


class _Fetch:
    __slots__ = ("_meters", "_queue", "_span", "_trip")

    def __init__(
        self,
        meters: WorkerMeters | None,
        span: AbstractContextManager[None],
        queue: str,
        permits: PagePermits,
    ) -> None:
        self._meters, self._span, self._queue, self._trip = meters, span, queue, permits

    def __enter__(self) -> None:
        self._span.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        began = self._trip.began
        asked = began and not isinstance(error, (DeferredError, asyncio.CancelledError))
        if asked and self._meters:
            self._meters.fetch(self._queue, asyncio.get_running_loop().time() - began)
        self._span.__exit__(kind, error, trace)
