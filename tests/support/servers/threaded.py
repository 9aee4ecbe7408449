"""What the tests' own servers have in common: a loop in a thread, from `with` to its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Self

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
# A thread of a busy process on a busy machine may wait this long for its turn.
PATIENCE_S = 60.0


class Threaded:
    """A subclass starts its servers in `_listen` and gives each a handler that is `_tracked`. When
    it ends, none of their connections stays open, whatever the clients do."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    async def _listen(self) -> list[asyncio.Server]:
        raise NotImplementedError

    def _tracked(
        self, handle: Handle
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            try:
                with suppress(OSError, EOFError, asyncio.CancelledError, asyncio.LimitOverrunError):
                    await handle(reader, writer)
            finally:
                with suppress(Exception):
                    writer.close()

        return run

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        servers = await self._listen()
        self._ready.set()
        await self._stopped.wait()
        for server in servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # TLS that is still saying hello or farewell has no task. Each turn may bring one more that
        # was on its way.
        for _ in range(3):
            for transport in list(self._loop._transports.values()):  # type: ignore[attr-defined]
                transport.abort()
            await asyncio.sleep(0)
