"""A worker process: one event loop in a thread of its own, and what the loop needs, made when first
used.

Keyed by process id, since Celery's pools fork, spawn threads, or do neither: whichever runs a task
first in a process makes that process's runtime. Task threads block on their batch; everything else
happens on the loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from uuid import UUID

import structlog

from scraper.coordinator.discover import dispatch_message
from scraper.coordinator.dispatch import batch_pages_of
from scraper.crawl.context import CrawlContexts
from scraper.domain import Message
from scraper.infra import slots
from scraper.infra.database import make_engine
from scraper.infra.slots import SharedExclusiveLock, SlotCost
from scraper.registry import resolve
from scraper.settings import Settings
from scraper.worker.batch import Batch
from scraper.worker.host import SlotLoad
from scraper.worker.keeper import Claimed, Claims, Keeper
from scraper.worker.wiring import Services
from scraper.worker.writer import Pending

log = structlog.get_logger()

TURN_S = 1.0
# Others have so long to end, which is less than an unclaimed lease lives.
ALONE_WAIT_S = 15.0
# A worker that was told to stop has so long to store what it still holds.
GIVE_UP_S = 5.0
WEIGH_S = 0.2
CLOSE_S = 10.0

Send = Callable[[Sequence[Message]], None]


class Worker:
    """Everything one process shares between its batches. `send` publishes messages and may be
    called from any thread."""

    def __init__(self, settings: Settings, send: Send) -> None:
        self.settings = settings
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.engine = make_engine(settings.postgres_url)
        self._send = send
        self._places = SharedExclusiveLock()
        self._turned_at = time.monotonic()
        self._claims = Claims(self.engine, self.name, settings)
        self._contexts = CrawlContexts(self.engine, settings)
        self._stopping = False
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="loop", daemon=True)
        self._failed: BaseException | None = None
        self._thread.start()
        started.wait()
        if self._failed is not None:
            raise self._failed

    def work(self, lease_id: UUID, *, alone: bool = False) -> None:
        """Claims a lease and settles its pages; returns when the last one is stored. Does nothing
        for a stale lease.

        `alone`: nothing else is done meanwhile. Where that cannot be arranged soon, the lease goes
        back unclaimed.
        """
        if not alone:
            with self._places.shared():
                self._work(lease_id, alone)
        else:
            with self._places.exclusive(ALONE_WAIT_S) as free:
                if free:
                    self._work(lease_id, alone)

    def _work(self, lease_id: UUID, alone: bool) -> None:
        claimed = self._claims.take(lease_id, alone=alone, stopping=lambda: self._stopping)
        if claimed is None:
            return
        if claimed.queue_low:
            self._send([dispatch_message()])
        # Of one that is stuck the keeper has said so, and the lease runs out.
        with suppress(CancelledError):
            asyncio.run_coroutine_threadsafe(
                self._batch(claimed, slots.current_slot()), self._loop
            ).result()

    def run_task(self, reference: str, arguments: Mapping[str, object]) -> None:
        """Runs a plug-in's task, as `scraper.plugin.Task` describes it."""
        with self._places.shared():
            resolve(reference)(self.services.host, **arguments)

    @property
    def batches(self) -> int:
        """Batches under way."""
        return len(self.keeper.batches)

    @property
    def silent_s(self) -> float:
        """Seconds since the loop last turned: more than a few mean that something blocks it."""
        return time.monotonic() - self._turned_at

    @property
    def lost(self) -> int:
        """Pages that could neither be stored nor handed back before the process had to end."""
        return self.services.writer.lost

    def stop(self) -> None:
        """Hands back what has not been begun at once, and what is under way if it has not ended
        `stop_s` later. Callable from a signal handler."""
        if not self._stopping:
            self._stopping = True
            self._loop.call_soon_threadsafe(self._hand_back)

    def close(self) -> None:
        """Gives back what the fleet shares, and closes every connection. After the last batch."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        self._loop.close()
        self.engine.dispose()

    async def _close(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self.services.aclose(CLOSE_S)
        await self.keeper.aclose(CLOSE_S / 4)

    def _hand_back(self) -> None:
        for part in self.services.parts.values():
            part.hand_back()
        self._handing_back = [
            asyncio.ensure_future(self.services.processor.hand_back(each))
            for each in self.keeper.batches.values()
        ]
        self._loop.call_later(self.settings.stop_s, self._cut_short)

    def _cut_short(self) -> None:
        for batch in self.keeper.batches.values():
            batch.cut()
        for part in self.services.parts.values():
            part.cut_short()
        self.services.writer.give_up_in(GIVE_UP_S)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._start, started)
        self._loop.run_forever()

    def _start(self, started: threading.Event) -> None:
        try:
            self._make_services()
        except BaseException as error:  # noqa: BLE001 - the thread that waits for us has to know
            self._failed = error
            self._loop.stop()
        started.set()

    def _make_services(self) -> None:
        self.services = Services(
            self.settings,
            worker=self.name,
            engine=self.engine,
            contexts=self._contexts,
            send=self._send,
            apply_control=lambda control, asked: self.keeper.apply(control, asked),
            count_batches=lambda: self.batches,
            loop_silent_s=lambda: self.silent_s,
        )
        self.keeper = Keeper(self.settings, self._claims, self.services)
        loops = (*self.services.loops(), self.keeper.run(), self._turn(), self._weigh())
        self._loops = [self._loop.create_task(each) for each in loops]

    async def _batch(self, claimed: Claimed, place: SlotCost | None) -> None:
        self.keeper.apply(claimed.control, claimed.asked)
        lease = claimed.lease
        batch = Batch(
            lease,
            deadline_at=self._loop.time() + self.settings.horizon_s,
            lease_expires_at=claimed.lease_expires_at,
            pending=Pending(len(lease.pages)),
            handed_back=self._stopping,
            inactive_crawls=claimed.inactive,
            place=place,
        )
        await self.keeper.settle(batch)

    async def _turn(self) -> None:
        while True:
            self._turned_at = time.monotonic()
            await asyncio.sleep(TURN_S)

    async def _weigh(self) -> None:
        while True:
            await asyncio.sleep(WEIGH_S)
            left: list[SlotLoad] = [
                (
                    batch.place,
                    batch.unsettled,
                    batch.paced,
                    batch_pages_of(batch.lease.queue, self.settings),
                )
                for batch in self.keeper.batches.values()
                if batch.moved_at
            ]
            for part in self.services.parts.values():
                left += part.slot_loads()
            # Where one begins, it may have to start a thread.
            await asyncio.to_thread(self._weigh_places, left)

    def _weigh_places(self, left: Sequence[SlotLoad]) -> None:
        for place, pages, paced, full in left:
            if place is not None:
                place.weigh(pages - paced, paced, full)
