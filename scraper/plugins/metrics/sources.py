"""Servers that are read for metrics. Each is read in a thread of its own, never twice at once, and
nobody waits for it longer than for a moment.

A server that hangs would otherwise hang the scrape, and Prometheus would see a dead target rather
than `scraper_up 0`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client.core import Metric

log = structlog.get_logger()

# Several Prometheuses, or somebody with a browser, cost one reading.
CACHE_S = 5.0
# A server is read for a tenth of its time at the most: an answer that took 3 s is good for 30.
SHARE = 10


@dataclass(frozen=True, slots=True)
class Answer:
    metrics: Sequence[Metric]
    read_at: float
    took_s: float


class Source:
    """`read` gives metrics or raises; what it raises is logged when it begins, not each time."""

    def __init__(self, name: str, read: Callable[[], Sequence[Metric]]) -> None:
        self.name = name
        self._read = read
        self._lock = threading.Lock()
        self._answer: Answer | None = None
        self._done = threading.Event()
        self._done.set()
        self._failing = False

    def refresh(self) -> None:
        """Begins to read, unless that is under way or the last answer is young enough."""
        with self._lock:
            fresh = self._answer is not None and self._age_s() < max(
                CACHE_S, SHARE * self._answer.took_s
            )
            if fresh or not self._done.is_set():
                return
            self._done.clear()
        threading.Thread(target=self._run, name=f"read {self.name}", daemon=True).start()

    def answer(self, until: float) -> Answer | None:
        """What is known by `until` (monotonic); None where it failed, or is still being read and
        nothing is fresh."""
        self._done.wait(max(0.0, until - time.monotonic()))
        return self._answer if self._done.is_set() else None

    def _age_s(self) -> float:
        return time.monotonic() - self._answer.read_at if self._answer is not None else float("inf")

    def _run(self) -> None:
        began = time.monotonic()
        try:
            metrics = self._read()
        except Exception as error:  # noqa: BLE001 - whatever it is: the next scrape tries again
            self._answer = None
            if not self._failing:
                log.warning(
                    "cannot be read",
                    source=self.name,
                    error=f"{type(error).__name__}: {error}"[:300],
                )
            self._failing = True
        else:
            now = time.monotonic()
            self._answer = Answer(metrics, now, now - began)
            if self._failing:
                log.info("can be read again", source=self.name)
            self._failing = False
        finally:
            self._done.set()
