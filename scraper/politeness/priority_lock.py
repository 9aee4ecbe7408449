"""A lock that goes to the most urgent of those who wait for it, each until a time of its own at the
longest. asyncio."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from itertools import count

from scraper.errors import DeferredError


class PriorityLock:
    """The larger urgency first; of equals, who came first. Not thread-safe.

    Who holds it may let others past, who have what they came for without ever holding it.
    `returned` is called for each of those who was cancelled before it could go on.
    """

    def __init__(self, returned: Callable[[], None] = lambda: None) -> None:
        self._held = False
        self._came = count()
        self._waiting: list[tuple[int, int, asyncio.Future[_Result], float]] = []
        # Those who are late share one timer, since there may be hundreds.
        self._timer: asyncio.TimerHandle | None = None
        self._returned = returned

    def locked(self) -> bool:
        return self._held

    @asynccontextmanager
    async def held(self, urgency: int, deadline_at: float) -> AsyncIterator[None]:
        """For locks past which nobody is let. Raises `DeferredError` where it does not come before
        `deadline_at` (loop time): those who are overtaken for ever go."""
        held = await self.acquire(urgency, deadline_at)
        assert held
        try:
            yield
        finally:
            self.release()

    async def acquire(self, urgency: int, deadline_at: float) -> bool:
        """True: it is held now, and to be released. False: let past. Raises as `held` does."""
        if not self._held:
            self._held = True
            return True
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_Result] = loop.create_future()
        heapq.heappush(self._waiting, (-urgency, next(self._came), result, deadline_at))
        self._wake_at(deadline_at)
        try:
            came = await result
        except asyncio.CancelledError:
            if result.done() and not result.cancelled():
                if result.result() is _Result.HELD:
                    self.release()
                elif result.result() is _Result.PAST:
                    self._returned()
            raise
        if came is _Result.LATE:
            raise DeferredError(0.0)
        return came is _Result.HELD

    def admit(self, most: int) -> int:
        """Of those who wait the most urgent, `most` at the most, and how many they are. They go on
        all at once: handed from one to the next, the lock would let one go on each time that the
        loop turns."""
        past = 0
        while past < most and self._next(_Result.PAST):
            past += 1
        return past

    def release(self) -> None:
        """Handed over, not let go: nobody who comes in between can take it."""
        self._held = self._next(_Result.HELD)

    def _next(self, result: _Result) -> bool:
        while self._waiting:
            _, _, waiting, _ = heapq.heappop(self._waiting)
            if not waiting.done():
                waiting.set_result(result)
                return True
        return False

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._refuse_late)

    def _refuse_late(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self._waiting = [entry for entry in self._waiting if not entry[2].done()]
        heapq.heapify(self._waiting)
        for _, _, waiting, deadline_at in self._waiting:
            if deadline_at <= now:
                waiting.set_result(_Result.LATE)
        in_time = [deadline_at for *_, deadline_at in self._waiting if deadline_at > now]
        if in_time:
            self._wake_at(min(in_time))


class _Result(Enum):
    HELD = auto()
    PAST = auto()
    LATE = auto()
