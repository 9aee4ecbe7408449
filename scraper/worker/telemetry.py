"""What a worker process tells of its work: one log event a batch and one a failure, counters,
spans. Decides nothing.

Called for each page, so what is switched off costs a call and no more: no address is cleaned, no
text put together.
"""

from __future__ import annotations

import asyncio
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
# A batch's event names so many hosts; it counts all.
NAMES_MAX = 10


NOTHING: AbstractContextManager[None] = nullcontext()


class Observer:
    """What looks on while a worker works: meters, spans. Every method is optional, and called for
    each page or batch."""

    def batch(self, lease: Lease) -> AbstractContextManager[None]:
        """Around a batch, until its last page is stored."""
        return NOTHING

    def fetch(self, page: LeasedPage) -> AbstractContextManager[None]:
        return NOTHING

    def extract(self, page: LeasedPage) -> AbstractContextManager[None]:
        return NOTHING

    def store(self, pages: int, leases: Set[UUID]) -> AbstractContextManager[None]:
        """Around the transaction that stores a group, in the writer's thread."""
        return NOTHING

    def count_batch(self, queue: str, seconds: float) -> None: ...

    def count_page(self, site: str, queue: str, outcome: Outcome) -> None: ...

    def count_fetch(self, queue: str, seconds: float) -> None:
        """Counts the last request of a page, from its permit on."""

    def count_group(self, pages: int, seconds: float) -> None: ...


class Telemetry:
    """One a process, used on its loop, but for `store`. Without observers it only logs."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = observers

    @contextmanager
    def batch(self, batch: Batch) -> Iterator[None]:
        """Around a batch, until its last page is stored."""
        loop = asyncio.get_running_loop()
        began, lease = loop.time(), batch.lease
        try:
            with self._all(observer.batch(lease) for observer in self._observers):
                yield
        finally:
            seconds = loop.time() - began
            for observer in self._observers:
                observer.count_batch(lease.queue, seconds)
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
        for observer in self._observers:
            observer.count_page(site, lease.queue, outcome)
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
        if not self._observers:
            return NOTHING
        span = self._all(observer.fetch(page) for observer in self._observers)
        return _Fetch(self._observers, span, batch.lease.queue, permits)

    def extract(self, page: LeasedPage) -> AbstractContextManager[None]:
        return self._all(observer.extract(page) for observer in self._observers)

    @contextmanager
    def store(self, pages: Sequence[PageResult]) -> Iterator[None]:
        """Around the transaction that stores a group, in the writer's thread."""
        began = time.monotonic()
        leases = {page.lease_id for page in pages}
        with self._all(observer.store(len(pages), leases) for observer in self._observers):
            yield
        for observer in self._observers:
            observer.count_group(len(pages), time.monotonic() - began)

    def _all(self, spans: Iterable[AbstractContextManager[None]]) -> AbstractContextManager[None]:
        """One context of the observers' own; of a single one, that itself."""
        if not self._observers:
            return NOTHING
        if len(self._observers) == 1:
            return next(iter(spans))
        return _entered(tuple(spans))


@contextmanager
def _entered(spans: Sequence[AbstractContextManager[None]]) -> Iterator[None]:
    with ExitStack() as stack:
        for span in spans:
            stack.enter_context(span)
        yield


class _Fetch:
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
        asked = began and not isinstance(error, (DeferredError, asyncio.CancelledError))
        if asked:
            seconds = asyncio.get_running_loop().time() - began
            for observer in self._observers:
                observer.count_fetch(self._queue, seconds)
        self._span.__exit__(kind, error, trace)
