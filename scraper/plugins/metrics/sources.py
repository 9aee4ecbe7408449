"""Reads servers for metrics: each in a thread of its own, never twice at once.

Scrapes wait a bounded time. Otherwise a server that hangs would hang the scrape, and Prometheus
would see a dead target instead of `scraper_up 0`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client.core import Metric

log = structlog.get_logger()

# Several scrapes within this time share one reading.
CACHE_S = 5.0
# A reading is valid for this many times as long as it took (3 s: 30 s), so that a server spends at
# most a tenth of its time on them.
SHARE = 10


@dataclass(frozen=True, slots=True)
class SourceReading:
    metrics: Sequence[Metric]
    read_at: float
    took_s: float


class MetricSource:
    """A server with its last reading. `read` returns metrics or raises; only the first of several
    failures in a row is logged."""

    def __init__(self, name: str, read: Callable[[], Sequence[Metric]]) -> None:
        self.name = name
        self._read = read
        self._lock = threading.Lock()
        self._reading: SourceReading | None = None
        self._done = threading.Event()
        self._done.set()
        self._failing = False

    def refresh(self) -> None:
        """Starts a reading, unless one is running or the last one is recent enough."""
        with self._lock:
            fresh = self._reading is not None and self._age_s() < max(
                CACHE_S, SHARE * self._reading.took_s
            )
            if fresh or not self._done.is_set():
                return
            self._done.clear()
        threading.Thread(target=self._read_metrics, name=f"read {self.name}", daemon=True).start()

    def wait_for_reading(self, until: float) -> SourceReading | None:
        """Returns the reading that is available by `until` (monotonic); None if it failed or is
        still running."""
        self._done.wait(max(0.0, until - time.monotonic()))
        return self._reading if self._done.is_set() else None

    def _age_s(self) -> float:
        return (
            time.monotonic() - self._reading.read_at if self._reading is not None else float("inf")
        )

    def _read_metrics(self) -> None:
        began = time.monotonic()
        try:
            metrics = self._read()
        except Exception as error:  # noqa: BLE001 - the next scrape tries again
            self._reading = None
            if not self._failing:
                log.warning(
                    "metrics source cannot be read",
                    source=self.name,
                    error=f"{type(error).__name__}: {error}"[:300],
                )
            self._failing = True
        else:
            now = time.monotonic()
            self._reading = SourceReading(metrics, now, now - began)
            if self._failing:
                log.info("metrics source can be read again", source=self.name)
            self._failing = False
        finally:
            self._done.set()
