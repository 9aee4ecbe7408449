"""A worker process: one event loop in a thread of its own, and what the loop needs, made when first
used.

Keyed by process id, since Celery's pools fork, spawn threads, or do neither: whichever runs a task
first in a process makes that process's runtime. Task threads block on their batch; everything else
happens on the loop.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import redis.asyncio as aredis
import structlog
from sqlalchemy.exc import SQLAlchemyError

from scraper.accounts.file import AccountFile
from scraper.accounts.sessions import Logins
from scraper.accounts.store import LoginStore
from scraper.archive.spool import Archive
from scraper.browser.pool import Browsers
from scraper.calls.clients import Clients
from scraper.calls.context import CallContext, CallContexts
from scraper.calls.functions import Function, resolve
from scraper.calls.group import Group
from scraper.calls.pages import CallPages
from scraper.calls.request_sender import RequestSender
from scraper.calls.runner import CallRunner
from scraper.calls.store import Groups
from scraper.calls.transport import PoliteTransport
from scraper.coordinator.discover import dispatch_message
from scraper.coordinator.dispatch import batch_pages_of
from scraper.crawl.context import CrawlContexts
from scraper.domain import Message
from scraper.errors import FunctionRefusedError
from scraper.frontier import host_tiers
from scraper.frontier.control import Control, poll
from scraper.frontier.host_tiers import TierKey
from scraper.http.fetcher import HttpFetcher
from scraper.infra import outages, slots
from scraper.infra.database import make_engine
from scraper.infra.slots import SharedExclusiveLock, SlotCost
from scraper.infra.tracing import make_tracing
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.robots_cache import RobotsCache
from scraper.politeness.robots_store import RobotsTexts
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import ProxyHealth
from scraper.proxies.pool import ProxyPool
from scraper.proxies.rotation import ProxyRotation
from scraper.rules.escalation import Ladder
from scraper.settings import Settings
from scraper.settle.remembered_links import RememberedLinks
from scraper.worker.batch import Batch
from scraper.worker.claim import Claimed, Claims
from scraper.worker.commit import Settler
from scraper.worker.page_fetch import PageFetcher
from scraper.worker.pipeline import Scraper
from scraper.worker.telemetry import Telemetry
from scraper.worker.tiers import TierChoice
from scraper.worker.writer import Pending, Writer

if TYPE_CHECKING:
    from scraper.infra.meters import WorkerMeters

log = structlog.get_logger()

TURN_S = 1.0
STUCK_MARGIN_S = 30.0
# for others to end: less than an unclaimed lease lives
ALONE_WAIT_S = 15.0
# for storing what a worker that was told to stop still holds
GIVE_UP_S = 5.0
# leases prolonged, ended crawls noticed, idle hosts released
KEEPER_S = 2.0
# batches under way: with more of them, pages that were found wait for the next tick
HUNGRY = 4
WEIGH_S = 0.2
REDIS_CONNECTIONS = 32  # of this process
CLOSE_S = 10.0

Send = Callable[[Sequence[Message]], None]


class Worker:
    """Everything one process shares between its batches. `send` publishes messages and may be
    called from any thread."""

    def __init__(self, settings: Settings, send: Send, meters: WorkerMeters | None = None) -> None:
        self.settings = settings
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.engine = make_engine(settings.postgres_url)
        self._tracing = make_tracing(self.name)
        self._telemetry = Telemetry(meters, self._tracing)
        self._send = send
        self._batches: dict[UUID, Batch] = {}
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._places = SharedExclusiveLock()
        self._asking: asyncio.Future[tuple[set[UUID], set[int], Control]] | None = None
        self._turned_at = time.monotonic()
        self._claims = Claims(self.engine, self.name, settings)
        self._contexts = CrawlContexts(self.engine, settings)
        self._call_contexts = CallContexts(settings)
        self._stopping = False
        self._steered_at = 0.0
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
        if claimed.low:
            self._send([dispatch_message()])
        # stuck: the keeper has said so, and the lease runs out
        with suppress(CancelledError):
            asyncio.run_coroutine_threadsafe(
                self._batch(claimed, slots.current_slot()), self._loop
            ).result()

    def call(self, message: str) -> None:
        """Runs a user's function for a group of inputs; returns when the last result has been
        sent."""
        with self._places.shared():
            group, asked = Group.of(message), time.monotonic()
            try:
                function = resolve(group.function, self.settings.function_modules)
                with self.engine.begin() as connection:
                    said, context = (
                        poll(connection, ()).control,
                        self._call_contexts.of(group.options, connection),
                    )
            except FunctionRefusedError as refused:
                work = self._call_runner.refuse(group, str(refused))
            else:
                work = self._call(group, context, function, said, asked, slots.current_slot())
            asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _call(
        self,
        group: Group,
        context: CallContext,
        function: Function,
        said: Control,
        asked: float,
        place: SlotCost | None,
    ) -> None:
        self._steer(said, asked)
        await self._call_runner.run(group, context, function, place)

    @property
    def archived(self) -> tuple[int, int]:
        """Pages that this process has archived, and those it could not."""
        return self._archive.stored, self._archive.lost

    @property
    def batches(self) -> int:
        """Batches under way."""
        return len(self._batches)

    @property
    def silent_s(self) -> float:
        """Seconds since the loop last turned: more than a few mean that something blocks it."""
        return time.monotonic() - self._turned_at

    @property
    def lost(self) -> int:
        """Pages that could neither be stored nor handed back before the process had to end."""
        return self._writer.lost

    def stop(self) -> None:
        """Hands back what has not been begun at once, and what is under way if it has not ended
        `stop_s` later. Callable from a signal handler."""
        if not self._stopping:
            self._stopping = True
            self._loop.call_soon_threadsafe(self._hand_back)

    def close(self) -> None:
        """Gives back what the fleet shares (the hosts' turns) and closes every connection. After
        the last batch."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        self._loop.close()
        self.engine.dispose()
        if self._tracing is not None:
            self._tracing.close()

    async def _close(self) -> None:
        for service in self._services:
            service.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)
        # a Redis that hangs: the shares run out by themselves
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S / 4):
                await self._limiters.sweep()
        await self._proxies.tell_in(CLOSE_S / 8)
        await self._logins.close(CLOSE_S / 8)
        await self._call_runner.aclose()
        await self._request_sender.aclose()
        await self._browsers.aclose()
        await self._fetcher.aclose()
        await self._redis.aclose()
        self._writer.close()
        self._dedup.close()
        self._archive.close()
        # in a thread, which a cancelled keeper leaves behind
        if self._asking is not None:
            for answered in (await asyncio.wait([self._asking], timeout=CLOSE_S / 4))[0]:
                # looked at, or asyncio complains
                answered.exception()

    def _hand_back(self) -> None:
        self._call_runner.stop()
        self._handing_back = [
            asyncio.ensure_future(self._scraper.hand_back(each)) for each in self._batches.values()
        ]
        self._loop.call_later(self.settings.stop_s, self._cut_short)

    def _cut_short(self) -> None:
        for batch in self._batches.values():
            batch.cut()
        self._call_runner.cut()
        self._writer.give_up_in(GIVE_UP_S)

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
        # Whoever finds all of them in use waits: redis-py's default is to tell the 101st that Redis
        # is away.
        pool = aredis.BlockingConnectionPool.from_url(
            self.settings.valkey_url,
            max_connections=REDIS_CONNECTIONS,
            timeout=10,
            socket_connect_timeout=5,
            socket_timeout=10,
        )
        self._redis = aredis.Redis.from_pool(pool)
        self._fetcher = HttpFetcher()
        self._browsers = Browsers(self.settings)
        self._limiters = HostLimiters(
            RedisFleetLimiter(self._redis, f"{self.name}:{random.getrandbits(32):08x}")
        )
        self._dedup = RememberedLinks(self.settings)
        self._settler = Settler(
            engine=self.engine,
            worker=self.name,
            contexts=self._contexts,
            dedup=self._dedup,
            telemetry=self._telemetry,
            send=self._send,
            hungry=lambda: len(self._batches) <= HUNGRY,
        )
        self._writer = Writer(self._settler.store)
        self._proxies = ProxyPool(
            ProxyFile(self.settings.proxy_list), ProxyHealth(self._redis), random.Random()
        )
        self._logins = Logins(
            fetcher=self._fetcher,
            pool=self._proxies,
            limiters=self._limiters,
            file=AccountFile(self.settings.accounts),
            store=LoginStore(self._redis),
            settings=self.settings,
            rng=random.Random(),
        )
        rotation, robots = (
            ProxyRotation(self._proxies),
            RobotsCache(self._fetcher, RobotsTexts(self._redis)),
        )
        page_fetcher = PageFetcher(
            fetcher=self._fetcher,
            rotation=rotation,
            limiters=self._limiters,
            robots=robots,
            logins=self._logins,
            browsers=self._browsers,
        )
        self._request_sender = RequestSender()
        transport = PoliteTransport(
            sender=self._request_sender, limiters=self._limiters, robots=robots, rotation=rotation
        )
        self._call_runner = CallRunner(
            groups=Groups(self._redis, self.settings.lease_s),
            clients=Clients(transport, self.settings.client_init),
            pages=CallPages(self._browsers, transport, self._proxies),
            settings=self.settings,
        )
        self._archive = Archive(self.engine, self.settings)
        self._tiers = TierChoice(self._begin_probe, random.Random())
        self._scraper = Scraper(
            page_fetcher=page_fetcher,
            tiers=self._tiers,
            limiters=self._limiters,
            writer=self._writer,
            contexts=self._contexts.of,
            rng=random.Random(),
            telemetry=self._telemetry,
            archive=self._archive,
        )
        services = (
            self._writer.run(),
            self._keep(),
            self._proxies.run(),
            self._turn(),
            self._weigh(),
            self._logins.run(),
        )
        self._services = [self._loop.create_task(each) for each in services]

    async def _batch(self, claimed: Claimed, place: SlotCost | None) -> None:
        lease = claimed.lease
        self._steer(claimed.said, claimed.asked)
        batch = Batch(
            lease,
            latest=self._loop.time() + self.settings.horizon_s,
            ours_until=claimed.ours_until,
            pending=Pending(len(lease.pages)),
            handed_back=self._stopping,
            inactive_crawls=claimed.inactive,
            place=place,
        )
        self._batches[lease.id] = batch
        self._tasks[lease.id] = task = asyncio.ensure_future(self._scraper.batch(batch))
        try:
            await task
        finally:
            self._batches.pop(lease.id, None)
            self._tasks.pop(lease.id, None)

    async def _turn(self) -> None:
        while True:
            self._turned_at = time.monotonic()
            await asyncio.sleep(TURN_S)

    async def _weigh(self) -> None:
        while True:
            await asyncio.sleep(WEIGH_S)
            left = [
                (
                    batch.place,
                    batch.unsettled,
                    batch.paced,
                    batch_pages_of(batch.lease.queue, self.settings),
                )
                for batch in self._batches.values()
                if batch.moved_at
            ]
            left += self._call_runner.left()
            # where one begins, it may have to start a thread
            await asyncio.to_thread(self._weigh_places, left)

    def _weigh_places(self, left: Sequence[tuple[SlotCost | None, int, int, int]]) -> None:
        for place, pages, paced, full in left:
            if place is not None:
                place.weigh(pages - paced, paced, full)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEPER_S)
            try:
                await self._keep_once()
            except Exception as error:
                if outages.postgres_away(error):
                    outages.postgres().failed(error)
                else:
                    log.exception("could not prolong leases")

    async def _keep_once(self) -> None:
        await self._limiters.sweep()
        self._cancel_stuck()
        batches = dict(self._batches)
        if not batches and not self._call_runner.active:
            return
        began = self._loop.time()
        crawl_ids = {page.crawl_id for batch in batches.values() for page in batch.lease.pages}
        self._asking = asyncio.ensure_future(
            asyncio.to_thread(self._claims.prolong, list(batches), list(crawl_ids))
        )
        mine, running, said = await asyncio.shield(self._asking)
        self._steer(said, began)
        outages.postgres().answered()
        for lease_id, batch in batches.items():
            batch.lost = batch.lost or (lease_id not in mine and lease_id in self._batches)
            batch.inactive_crawls = crawl_ids - running
            if lease_id in mine:
                batch.ours_until = began + self.settings.lease_s

    def _cancel_stuck(self) -> None:
        """A lease is prolonged while its batch moves. Every page has its own deadline, so one that
        stands still for longer than these take together has met a fault of ours: its lease is left
        to run out."""
        longest_s = self.settings.horizon_s + 2 * self.settings.page_timeout_s + STUCK_MARGIN_S
        for lease_id, batch in list(self._batches.items()):
            if batch.unsettled and self._loop.time() - batch.moved_at > longest_s:
                log.error("batch stuck, given up", lease=str(lease_id), unsettled=batch.unsettled)
                self._batches.pop(lease_id)
                self._tasks[lease_id].cancel()

    def _steer(self, said: Control, asked: float) -> None:
        """A claim's answer may be heard after one that was asked for later."""
        if asked >= self._steered_at:
            self._steered_at = asked
            self._limiters.apply_overrides(said.overrides)
            self._tiers.steer(said.routes, said.now)

    def _begin_probe(self, key: TierKey, steps: Ladder) -> bool:
        """Raises nothing: where PostgreSQL does not answer, somebody else probes later."""
        try:
            with self.engine.begin() as connection:
                return host_tiers.begin_probe(connection, key, steps)
        except SQLAlchemyError as error:
            if not outages.record(error):
                log.exception("could not begin a probe", host=key.host)
            return False
