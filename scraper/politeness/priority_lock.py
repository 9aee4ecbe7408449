"""An asyncio lock that goes to the most urgent waiter. Each waits until its own deadline."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from itertools import count

from scraper.errors import DeferredError


class PriorityLock:
    """The larger urgency first; among equals, the first to come. Not thread-safe.

    The holder may admit other waiters, which then have what they came for without ever holding the
    lock. `on_cancelled` is called for each admitted waiter that was cancelled before it resumed.
    """

    def __init__(self, on_cancelled: Callable[[], None] = lambda: None) -> None:
        self._held = False
        self._numbers = count()
        self._waiting: list[tuple[int, int, asyncio.Future[_Result], float]] = []
        # One timer serves all deadlines, since there may be hundreds.
        self._timer: asyncio.TimerHandle | None = None
        self._on_cancelled = on_cancelled

    def locked(self) -> bool:
        return self._held

    @asynccontextmanager
    async def held(self, urgency: int, deadline_at: float) -> AsyncIterator[None]:
        """Holds a lock whose waiters are never admitted. Raises `DeferredError` if the lock does
        not come before `deadline_at` (loop time), however often the waiter was overtaken."""
        held = await self.acquire(urgency, deadline_at)
        assert held
        try:
            yield
        finally:
            self.release()

    async def acquire(self, urgency: int, deadline_at: float) -> bool:
        """Returns True for a lock that the caller holds and must release, False for a caller that
        was admitted. Raises as `held` does."""
        if not self._held:
            self._held = True
            return True
        result: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-urgency, next(self._numbers), result, deadline_at))
        self._set_timer(deadline_at)
        try:
            outcome = await result
        except asyncio.CancelledError:
            if result.done() and not result.cancelled():
                if result.result() is _Result.HELD:
                    self.release()
                elif result.result() is _Result.ADMITTED:
                    self._on_cancelled()
            raise
        if outcome is _Result.LATE:
            raise DeferredError(0.0)
        return outcome is _Result.HELD

    def admit(self, count_max: int) -> int:
        """Admits the most urgent waiters, at most `count_max`, and returns how many. They resume
        all at once: handed from one waiter to the next, the lock would let only one resume in each
        turn of the loop."""
        admitted = 0
        while admitted < count_max and self._resume_next(_Result.ADMITTED):
            admitted += 1
        return admitted

    def release(self) -> None:
        """Hands the lock to the next waiter at once, so that no newcomer can take it in between."""
        self._held = self._resume_next(_Result.HELD)

    def _resume_next(self, result: _Result) -> bool:
        while self._waiting:
            _, _, waiter, _ = heapq.heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(result)
                return True
        return False

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._refuse_late)

    def _refuse_late(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self._waiting = [entry for entry in self._waiting if not entry[2].done()]
        heapq.heapify(self._waiting)
        for _, _, waiter, deadline_at in self._waiting:
            if deadline_at <= now:
                waiter.set_result(_Result.LATE)
        in_time = [deadline_at for *_, deadline_at in self._waiting if deadline_at > now]
        if in_time:
            self._set_timer(min(in_time))


class _Result(Enum):
    HELD = auto()
    ADMITTED = auto()
    LATE = auto()
