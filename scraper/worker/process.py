"""A worker process: one event loop in its own thread, and the services that run on it.

`scraper.process.current_worker` makes it when a process runs its first task. Task threads block on
their batch; everything else happens on the loop.
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

import sqlalchemy as sa
import structlog

from scraper.coordinator.discover import dispatch_message
from scraper.coordinator.dispatch import batch_pages_of
from scraper.crawl.context import CrawlContexts
from scraper.crawl.isolation import isolated
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

HEARTBEAT_S = 1.0
# How long a batch that runs alone waits for the others to end: less than an unclaimed lease lasts.
ALONE_WAIT_S = 15.0
# How long a stopping worker has to store its pages after the last ones were cancelled.
GIVE_UP_S = 5.0
WEIGH_SLOTS_S = 0.2
CLOSE_S = 10.0

Send = Callable[[Sequence[Message]], None]


class Worker:
    """Everything that a process's batches share. `send` publishes messages, from any thread. An
    `engine` of the caller's stays open when the worker closes."""

    def __init__(self, settings: Settings, send: Send, engine: sa.Engine | None = None) -> None:
        self.settings = settings
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        # One connection is the writer's, the other serves claims. The watchdog has a third.
        self.engine = engine or make_engine(settings.postgres_url, pool_size=2, overflow=0)
        self._owns_engine = engine is None
        self._send = send
        self._batch_lock = SharedExclusiveLock()
        self._beat_at = time.monotonic()
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

    def settle_lease(self, lease_id: UUID, *, alone: bool = False) -> None:
        """Claims a lease and settles its pages; returns when the last page is stored. Does nothing
        for a stale lease.

        With `alone`, no other batch runs at the same time. If the others do not end in time, the
        lease stays unclaimed.
        """
        if not alone:
            with self._batch_lock.shared():
                self._claim_and_settle(lease_id, alone)
        else:
            with self._batch_lock.exclusive(ALONE_WAIT_S) as free:
                if free:
                    self._claim_and_settle(lease_id, alone)

    def _claim_and_settle(self, lease_id: UUID, alone: bool) -> None:
        claimed = self._claims.claim_lease(lease_id, alone=alone, stopping=lambda: self._stopping)
        if claimed is None:
            return
        if claimed.queue_low:
            self._send([dispatch_message()])
        # The keeper cancels a stuck batch, logs it, and lets its lease expire.
        with suppress(CancelledError):
            asyncio.run_coroutine_threadsafe(
                self._settle_claimed(claimed, slots.current_slot()), self._loop
            ).result()

    def run_task(self, reference: str, arguments: Mapping[str, object]) -> None:
        """Runs a plug-in's task, as `scraper.plugin.Task` describes it."""
        with self._batch_lock.shared():
            resolve(reference)(self.services.host, **arguments)

    @property
    def batches(self) -> int:
        """Batches under way."""
        return len(self.keeper.batches)

    @property
    def silent_s(self) -> float:
        """Seconds since the loop last ran: more than a few mean that something blocks it."""
        return time.monotonic() - self._beat_at

    @property
    def lost(self) -> int:
        """Pages that could neither be stored nor handed back before the process had to end."""
        return self.services.writer.lost

    def stop(self) -> None:
        """Hands back pages that are not begun at once, and those under way `stop_s` later. Safe in
        a signal handler."""
        if not self._stopping:
            self._stopping = True
            self._loop.call_soon_threadsafe(self._hand_back)

    def close(self) -> None:
        """Releases the hosts' slots and closes every connection. Call after the last batch."""
        closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        try:
            closing.result(2 * CLOSE_S)
        except TimeoutError:
            log.error("connections left open", tasks=str(asyncio.all_tasks(self._loop)))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        self._loop.close()
        if self._owns_engine:
            self.engine.dispose()

    async def _close(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.wait(self._loops, timeout=CLOSE_S / 4)
        await self.services.aclose(CLOSE_S)
        await self.keeper.aclose(CLOSE_S / 4)

    def _hand_back(self) -> None:
        for name, part in self.services.parts.items():
            with isolated(name, "hand_back"):
                part.hand_back()
        self._handing_back = [
            asyncio.ensure_future(self.services.processor.hand_back(batch))
            for batch in self.keeper.batches.values()
        ]
        self._loop.call_later(self.settings.stop_s, self._cut_short)

    def _cut_short(self) -> None:
        for batch in self.keeper.batches.values():
            batch.cancel_pages()
        for name, part in self.services.parts.items():
            with isolated(name, "cut_short"):
                part.cut_short()
        self.services.writer.give_up_in(GIVE_UP_S)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._start, started)
        self._loop.run_forever()

    def _start(self, started: threading.Event) -> None:
        try:
            self._make_services()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
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
        loops = (
            *self.services.loops(),
            self.keeper.run(),
            self._record_heartbeats(),
            self._weigh_slots(),
        )
        self._loops = [self._loop.create_task(loop) for loop in loops]

    async def _settle_claimed(self, claimed: Claimed, slot: SlotCost | None) -> None:
        self.keeper.apply(claimed.control, claimed.asked)
        lease = claimed.lease
        batch = Batch(
            lease,
            deadline_at=self._loop.time() + self.settings.horizon_s,
            lease_expires_at=claimed.lease_expires_at,
            pending=Pending(len(lease.pages)),
            handed_back=self._stopping,
            inactive_crawls=claimed.inactive,
            slot=slot,
        )
        await self.keeper.settle(batch)

    async def _record_heartbeats(self) -> None:
        while True:
            self._beat_at = time.monotonic()
            await asyncio.sleep(HEARTBEAT_S)

    async def _weigh_slots(self) -> None:
        while True:
            await asyncio.sleep(WEIGH_SLOTS_S)
            loads: list[SlotLoad] = [
                (
                    batch.slot,
                    batch.unsettled,
                    batch.paced,
                    batch_pages_of(batch.lease.queue, self.settings),
                )
                for batch in self.keeper.batches.values()
                if batch.moved_at
            ]
            loads += self.services.slot_loads()
            if loads:
                # A freed slot may begin another batch, which may start a thread.
                await asyncio.to_thread(self._set_slot_costs, loads)

    def _set_slot_costs(self, loads: Sequence[SlotLoad]) -> None:
        for slot, pages, paced, full in loads:
            if slot is not None:
                slot.weigh(pages - paced, paced, full)
