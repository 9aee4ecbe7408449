"""The plug-in `metrics` in a worker: Prometheus meters if a port is set, and OpenTelemetry spans if
the environment configures them."""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import UUID

from scraper.domain import Lease, LeasedPage, Outcome
from scraper.plugin import WorkerPart
from scraper.plugins.metrics.settings import MetricsSettings
from scraper.plugins.metrics.tracing import Tracing, make_tracing
from scraper.worker.host import WorkerHost
from scraper.worker.telemetry import NOTHING, Observer

if TYPE_CHECKING:
    from scraper.plugins.metrics.endpoint import MetricsServer
    from scraper.plugins.metrics.meters import WorkerMeters


class MetricsPart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self._server: MetricsServer | None = None
        self.tracing = make_tracing(host.name)
        meters = self._serve_meters()
        if meters is not None or self.tracing is not None:
            self.observer = WorkerObserver(meters, self.tracing)

    def _serve_meters(self) -> WorkerMeters | None:
        settings = self.host.settings
        if settings.of(MetricsSettings).metrics_port is None:
            return None
        # prometheus_client is imported only if a port is set.
        from scraper.plugins.metrics import endpoint
        from scraper.plugins.metrics.meters import WorkerMeters

        meters = WorkerMeters()
        meters.watch(self.host)
        self._server = endpoint.serve_worker(settings, meters.registry)
        return meters

    async def aclose(self, within_s: float) -> None:
        if self._server is not None:
            self._server.close()
        if self.tracing is not None:
            self.tracing.close()


class WorkerObserver(Observer):
    """Counts for Prometheus, and opens spans; either may be absent."""

    def __init__(self, meters: WorkerMeters | None, tracing: Tracing | None) -> None:
        self._meters, self._tracing = meters, tracing

    def batch(self, lease: Lease) -> AbstractContextManager[None]:
        return self._tracing.batch(lease) if self._tracing else NOTHING

    def fetch(self, page: LeasedPage) -> AbstractContextManager[None]:
        return self._tracing.fetch(page) if self._tracing else NOTHING

    def extract(self, page: LeasedPage) -> AbstractContextManager[None]:
        return self._tracing.extract(page) if self._tracing else NOTHING

    def store(self, pages: int, leases: Set[UUID]) -> AbstractContextManager[None]:
        return self._tracing.store(pages, leases) if self._tracing else NOTHING

    def count_batch(self, queue: str, seconds: float) -> None:
        if self._meters:
            self._meters.count_batch(queue, seconds)

    def count_page(self, site: str, queue: str, outcome: Outcome) -> None:
        if self._meters:
            self._meters.count_page(site, queue, outcome)

    def count_fetch(self, queue: str, seconds: float) -> None:
        if self._meters:
            self._meters.count_fetch(queue, seconds)

    def count_group(self, pages: int, seconds: float) -> None:
        if self._meters:
            self._meters.count_group(pages, seconds)
