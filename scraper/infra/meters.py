"""What a worker process measures of itself, for Prometheus: pages by outcome, how long fetching and
storing take.

It counts what this process did, from its start on, and it is gone with the process. What is true of
crawls, queues and hosts is in PostgreSQL and Redis, and is exported once for the whole fleet
(`scraper.exporter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from scraper.domain import Outcome

FETCH_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45)
BATCH_S = (0.5, 1, 2.5, 5, 10, 15, 30, 60, 120)
STORE_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class WorkerMeters:
    """One a process. Children are kept by their labels: finding one anew costs more than counting
    (1.2 us against 0.3)."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a series more for each, of which Prometheus makes nothing
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._pages = Counter(
            "scraper_worker_pages",
            "Pages settled by this process, by what happened; those of a lost lease included",
            ["site", "queue", "outcome"],
            registry=registry,
        )
        self._fetch = Histogram(
            "scraper_worker_fetch_seconds",
            "From a request's turn to the whole answer, or to its failure; of a page with redirects, the last request",
            ["queue"],
            buckets=FETCH_S,
            registry=registry,
        )
        self._batch = Histogram(
            "scraper_worker_batch_seconds",
            "From a batch's claim until its last page is stored",
            ["queue"],
            buckets=BATCH_S,
            registry=registry,
        )
        self._store = Histogram(
            "scraper_worker_store_seconds",
            "One transaction that stores settled pages",
            buckets=STORE_S,
            registry=registry,
        )
        self._stored = Counter(
            "scraper_worker_stored_pages", "Pages in those transactions", registry=registry
        )
        self._under_way = Gauge(
            "scraper_worker_batches", "Batches under way in this process", registry=registry
        )
        self._silent = Gauge(
            "scraper_worker_loop_silent_seconds",
            "Since the event loop last turned",
            registry=registry,
        )
        self._of_pages: dict[tuple[str, str, Outcome], Counter] = {}
        self._of_fetches: dict[str, Histogram] = {}

    def watch(
        self,
        *,
        batches: Callable[[], float],
        silent_s: Callable[[], float],
        archived: Callable[[], tuple[int, int]],
    ) -> None:
        """What is read when somebody asks, from the thread that answers."""
        self._under_way.set_function(batches)
        self._silent.set_function(silent_s)
        self.registry.register(_Archived(archived))

    def page(self, site: str, queue: str, outcome: Outcome) -> None:
        key = (site, queue, outcome)
        child = self._of_pages.get(key)
        if child is None:
            child = self._of_pages[key] = self._pages.labels(site, queue, outcome.value)
        child.inc()

    def fetch(self, queue: str, seconds: float) -> None:
        child = self._of_fetches.get(queue)
        if child is None:
            child = self._of_fetches[queue] = self._fetch.labels(queue)
        child.observe(seconds)

    def batch(self, queue: str, seconds: float) -> None:
        self._batch.labels(queue).observe(seconds)

    def group(self, pages: int, seconds: float) -> None:
        self._store.observe(seconds)
        self._stored.inc(pages)


class _Archived(Collector):
    """Counted where it happens, read when somebody asks."""

    def __init__(self, archived: Callable[[], tuple[int, int]]) -> None:
        self._archived = archived

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "scraper_worker_archived_pages",
            "Good answers of sites with `archive`, by whether they could be kept",
            labels=["result"],
        )
        for result, pages in zip(("stored", "lost"), self._archived(), strict=True):
            family.add_metric([result], pages)
        yield family
