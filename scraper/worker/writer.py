"""The writer of a worker process: stores settled pages of all batches in groups, one transaction
per group.

A group is written as soon as it is full, its first page has waited for `GROUP_AGE_S`, or no other
pages are under way. So a hanging page delays no other, and a crawl's first pages are stored at
once. A thread stores one group while the next one fills.
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

# A group's nine statements cost 3 to 4 ms of CPU for any number of pages.
GROUP_PAGES = 250
# Links and products in a group. Storing this many takes 0.1 s, and new links can only be leased
# after that; one page may have thousands of products.
GROUP_ROWS = 2000
GROUP_AGE_S = 0.3
# One statement takes all of a group's products.
GROUP_BYTES = 8_000_000
# At most this much waits in the writer, in addition to the results of the pages under way.
HELD_MAX_BYTES = 64_000_000
# How often a page that waits for room checks whether it may still begin.
CHECK_S = 0.5
BACKOFF_MAX_S = 4.0
FAILURES_MAX = 3
SMALL_BYTES = 16_384
# The memory that Python needs for a link, and for any other value.
LINK_BYTES = 500
VALUE_BYTES = 60

Store = Callable[[Sequence[PageResult]], None]


class Pending:
    """Counts a batch's pages that are not stored yet. `stored` is set when every page is stored or
    given up."""

    def __init__(self, pages: int) -> None:
        self.left = pages
        self.stored = asyncio.Event()
        if pages == 0:
            self.stored.set()

    def count_stored(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.stored.set()


def _count_rows(page: PageResult) -> int:
    return len(page.links) + len(page.products)


class Writer:
    """Collects results on the loop, and stores them in a thread. `store` commits a whole group or
    raises.

    The writer retries a group for as long as PostgreSQL is away or refuses it: the keeper prolongs
    the leases, and if the coordinator has taken them back, the fence discards the group. A group
    that fails for a reason of this process is dropped after `FAILURES_MAX` tries, and its leases
    expire. While `HELD_MAX_BYTES` of results wait, the writer is `full`, and no page should be
    begun.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held = 0
        self._has_room = asyncio.Event()
        self._give_up_at = math.inf
        self._away = False
        # Counts pages that could not be stored before the process had to end; their leases expire.
        self.lost = 0
        self._waiting: list[tuple[PageResult, Pending, int]] = []
        # The rows and bytes of the waiting pages.
        self._rows = self._bytes = 0
        # The loop time at which the oldest waiting page must be written.
        self._due = 0.0
        self._full = asyncio.Event()
        self._has_pages = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")

    def put(self, page: PageResult, pending: Pending) -> None:
        if not self._waiting:
            self._due = asyncio.get_running_loop().time() + GROUP_AGE_S
        size = size_of(page)
        self._held += size
        self._waiting.append((page, pending, size))
        self._rows += _count_rows(page)
        self._bytes += size
        self._has_pages.set()
        if self._fills_a_group():
            self._full.set()

    @property
    def away(self) -> bool:
        """PostgreSQL was away, or refused, when a group was last stored."""
        return self._away

    @property
    def full(self) -> bool:
        return self._held >= HELD_MAX_BYTES

    async def wait_for_room(self, wanted: Callable[[], bool]) -> None:
        """Waits until the writer is no longer full, or the page is no longer `wanted`."""
        while self.full and wanted():
            self._has_room.clear()
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._has_room.wait()
            except TimeoutError:
                continue

    def hurry(self) -> None:
        """Writes the waiting pages now, since no other page is under way."""
        if self._waiting:
            self._full.set()

    def give_up_in(self, seconds: float) -> None:
        """Limits storing to `seconds`, since the process is about to end. Leases of pages that are
        not stored by then expire."""
        self._give_up_at = asyncio.get_running_loop().time() + seconds

    def close(self) -> None:
        self._thread.shutdown()

    async def run(self) -> None:
        """Stores groups until cancelled."""
        while True:
            await self._has_pages.wait()
            try:
                async with asyncio.timeout_at(self._due):
                    await self._full.wait()
            except TimeoutError:
                pass
            await self._write_group(self._take_group())

    def _take_group(self) -> list[tuple[PageResult, Pending, int]]:
        """Removes the next group from the waiting pages."""
        rows = size = pages = 0
        for page, _, page_bytes in islice(self._waiting, GROUP_PAGES):
            rows, size, pages = rows + _count_rows(page), size + page_bytes, pages + 1
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                break
        group, self._waiting = self._waiting[:pages], self._waiting[pages:]
        self._rows -= rows
        self._bytes -= size
        if not self._fills_a_group():
            self._full.clear()
        if not self._waiting:
            self._has_pages.clear()
        return group

    def _fills_a_group(self) -> bool:
        return (
            len(self._waiting) >= GROUP_PAGES
            or self._rows >= GROUP_ROWS
            or self._bytes >= GROUP_BYTES
        )

    async def _write_group(self, group: list[tuple[PageResult, Pending, int]]) -> None:
        loop = asyncio.get_running_loop()
        pages = [page for page, _, _ in group]
        failures, backoff_s = 0, 0.5
        while True:
            if self._away and loop.time() >= self._give_up_at:
                self._count_lost(pages, "no time left")
                break
            try:
                await loop.run_in_executor(self._thread, self._store, pages)
                self._away = False
                break
            except Exception as error:
                if outages.is_postgres_refusing(error):
                    outages.storage().record_failure(error)
                elif outages.is_postgres_away(error):
                    outages.postgres().record_failure(error)
                else:
                    failures += 1
                    log.exception("group not stored", pages=len(pages), failures=failures)
                self._away = failures == 0
                if failures == FAILURES_MAX:
                    self._count_lost(pages, str(error)[:500])
                    break
            await asyncio.sleep(min(backoff_s, max(0.1, self._give_up_at - loop.time())))
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
        for _, pending, size in group:
            self._held -= size
            pending.count_stored()
        self._has_room.set()

    def _count_lost(self, pages: Sequence[PageResult], why: str) -> None:
        log.error("group lost", pages=len(pages), error=why)
        if math.isfinite(self._give_up_at):
            self.lost += len(pages)


def size_of(page: PageResult) -> int:
    """Estimates how many bytes a result holds; a small page's body is the estimate."""
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
