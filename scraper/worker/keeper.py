"""Claims a worker process's leases when their messages come, and prolongs them while their batches
are under way.

Each claim and prolongation also returns `frontier.control`'s news: which crawls go on, how many
batches wait in the queue, and operators' settings for hosts. Task threads make the claims;
`scraper.worker.batch_processor` settles the pages.
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

# With up to this many unclaimed batches per busy worker the worker requests more. It has claimed
# some more itself.
LOW_WATER = 2
# Between two requests, unless the queue has less than one batch per worker.
ASK_PAUSE_S = 0.25
# How often leases are prolonged and idle hosts released.
KEEPER_S = 2.0
STUCK_MARGIN_S = 30.0


class Claimed(NamedTuple):
    """A claimed lease, which the worker holds until `lease_expires_at` of its own clock.

    `inactive` are its crawls that must not be fetched now; `queue_low` says that more work should
    be requested. `control` holds operators' settings for hosts, read after `asked` of the worker's
    clock.
    """

    lease: Lease
    lease_expires_at: float
    inactive: set[int]
    queue_low: bool
    asked: float
    control: HostControl


class Claims:
    """Claims and prolongs one worker's leases. Thread-safe."""

    def __init__(self, engine: sa.Engine, worker: str, settings: Settings) -> None:
        self._engine = engine
        self._worker = worker
        self._settings = settings
        self._asked_at = 0.0

    def claim_lease(
        self, lease_id: UUID, *, alone: bool, stopping: Callable[[], bool]
    ) -> Claimed | None:
        """Claims a lease; returns None if it is no longer available.

        Retries for as long as a batch may last while PostgreSQL does not answer, unless the process
        is `stopping`: the lease would otherwise stay unused until the coordinator takes it back.
        """
        claim_id = uuid4()
        return outages.retry_until_available(
            lambda: self._try_claim(lease_id, claim_id, alone),
            self._settings.horizon_s,
            stopping=stopping,
        )

    def _try_claim(self, lease_id: UUID, claim_id: UUID, alone: bool) -> Claimed | None:
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
            news = poll_frontier(connection, crawl_ids, lease.queue)
        low = self._is_queue_low(news.batches, news.workers)
        return Claimed(lease, lease_expires_at, crawl_ids - news.running, low, asked, news.control)

    def _is_queue_low(self, waiting: int, workers: int) -> bool:
        """Returns True if more work should be requested. While some batches wait, this happens only
        every `ASK_PAUSE_S`: a request costs the same for one batch as for many."""
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
        """Returns which of the leases the worker still holds, which of the crawls go on, and
        operators' settings for hosts."""
        with self._engine.begin() as connection:
            held = leases.extend_leases(connection, lease_ids, self._settings.lease_s)
            news = poll_frontier(connection, crawl_ids)
        return held, news.running, news.control


class Keeper:
    """Keeps batches going: prolongs their leases, notices ended crawls, applies operators' settings
    for hosts, and gives up stuck batches. One a process, on its loop. `batches` and `tasks` are
    keyed by lease."""

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
        """Settles a batch, and prolongs its lease until it is settled."""
        lease_id = batch.lease.id
        self.batches[lease_id] = batch
        self.tasks[lease_id] = task = asyncio.ensure_future(
            self._services.processor.settle_batch(batch)
        )
        try:
            await task
        finally:
            self.batches.pop(lease_id, None)
            self.tasks.pop(lease_id, None)

    def apply(self, control: HostControl, asked: float) -> None:
        """Applies operators' settings, unless newer ones were applied before: a slow claim may
        return after a prolongation that `asked` later."""
        if asked >= self._control_at:
            self._control_at = asked
            self._services.limiters.apply_overrides(control.overrides)
            self._services.tiers.apply_routes(control.routes, control.now)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(KEEPER_S)
            try:
                await self._prolong_leases()
            except Exception as error:
                if outages.is_postgres_away(error):
                    outages.postgres().record_failure(error)
                else:
                    log.exception("could not prolong leases")

    async def aclose(self, within_s: float) -> None:
        """Waits for the last prolongation, whose thread goes on after `run` is cancelled."""
        if self._prolonging is not None:
            for finished in (await asyncio.wait([self._prolonging], timeout=within_s))[0]:
                # Retrieve the exception, or asyncio logs an error about it.
                finished.exception()

    async def _prolong_leases(self) -> None:
        await self._services.limiters.sweep()
        self._cancel_stuck()
        batches = dict(self.batches)
        if not batches and not self._services.slot_loads():
            return
        began = self._loop.time()
        crawl_ids = {page.crawl_id for batch in batches.values() for page in batch.lease.pages}
        self._prolonging = asyncio.ensure_future(
            asyncio.to_thread(self._claims.prolong, list(batches), list(crawl_ids))
        )
        held, running, control = await asyncio.shield(self._prolonging)
        self.apply(control, began)
        outages.postgres().record_answer()
        for lease_id, batch in batches.items():
            batch.lost = batch.lost or (lease_id not in held and lease_id in self.batches)
            batch.inactive_crawls = crawl_ids - running
            if lease_id in held:
                batch.lease_expires_at = began + self._settings.lease_s

    def _cancel_stuck(self) -> None:
        """Gives up batches that make no progress, so that their leases expire. Every page has a
        deadline, so a batch without progress for longer than all deadlines together has met a bug
        in the worker, unless its pages cannot be stored."""
        longest_s = self._settings.horizon_s + 2 * self._settings.page_timeout_s + STUCK_MARGIN_S
        for lease_id, batch in list(self.batches.items()):
            if self._services.writer.away:
                batch.moved_at = self._loop.time()
            elif batch.unsettled and self._loop.time() - batch.moved_at > longest_s:
                log.error("batch stuck, given up", lease=str(lease_id), unsettled=batch.unsettled)
                self.batches.pop(lease_id)
                self.tasks[lease_id].cancel()
