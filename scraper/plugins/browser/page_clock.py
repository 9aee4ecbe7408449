"""The time of one page in a browser, which stops while politeness makes the page wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from time import monotonic


class PageClock:
    """Counts the page's own seconds. While one of its requests waits, the clock and the `deadline`
    stand still; all waits together last at most `waits_max_s`."""

    def __init__(self, waits_max_s: float) -> None:
        self.deadline: asyncio.Timeout | None = None
        self.waited_s = 0.0
        self._waits_max_s = waits_max_s
        self._waits = 0
        self._wait_began = 0.0
        self._left_s = 0.0

    def now(self) -> float:
        """Returns the page's own time in seconds, from an arbitrary start."""
        waiting_s = monotonic() - self._wait_began if self._waits else 0.0
        return monotonic() - self.waited_s - waiting_s

    async def wait_stopped(self, permit: Awaitable[None]) -> bool:
        """Waits for a permit with the clock stopped. Returns False if the time for waits is up."""
        waiting_s = monotonic() - self._wait_began if self._waits else 0.0
        left_s = self._waits_max_s - self.waited_s - waiting_s
        self._waits += 1
        if self._waits == 1:
            self._wait_began = monotonic()
            self._stop_deadline()
        try:
            async with asyncio.timeout(max(0.0, left_s)) as patience:
                await permit
        except TimeoutError:
            if not patience.expired():
                raise
            return False
        finally:
            self._waits -= 1
            if not self._waits:
                self.waited_s += monotonic() - self._wait_began
                self._start_deadline()
        return True

    def _stop_deadline(self) -> None:
        if self.deadline is not None and (when := self.deadline.when()) is not None:
            self._left_s = when - asyncio.get_running_loop().time()
            self.deadline.reschedule(None)

    def _start_deadline(self) -> None:
        deadline = self.deadline
        if deadline is None or deadline.expired() or deadline.when() is not None:
            return
        # The deadline's block may have ended.
        with suppress(RuntimeError):
            deadline.reschedule(asyncio.get_running_loop().time() + self._left_s)
