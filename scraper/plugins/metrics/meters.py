"""A worker process's own metrics for Prometheus: pages by outcome, and how long fetching and
storing take.

They count from the process's start, and end with it. The state of crawls, queues and hosts is in
PostgreSQL and Redis, and is exported once for the whole fleet (`scraper.plugins.metrics.exporter`).
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scraper.crawl.isolation import isolated
from scraper.domain import Outcome
from scraper.process import dropped_messages
from scraper.worker.host import WorkerHost

FETCH_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45)
BATCH_S = (0.5, 1, 2.5, 5, 10, 15, 30, 60, 120)
STORE_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class WorkerMeters:
    """The meters of a process. Labelled children are cached, since `labels()` takes 1.2 us and
    counting 0.3."""

    def __init__(self) -> None:
        # Each counter would have another series, which Prometheus does not use.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._pages = Counter(
            "scraper_worker_pages",
            "Pages settled by this process, by outcome, including those of a lost lease",
            ["site", "queue", "outcome"],
            registry=registry,
        )
        self._fetch = Histogram(
            "scraper_worker_fetch_seconds",
            "From a request's permit to the whole answer or the failure; for a page with "
            "redirects, the last request",
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
        self._page_counters: dict[tuple[str, str, Outcome], Counter] = {}
        self._fetch_histograms: dict[str, Histogram] = {}

    def watch(self, host: WorkerHost) -> None:
        """Also exports the state of the worker and its plug-ins."""
        self.registry.register(_WorkerCollector(host))

    def count_page(self, site: str, queue: str, outcome: Outcome) -> None:
        key = (site, queue, outcome)
        counter = self._page_counters.get(key)
        if counter is None:
            counter = self._page_counters[key] = self._pages.labels(site, queue, outcome.value)
        counter.inc()

    def count_fetch(self, queue: str, seconds: float) -> None:
        histogram = self._fetch_histograms.get(queue)
        if histogram is None:
            histogram = self._fetch_histograms[queue] = self._fetch.labels(queue)
        histogram.observe(seconds)

    def count_batch(self, queue: str, seconds: float) -> None:
        self._batch.labels(queue).observe(seconds)

    def count_group(self, pages: int, seconds: float) -> None:
        self._store.observe(seconds)
        self._stored.inc(pages)


class _WorkerCollector(Collector):
    """Reads counters of other modules at each scrape."""

    def __init__(self, host: WorkerHost) -> None:
        self._host = host

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "scraper_worker_batches",
            "Batches under way in this process",
            self._host.count_batches(),
        )
        yield GaugeMetricFamily(
            "scraper_worker_loop_silent_seconds",
            "Since the event loop last turned",
            self._host.loop_silent_s(),
        )
        yield CounterMetricFamily(
            "scraper_worker_dropped_messages",
            "Messages of the broker that this program did not send",
            dropped_messages.total,
        )
        for name, part in self._host.parts.items():
            with isolated(name, "collect_metrics"):
                yield from list(part.collect_metrics())
