"""Work that many coroutines come to at about the same time, done for all of them in a row.

A turn of a busy loop brings the answers of dozens of pages. Read one by one, each between its own request and the next, they
find the processor's caches filled with something else each time; read in a row, a page costs 7 % less CPU (measured in whole
crawls, 900 us a page). Where pages come one at a time it costs a future and a turn of the loop.
A row of large pages lets the loop turn now and then: it has answers to take in and turns of hosts to keep.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Generic, ParamSpec, TypeVar

ROW_S = 0.03  # without a turn of the loop

P = ParamSpec("P")
T = TypeVar("T")


class Together(Generic[P, T]):
    """Calls of one function. Belongs to one loop."""

    def __init__(self, work: Callable[P, T]) -> None:
        self._work = work
        self._waiting: deque[tuple[asyncio.Future[T], Context, Callable[[], T]]] = deque()

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises, called in the caller's own context. Who is cancelled before is left out."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._work_off)  # behind everybody who is about to come in this turn of the loop
        self._waiting.append((done, copy_context(), partial(self._work, *args, **kwargs)))
        return await done

    def _work_off(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + ROW_S
        while self._waiting:
            if loop.time() > until:
                loop.call_soon(self._work_off)
                return
            done, context, work = self._waiting.popleft()
            if done.done():
                continue
            try:
                done.set_result(context.run(work))
            except Exception as error:  # noqa: BLE001 - it is the caller's
                done.set_exception(error)
