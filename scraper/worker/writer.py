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
from typing import Any

import structlog

from scraper.infra import outages
from scraper.results.transaction import PageResult

log = structlog.get_logger()

# Its nine statements cost 3 to 4 ms of CPU, however many pages they are for.
GROUP_PAGES = 250
# What its pages lead to can be leased once they are stored, 0.1 s for so many; products, of which a
# page may have thousands, count likewise.
GROUP_ROWS = 2000
GROUP_AGE_S = 0.3
# One statement takes all of a group's products.
GROUP_BYTES = 8_000_000
# So much waits here at the most, beside what the pages under way will come to.
HELD_MAX_BYTES = 64_000_000
# A page that waits for room looks so often whether it is still wanted.
LOOK_S = 0.5
BACKOFF_MAX_S = 4.0
FAILURES_MAX = 3
SMALL_BYTES = 16_384
# What Python takes for a link that was found, and for any other value.
LINK_BYTES = 500
VALUE_BYTES = 60

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


def _rows(page: PageResult) -> int:
    return len(page.links) + len(page.products)


class Writer:
    """Collects on the loop, stores in a thread. `store` commits a whole group or raises.

    A group is kept for as long as PostgreSQL is away: nobody can take its pages' leases back
    meanwhile, and if somebody does so before we reach it again, the fence discards the group. One
    that is refused for another reason is dropped after a few tries; its leases run out. While
    `HELD_MAX_BYTES` of results wait, it is `full`, and no page should be begun.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held = 0
        self._room = asyncio.Event()
        self._give_up_at = math.inf
        self._away = False
        # These pages were given up when the process had to end: their leases run out.
        self.lost = 0
        self._waiting: list[tuple[PageResult, Pending, int]] = []
        self._rows = self._bytes = 0  # theirs
        # At this loop time the page that waits longest is to be written.
        self._due = 0.0
        self._full = asyncio.Event()
        self._some = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")

    def put(self, page: PageResult, pending: Pending) -> None:
        if not self._waiting:
            self._due = asyncio.get_running_loop().time() + GROUP_AGE_S
        size = size_of(page)
        self._held += size
        self._waiting.append((page, pending, size))
        self._rows += _rows(page)
        self._bytes += size
        self._some.set()
        if self._fills_a_group():
            self._full.set()

    @property
    def full(self) -> bool:
        return self._held >= HELD_MAX_BYTES

    async def room(self, wanted: Callable[[], bool]) -> None:
        """Waits until there is some, or the page is not `wanted` any more."""
        while self.full and wanted():
            self._room.clear()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._room.wait()
            except TimeoutError:
                continue

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

    def _group(self) -> list[tuple[PageResult, Pending, int]]:
        """Takes the next one out of what waits."""
        rows = size = pages = 0
        for page, _, page_bytes in islice(self._waiting, GROUP_PAGES):
            rows, size, pages = rows + _rows(page), size + page_bytes, pages + 1
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                break
        group, self._waiting = self._waiting[:pages], self._waiting[pages:]
        self._rows -= rows
        self._bytes -= size
        if not self._fills_a_group():
            self._full.clear()
        if not self._waiting:
            self._some.clear()
        return group

    def _fills_a_group(self) -> bool:
        return (
            len(self._waiting) >= GROUP_PAGES
            or self._rows >= GROUP_ROWS
            or self._bytes >= GROUP_BYTES
        )

    async def _write(self, group: list[tuple[PageResult, Pending, int]]) -> None:
        loop = asyncio.get_running_loop()
        pages = [page for page, _, _ in group]
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
                if outages.is_postgres_away(error):
                    outages.postgres().record_failure(error)
                else:
                    failures += 1
                    log.exception("group not stored", pages=len(pages), failures=failures)
                self._away = failures == 0
                if failures == FAILURES_MAX:
                    self._lost(pages, str(error)[:500])
                    break
            await asyncio.sleep(min(backoff_s, max(0.1, self._give_up_at - loop.time())))
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
        for _, pending, size in group:
            self._held -= size
            pending.less()
        self._room.set()

    def _lost(self, pages: Sequence[PageResult], why: str) -> None:
        log.error("group lost", pages=len(pages), error=why)
        if math.isfinite(self._give_up_at):
            self.lost += len(pages)


def size_of(page: PageResult) -> int:
    """About how many bytes a result holds. That of a small page is taken to be its body's."""
    if page.cost is not None and page.cost.bytes <= SMALL_BYTES:
        return page.cost.bytes
    products = sum(_text_bytes(product.data) for product in page.products)
    return SMALL_BYTES + LINK_BYTES * len(page.links) + products


def _text_bytes(data: Any) -> int:
    match data:
        case str():
            return len(data)
        case dict():
            return sum(map(_text_bytes, data.values()))
        case list():
            return VALUE_BYTES * len(data) + sum(map(_text_bytes, data))
        case _:
            return VALUE_BYTES
