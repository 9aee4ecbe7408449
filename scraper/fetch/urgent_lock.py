"""A lock that goes to the most urgent of those who wait for it, each until a time of its own at the longest. asyncio."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from scraper.errors import DeferredError


class UrgentLock:
    """The larger urgency first; of equals, who came first. Not thread-safe."""

    def __init__(self) -> None:
        self._held = False
        self._came = count()
        self._waiting: list[tuple[int, int, asyncio.Future[bool]]] = []

    def locked(self) -> bool:
        return self._held

    @asynccontextmanager
    async def held(self, urgency: int, latest: float) -> AsyncIterator[None]:
        """Raises `DeferredError` where it does not come before `latest` (loop time): those who are overtaken for ever go."""
        await self._acquire(urgency, latest)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, urgency: int, latest: float) -> None:
        if not self._held:
            self._held = True
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        heapq.heappush(self._waiting, (-urgency, next(self._came), turn))
        in_time = loop.call_at(latest, _settle, turn, False)
        try:
            if not await turn:
                raise DeferredError(0.0)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():  # it was handed over just before
                self._release()
            raise
        finally:
            in_time.cancel()

    def _release(self) -> None:
        """Handed over, not let go: nobody who comes in between can take it."""
        while self._waiting:
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(True)
                return
        self._held = False


def _settle(turn: asyncio.Future[bool], result: bool) -> None:
    if not turn.done():
        turn.set_result(result)
