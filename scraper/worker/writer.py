"""The one writer of a worker process: settled pages from every batch, stored in groups, one
transaction a group.

A group is written when it is full, when its first page is a moment old, or when no more pages are
under way that it could wait for, whichever comes first; so a page that hangs holds nothing back,
and the first pages of a crawl wait for nobody. The writing itself runs in a thread of its own;
while one group is being stored, the next one fills.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import structlog

from scraper.infra import outages
from scraper.settle.transaction import PageResult

log = structlog.get_logger()

# Its nine statements cost 3 to 4 ms of CPU, however many pages they are for.
GROUP_PAGES = 250
# What its pages lead to can be leased once they are stored, 0.1 s for so many.
GROUP_LINKS = 2000
GROUP_AGE_S = 0.3
BACKOFF_MAX_S = 4.0
FAILURES_MAX = 3

Store = Callable[[Sequence[PageResult]], None]


class Pending:
    """How much of a batch is not stored yet; `stored` is set when all of it is, or has been given
    up."""

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
    """Collects on the loop, stores in a thread. `store` commits a whole group or raises.

    A group is kept for as long as PostgreSQL is away: nobody can take its pages' leases back
    meanwhile, and if somebody does so before we reach it again, the fence discards the group. One
    that is refused for another reason is dropped after a few tries; its leases run out.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._give_up_at = math.inf
        self._away = False
        # These pages were given up when the process had to end: their leases run out.
        self.lost = 0
        self._waiting: list[tuple[PageResult, Pending]] = []
        self._links = 0  # theirs
        # At this loop time the page that waits longest is to be written.
        self._due = 0.0
        self._full = asyncio.Event()
        self._some = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")

    def put(self, page: PageResult, pending: Pending) -> None:
        if not self._waiting:
            self._due = asyncio.get_running_loop().time() + GROUP_AGE_S
        self._waiting.append((page, pending))
        self._links += len(page.links)
        self._some.set()
        if self._fills_a_group():
            self._full.set()

    def hurry(self) -> None:
        """No other page is under way: those that wait need not grow older."""
        if self._waiting:
            self._full.set()

    def give_up_in(self, seconds: float) -> None:
        """The process is about to end: what cannot be stored within `seconds` is left to its
        leases."""
        self._give_up_at = asyncio.get_running_loop().time() + seconds

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
            await self._write(self._group())

    def _group(self) -> list[tuple[PageResult, Pending]]:
        """Takes the next one out of what waits."""
        links, size = 0, 0
        for page, _ in islice(self._waiting, GROUP_PAGES):
            links, size = links + len(page.links), size + 1
            if links >= GROUP_LINKS:
                break
        group, self._waiting = self._waiting[:size], self._waiting[size:]
        self._links -= links
        if not self._fills_a_group():
            self._full.clear()
        if not self._waiting:
            self._some.clear()
        return group

    def _fills_a_group(self) -> bool:
        return len(self._waiting) >= GROUP_PAGES or self._links >= GROUP_LINKS

    async def _write(self, group: list[tuple[PageResult, Pending]]) -> None:
        loop = asyncio.get_running_loop()
        pages = [page for page, _ in group]
        failures, backoff_s = 0, 0.5
        while True:
            if self._away and loop.time() >= self._give_up_at:
                self._lost(pages, "no time left")
                break
            try:
                await loop.run_in_executor(self._thread, self._store, pages)
                self._away = False
                break
            except Exception as error:
                if outages.postgres_away(error):
                    outages.postgres().failed(error)
                else:
                    failures += 1
                    log.exception("group not stored", pages=len(pages), failures=failures)
                self._away = failures == 0
                if failures == FAILURES_MAX:
                    self._lost(pages, str(error)[:500])
                    break
            await asyncio.sleep(min(backoff_s, max(0.1, self._give_up_at - loop.time())))
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
        for _, pending in group:
            pending.less()

    def _lost(self, pages: Sequence[PageResult], why: str) -> None:
        log.error("group lost", pages=len(pages), error=why)
        if math.isfinite(self._give_up_at):
            self.lost += len(pages)
