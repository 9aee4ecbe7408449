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
        self._waiting: list[tuple[int, int, asyncio.Future[_Turn], float]] = []
        # For those who are late: one timer for all, since there may be hundreds.
        self._look: asyncio.TimerHandle | None = None
        self._returned = returned

    def locked(self) -> bool:
        return self._held

    @asynccontextmanager
    async def held(self, urgency: int, latest: float) -> AsyncIterator[None]:
        """For locks past which nobody is let. Raises `DeferredError` where it does not come before
        `latest` (loop time): those who are overtaken for ever go."""
        held = await self.acquire(urgency, latest)
        assert held
        try:
            yield
        finally:
            self.release()

    async def acquire(self, urgency: int, latest: float) -> bool:
        """True: it is held now, and to be released. False: let past. Raises as `held` does."""
        if not self._held:
            self._held = True
            return True
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[_Turn] = loop.create_future()
        heapq.heappush(self._waiting, (-urgency, next(self._came), turn, latest))
        self._look_at(latest)
        try:
            came = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came just before
                if turn.result() is _Turn.HELD:
                    self.release()
                elif turn.result() is _Turn.PAST:
                    self._returned()
            raise
        if came is _Turn.LATE:
            raise DeferredError(0.0)
        return came is _Turn.HELD

    def let_past(self, most: int) -> int:
        """Of those who wait the most urgent, `most` at the most, and how many they are. They go on
        all at once: handed from one to the next, the lock would let one go on each time that the
        loop turns."""
        past = 0
        while past < most and self._next(_Turn.PAST):
            past += 1
        return past

    def release(self) -> None:
        """Handed over, not let go: nobody who comes in between can take it."""
        self._held = self._next(_Turn.HELD)

    def _next(self, turn: _Turn) -> bool:
        while self._waiting:
            _, _, waiting, _ = heapq.heappop(self._waiting)
            if not waiting.done():
                waiting.set_result(turn)
                return True
        return False

    def _look_at(self, when: float) -> None:
        if self._look is not None:
            if self._look.when() <= when:
                return
            self._look.cancel()
        self._look = asyncio.get_running_loop().call_at(when, self._send_the_late)

    def _send_the_late(self) -> None:
        self._look = None
        now = asyncio.get_running_loop().time()
        self._waiting = [each for each in self._waiting if not each[2].done()]
        heapq.heapify(self._waiting)
        for _, _, waiting, latest in self._waiting:
            if latest <= now:
                waiting.set_result(_Turn.LATE)
        in_time = [latest for *_, latest in self._waiting if latest > now]
        if in_time:
            self._look_at(min(in_time))


class _Turn(Enum):
    HELD = auto()
    PAST = auto()
    LATE = auto()
