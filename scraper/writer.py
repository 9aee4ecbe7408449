"""The one writer of a worker process: settled pages from every batch, stored in groups, one transaction a group.

A group is written when it is full or its first page is a moment old, whichever comes first, so a page that hangs holds
nothing back. The writing itself runs in a thread of its own; while one group is being stored, the next one fills.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from scraper.stores.settle import SettledPage

log = structlog.get_logger()

GROUP_PAGES = 100
GROUP_AGE_S = 0.3
BACKOFF_MAX_S = 10.0

Store = Callable[[Sequence[SettledPage]], None]


class Pending:
    """How much of a batch is not stored yet; `stored` is set when all of it is, or has been given up."""

    def __init__(self, pages: int) -> None:
        self.left = pages
        self.stored = asyncio.Event()
        if pages == 0:
            self.stored.set()

    def less(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.stored.set()


class Writer:
    """Collects on the loop, stores in a thread. `store` commits a whole group or raises; it is tried again until
    `give_up_s` have passed, when the leases of the pages have run out anyway."""

    def __init__(self, store: Store, *, give_up_s: float) -> None:
        self._store = store
        self._give_up_s = give_up_s
        self._waiting: list[tuple[SettledPage, Pending]] = []
        self._due = 0.0  # loop time at which the page that waits longest is to be written
        self._full = asyncio.Event()
        self._some = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")

    def put(self, page: SettledPage, pending: Pending) -> None:
        if not self._waiting:
            self._due = asyncio.get_running_loop().time() + GROUP_AGE_S
        self._waiting.append((page, pending))
        self._some.set()
        if len(self._waiting) >= GROUP_PAGES:
            self._full.set()

    def close(self) -> None:
        self._thread.shutdown()

    async def run(self) -> None:
        """Stores groups until cancelled."""
        while True:
            await self._some.wait()
            try:
                async with asyncio.timeout_at(self._due):
                    await self._full.wait()
            except TimeoutError:
                pass
            group, self._waiting = self._waiting[:GROUP_PAGES], self._waiting[GROUP_PAGES:]
            if len(self._waiting) < GROUP_PAGES:
                self._full.clear()
            if not self._waiting:
                self._some.clear()
            await self._write(group)

    async def _write(self, group: list[tuple[SettledPage, Pending]]) -> None:
        loop = asyncio.get_running_loop()
        pages = [page for page, _ in group]
        began, backoff_s = loop.time(), 0.5
        while True:
            try:
                await loop.run_in_executor(self._thread, self._store, pages)
                break
            except Exception as error:  # noqa: BLE001 - the task's edge: whatever it is, the leases say when to stop trying
                if loop.time() - began > self._give_up_s:
                    log.error("group lost", pages=len(pages), error=str(error)[:500])
                    break
                if backoff_s == 0.5:
                    log.warning("group not stored, trying again", pages=len(pages), error=str(error)[:500])
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
        for _, pending in group:
            pending.less()
