"""Beat's scheduler: a scheduler that writes no file, bears a broker that is away, and stops when
nobody listens.

A tick that cannot be sent is dropped: the next one does the same work. An outage is one log line,
not a traceback a tick.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery.beat import ScheduleEntry, Scheduler

from scraper.infra import outages
from scraper.process import heartbeat
from scraper.rules.routing import COORDINATOR
from scraper.runtime.send import depth

log = structlog.get_logger()

# With more messages than that in the coordinator queue, ticks would only pile up.
WAITING_MAX = 20
# The queue's depth is good for so long: several ticks come at once.
DEPTH_FRESH_S = 0.5
# A queue that nobody reads is worth a line after so long.
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
        """None: the pool's, with its short retries. Celery's would wait here for as long as the
        broker is away."""
        return None

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        delay_s = super().tick(*args, **kwargs)
        heartbeat.of_this_process().beat()
        return delay_s

    def apply_entry(self, entry: ScheduleEntry, producer: object = None) -> None:
        now = time.monotonic()
        if now < self._quiet_until:
            return
        try:
            if self._queue_is_read(now):
                self.apply_async(entry, producer=None, advance=False)
        except Exception as error:
            # Celery wraps it as a SchedulingError.
            cause = error.__cause__ or error.__context__ or error
            if not (outages.broker_away(error) or outages.broker_away(cause)):
                log.exception("tick not sent", tick=entry.name)
                return
            outages.broker().failed(cause)
            self._backoff_s = min(max(1.0, self._backoff_s * 2), BACKOFF_MAX_S)
            self._quiet_until = time.monotonic() + self._backoff_s
            return
        outages.broker().answered(now)
        self._backoff_s = 0.0

    def _queue_is_read(self, now: float) -> bool:
        """Whether somebody takes the ticks."""
        if now < self._depth_fresh_until:
            return True
        if depth(COORDINATOR) <= WAITING_MAX:
            self._depth_fresh_until = now + DEPTH_FRESH_S
            if self._warned:
                log.info("the coordinator queue is read again: ticks go on")
            self._unread_since, self._warned = None, False
            return True
        self._unread_since = self._unread_since or now
        if not self._warned and now - self._unread_since >= UNREAD_S:
            self._warned = True
            log.warning(
                "nobody reads the coordinator queue: no ticks meanwhile", waiting_max=WAITING_MAX
            )
        return False
