"""Beat's scheduler, which writes no file, waits out a broker that is away, and pauses while no
coordinator consumes its ticks.

A tick that cannot be sent is dropped: the next one does the same work. An outage is one log line,
not a traceback per tick.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery.beat import ScheduleEntry, Scheduler

from scraper.infra import outages
from scraper.process import heartbeat
from scraper.rules.routing import COORDINATOR
from scraper.runtime.send import queue_depth

log = structlog.get_logger()

# With more messages than this in the coordinator queue, ticks would only pile up.
WAITING_MAX = 20
# Ticks share a reading of the queue's depth. In this time six are sent.
DEPTH_FRESH_S = 2.0
# A queue without a consumer is logged after this time.
UNREAD_S = 5.0
BACKOFF_MAX_S = 5.0


class TickScheduler(Scheduler):  # type: ignore[misc] # Celery has no types
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._backoff_s = 0.0
        self._quiet_until = 0.0
        self._depth_fresh_until = 0.0
        self._unread_since: float | None = None
        self._warned = False
        super().__init__(*args, **kwargs)

    @property
    def producer(self) -> None:
        """None selects the pool's producers, with their short retries. Celery's own would wait for
        as long as the broker is away."""
        return None

    def adjust(self, n: Any, drift: float = 0.0) -> Any:
        """Wakes when a tick is due. Celery wakes 10 ms before, and turns in circles until then."""
        return n

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        delay_s = super().tick(*args, **kwargs)
        heartbeat.process_heartbeat().beat()
        return delay_s

    def apply_entry(self, entry: ScheduleEntry, producer: object = None) -> None:
        now = time.monotonic()
        if now < self._quiet_until:
            return
        try:
            if self._has_consumer(now):
                self.apply_async(entry, producer=None, advance=False)
        except Exception as error:
            # Celery wraps it as a SchedulingError.
            cause = error.__cause__ or error.__context__ or error
            if not (outages.is_broker_away(error) or outages.is_broker_away(cause)):
                log.exception("tick not sent", tick=entry.name)
                return
            outages.broker().record_failure(cause)
            self._backoff_s = min(max(1.0, self._backoff_s * 2), BACKOFF_MAX_S)
            self._quiet_until = time.monotonic() + self._backoff_s
            return
        outages.broker().record_answer(now)
        self._backoff_s = 0.0

    def _has_consumer(self, now: float) -> bool:
        """Returns whether a coordinator takes the ticks."""
        if now < self._depth_fresh_until:
            return True
        if queue_depth(COORDINATOR) <= WAITING_MAX:
            self._depth_fresh_until = now + DEPTH_FRESH_S
            if self._warned:
                log.info("coordinator queue has a consumer again; ticks resumed")
            self._unread_since = None
            self._warned = False
            return True
        self._unread_since = self._unread_since or now
        if not self._warned and now - self._unread_since >= UNREAD_S:
            self._warned = True
            log.warning("coordinator queue has no consumer; ticks paused", waiting_max=WAITING_MAX)
        return False
