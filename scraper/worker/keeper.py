"""The leases of a worker process: taken when their message comes, prolonged while their batches are
under way.

With each answer the process hears what it has to know besides (`frontier.control`): which crawls go
on, how its queue stands, what operators say of hosts. Claims are made in task threads; what is done
with a lease is `scraper.worker.batch_processor`'s.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

import sqlalchemy as sa
import structlog

from scraper.domain import Lease
from scraper.frontier import leases
from scraper.frontier.control import HostControl, poll_frontier
from scraper.infra import outages
from scraper.settings import Settings
from scraper.worker.batch import Batch
from scraper.worker.wiring import Services

log = structlog.get_logger()

# With so many unclaimed batches for each busy worker it asks for more. It holds some more claimed.
LOW_WATER = 2
# Between such questions, unless there are next to none.
ASK_PAUSE_S = 0.25
# Leases are prolonged, and idle hosts released.
KEEPER_S = 2.0
STUCK_MARGIN_S = 30.0


class Claimed(NamedTuple):
    """A lease that is ours until a time of our own clock; which of its crawls are not to be fetched
    now; whether its queue runs low; and what is said of hosts, as it was after a time of our own
    clock."""

    lease: Lease
    lease_expires_at: float
    inactive: set[int]
    queue_low: bool
    asked: float
    control: HostControl


class Claims:
    """Those of one process, in the name of its worker. From any thread."""

    def __init__(self, engine: sa.Engine, worker: str, settings: Settings) -> None:
        self._engine = engine
        self._worker = worker
        self._settings = settings
        self._asked_at = 0.0

    def take(self, lease_id: UUID, *, alone: bool, stopping: Callable[[], bool]) -> Claimed | None:
        """None where the lease is not to be had any more. Where PostgreSQL does not answer, asks
        again for as long as a batch may last, unless the process is `stopping`: else the lease
        would have to wait for somebody to take it back."""
        claim_id = uuid4()
        return outages.retry_until_available(
            lambda: self._take(lease_id, claim_id, alone),
            self._settings.horizon_s,
            stopping=stopping,
        )

    def _take(self, lease_id: UUID, claim_id: UUID, alone: bool) -> Claimed | None:
        asked = time.monotonic()
        lease_expires_at = asked + self._settings.lease_s
        with self._engine.begin() as connection:
            lease = leases.claim_lease(
                connection,
                lease_id,
                self._worker,
                self._settings.lease_s,
                claim_id=claim_id,
                alone=alone,
            )
            if lease is None:
                return None
            crawl_ids = {page.crawl_id for page in lease.pages}
            heard = poll_frontier(connection, crawl_ids, lease.queue)
        low = self._low(heard.batches, heard.workers)
        return Claimed(
            lease, lease_expires_at, crawl_ids - heard.running, low, asked, heard.control
        )

    def _low(self, waiting: int, workers: int) -> bool:
        """Whether more is to be asked for. As long as there are some, now and then is enough: it
        costs the same for one."""
        now = time.monotonic()
        if waiting > LOW_WATER * workers or (
            waiting > workers and now < self._asked_at + ASK_PAUSE_S
        ):
            return False
        self._asked_at = now
        return True

    def prolong(
        self, lease_ids: Sequence[UUID], crawl_ids: Sequence[int]
    ) -> tuple[set[UUID], set[int], HostControl]:
        """Those of the leases that are still ours, and those of the crawls that go on."""
        with self._engine.begin() as connection:
            mine = leases.extend_leases(connection, lease_ids, self._settings.lease_s)
            heard = poll_frontier(connection, crawl_ids)
        return mine, heard.running, heard.control


class Keeper:
    """Keeps the batches under way: prolongs their leases, notices crawls that have ended, passes on
    what operators say of hosts, and gives up a batch that stands still. One a process, on its loop;
    `batches` and `tasks` are by lease."""

    def __init__(self, settings: Settings, claims: Claims, services: Services) -> None:
        self.batches: dict[UUID, Batch] = {}
        self.tasks: dict[UUID, asyncio.Task[None]] = {}
        self._settings = settings
        self._claims = claims
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._prolonging: asyncio.Future[tuple[set[UUID], set[int], HostControl]] | None = None
        self._control_at = 0.0

    async def settle(self, batch: Batch) -> None:
        """Settles a batch, and keeps it meanwhile."""
        lease_id = batch.lease.id
        self.batches[lease_id] = batch
        self.tasks[lease_id] = task = asyncio.ensure_future(self._services.processor.batch(batch))
        try:
            await task
        finally:
            self.batches.pop(lease_id, None)
            self.tasks.pop(lease_id, None)

    def apply(self, control: HostControl, asked: float) -> None:
        """Takes what operators say, as it was when it was asked for. A claim's answer may be heard
        after one that was asked for later."""
        if asked >= self._control_at:
            self._control_at = asked
            self._services.limiters.apply_overrides(control.overrides)
            self._services.tiers.apply_routes(control.routes, control.now)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(KEEPER_S)
            try:
                await self._keep()
            except Exception as error:
                if outages.is_postgres_away(error):
                    outages.postgres().record_failure(error)
                else:
                    log.exception("could not prolong leases")

    async def aclose(self, within_s: float) -> None:
        """Waits for the last question, which is in a thread that a cancelled `run` leaves
        behind."""
        if self._prolonging is not None:
            for answered in (await asyncio.wait([self._prolonging], timeout=within_s))[0]:
                # An exception that nobody has looked at makes asyncio complain.
                answered.exception()

    async def _keep(self) -> None:
        await self._services.limiters.sweep()
        self._cancel_stuck()
        batches = dict(self.batches)
        if not batches and not any(part.slot_loads() for part in self._services.parts.values()):
            return
        began = self._loop.time()
        crawl_ids = {page.crawl_id for batch in batches.values() for page in batch.lease.pages}
        self._prolonging = asyncio.ensure_future(
            asyncio.to_thread(self._claims.prolong, list(batches), list(crawl_ids))
        )
        mine, running, control = await asyncio.shield(self._prolonging)
        self.apply(control, began)
        outages.postgres().record_answer()
        for lease_id, batch in batches.items():
            batch.lost = batch.lost or (lease_id not in mine and lease_id in self.batches)
            batch.inactive_crawls = crawl_ids - running
            if lease_id in mine:
                batch.lease_expires_at = began + self._settings.lease_s

    def _cancel_stuck(self) -> None:
        """A lease is prolonged while its batch moves. Every page has its own deadline, so one that
        stands still for longer than these take together has met a fault of ours: its lease is left
        to run out."""
        longest_s = self._settings.horizon_s + 2 * self._settings.page_timeout_s + STUCK_MARGIN_S
        for lease_id, batch in list(self.batches.items()):
            if batch.unsettled and self._loop.time() - batch.moved_at > longest_s:
                log.error("batch stuck, given up", lease=str(lease_id), unsettled=batch.unsettled)
                self.batches.pop(lease_id)
                self.tasks[lease_id].cancel()
