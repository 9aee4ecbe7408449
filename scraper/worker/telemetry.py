"""Reports a worker process's work: one log event per batch and per failure, and whatever plug-ins'
observers count and trace. Decides nothing.

The worker calls this module for each page, so without observers a call does almost nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import TracebackType
from uuid import UUID

import structlog

from scraper.domain import Blame, Lease, LeasedPage, Outcome, Verdict
from scraper.errors import DeferredError
from scraper.politeness.page_permits import PagePermits
from scraper.results.transaction import PageResult
from scraper.worker.batch import Attempt, Batch

log = structlog.get_logger()

FAILURES = frozenset(
    outcome
    for outcome in Outcome
    if outcome.tried and outcome.blame is not Blame.NOBODY and outcome is not Outcome.NOT_FOUND
)
# A batch's log event names this many hosts, and counts all.
NAMES_MAX = 10

NOTHING: AbstractContextManager[None] = nullcontext()


class Observer:
    """Counts and traces a worker's steps. Every method is optional. The context managers last as
    long as the step."""

    def batch(self, lease: Lease) -> AbstractContextManager[None]:
        """Lasts until the batch's last page is stored."""
        return NOTHING

    def fetch(self, page: LeasedPage) -> AbstractContextManager[None]:
        return NOTHING

    def extract(self, page: LeasedPage) -> AbstractContextManager[None]:
        return NOTHING

    def store(self, pages: int, leases: Set[UUID]) -> AbstractContextManager[None]:
        """Lasts as long as the transaction that stores a group, in the writer's thread."""
        return NOTHING

    def count_batch(self, queue: str, seconds: float) -> None: ...

    def count_page(self, site: str, queue: str, outcome: Outcome) -> None: ...

    def count_fetch(self, queue: str, seconds: float) -> None:
        """Counts a page's last request; `seconds` start at its permit."""

    def count_group(self, pages: int, seconds: float) -> None: ...


class Telemetry:
    """Logs, and calls the observers. One a process, used on its loop, except for `store`."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = observers

    @contextmanager
    def batch(self, batch: Batch) -> Iterator[None]:
        """Wraps a batch, until its last page is stored."""
        loop = asyncio.get_running_loop()
        began, lease = loop.time(), batch.lease
        try:
            with self._join_spans(observer.batch(lease) for observer in self._observers):
                yield
        finally:
            seconds = loop.time() - began
            for observer in self._observers:
                observer.count_batch(lease.queue, seconds)
            hosts = sorted({page.host for page in lease.pages})
            sites = {
                context.site.name
                for context in batch.contexts.values()
                if not isinstance(context, Attempt)
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

    def record_page(
        self, batch: Batch, page: LeasedPage, site: str, attempt: Attempt, verdict: Verdict
    ) -> None:
        """Counts a settled page, and logs a failure. Pages that wait or were never requested only
        count in their batch's event."""
        outcome, lease = attempt.outcome, batch.lease
        batch.outcomes[outcome] += 1
        for observer in self._observers:
            observer.count_page(site, lease.queue, outcome)
        if outcome is Outcome.FETCHED or outcome not in FAILURES:
            return
        log.log(
            logging.WARNING if verdict.status.final else logging.INFO,
            "page failed",
            outcome=outcome,
            blame=outcome.blame,
            status=verdict.status,
            http_status=attempt.http_status,
            error=attempt.error,
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
        """Wraps a page's fetch, and measures its last request, from its permit on."""
        if not self._observers:
            return NOTHING
        span = self._join_spans(observer.fetch(page) for observer in self._observers)
        return _FetchSpan(self._observers, span, batch.lease.queue, permits)

    def extract(self, page: LeasedPage) -> AbstractContextManager[None]:
        return self._join_spans(observer.extract(page) for observer in self._observers)

    @contextmanager
    def store(self, pages: Sequence[PageResult]) -> Iterator[None]:
        """Wraps the transaction that stores a group, in the writer's thread."""
        began = time.monotonic()
        leases = {page.lease_id for page in pages}
        with self._join_spans(observer.store(len(pages), leases) for observer in self._observers):
            yield
        for observer in self._observers:
            observer.count_group(len(pages), time.monotonic() - began)

    def _join_spans(
        self, spans: Iterable[AbstractContextManager[None]]
    ) -> AbstractContextManager[None]:
        """Returns one context manager for the observers' spans."""
        if not self._observers:
            return NOTHING
        if len(self._observers) == 1:
            return next(iter(spans))
        return _enter_spans(tuple(spans))


@contextmanager
def _enter_spans(spans: Sequence[AbstractContextManager[None]]) -> Iterator[None]:
    with ExitStack() as stack:
        for span in spans:
            stack.enter_context(span)
        yield


class _FetchSpan:
    """The observers' spans of a fetch; reports the last request's time when it ends."""

    __slots__ = ("_observers", "_permits", "_queue", "_span")

    def __init__(
        self,
        observers: Sequence[Observer],
        span: AbstractContextManager[None],
        queue: str,
        permits: PagePermits,
    ) -> None:
        self._observers, self._span = observers, span
        self._queue, self._permits = queue, permits

    def __enter__(self) -> None:
        self._span.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        began = self._permits.began
        was_sent = began and not isinstance(error, (DeferredError, asyncio.CancelledError))
        if was_sent:
            seconds = asyncio.get_running_loop().time() - began
            for observer in self._observers:
                observer.count_fetch(self._queue, seconds)
        self._span.__exit__(kind, error, trace)
