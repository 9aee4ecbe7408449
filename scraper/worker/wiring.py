"""Builds a worker process's services, and gives each the services that it needs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import sqlalchemy as sa

from scraper.crawl.context import CrawlContexts
from scraper.crawl.isolation import isolated
from scraper.domain import Message
from scraper.extract.subprocess.pool import ExtractionPool
from scraper.frontier.control import HostControl
from scraper.http.fetcher import HttpFetcher
from scraper.infra import redis_clients
from scraper.plugin import WorkerPart
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.robots_cache import RobotsCache
from scraper.politeness.robots_store import RobotsTexts
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import ProxyHealth
from scraper.proxies.pool import ProxyPool
from scraper.proxies.rotation import ProxyRotation
from scraper.registry import active_plugins, resolve
from scraper.settings import Settings
from scraper.worker.batch_processor import BatchProcessor
from scraper.worker.commit import Settler
from scraper.worker.host import SlotLoad, WorkerHost
from scraper.worker.page_fetch import PageFetcher
from scraper.worker.telemetry import Telemetry
from scraper.worker.tiers import TierChoice, begin_probe
from scraper.worker.writer import Writer

# With more moving batches, new pages wait for the next dispatch tick.
BATCHES_WANTED = 4


class Services:
    """The services that live as long as the process. Made and closed on its loop. `worker` is the
    process's name in the frontier."""

    def __init__(
        self,
        settings: Settings,
        *,
        worker: str,
        engine: sa.Engine,
        contexts: CrawlContexts,
        send: Callable[[Sequence[Message]], None],
        apply_control: Callable[[HostControl, float], None],
        count_batches: Callable[[], int],
        loop_silent_s: Callable[[], float],
    ) -> None:
        self.redis = redis = redis_clients.connect_async(settings.valkey_url)
        rng = random.Random()
        self.fetcher = HttpFetcher()
        self.limiters = HostLimiters(
            RedisFleetLimiter(redis, f"{worker}:{random.getrandbits(32):08x}")
        )
        self.proxies = ProxyPool(ProxyFile(settings.proxy_list), ProxyHealth(redis), rng)
        self.host = WorkerHost(
            settings=settings,
            name=worker,
            engine=engine,
            redis=redis,
            rng=rng,
            loop=asyncio.get_running_loop(),
            fetcher=self.fetcher,
            limiters=self.limiters,
            robots=RobotsCache(self.fetcher, RobotsTexts(redis)),
            proxies=self.proxies,
            rotation=ProxyRotation(self.proxies),
            send=send,
            apply_control=apply_control,
            count_batches=count_batches,
            loop_silent_s=loop_silent_s,
        )
        self.parts = self.host.parts
        for plugin in active_plugins():
            if plugin.worker is not None:
                self.parts[plugin.name] = resolve(plugin.worker)(self.host)
        telemetry = Telemetry([part.observer for part in self.parts.values() if part.observer])
        self.settler = Settler(
            engine=engine,
            worker=worker,
            contexts=contexts,
            parts=self.parts,
            telemetry=telemetry,
            send=send,
            wants_work=lambda: self.processor.moving <= BATCHES_WANTED,
        )
        self.writer = Writer(self.settler.store)
        self.tiers = TierChoice(partial(begin_probe, engine), rng)
        self.extraction_pool = ExtractionPool()
        self.processor = BatchProcessor(
            page_fetcher=PageFetcher(
                fetcher=self.fetcher,
                rotation=self.host.rotation,
                limiters=self.limiters,
                robots=self.host.robots,
                sessions=self.host.sessions,
                browser=self.host.browser,
            ),
            extraction_pool=self.extraction_pool,
            tiers=self.tiers,
            limiters=self.limiters,
            writer=self.writer,
            contexts=contexts.context_of,
            rng=rng,
            telemetry=telemetry,
            parts=self.parts,
        )

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Returns what the services run for as long as the process lives."""
        runs = [_run_part(name, part) for name, part in self.parts.items()]
        return self.writer.run(), self.proxies.run(), *runs

    def slot_loads(self) -> list[SlotLoad]:
        """Returns what the plug-ins' tasks take up of the worker's slots."""
        loads: list[SlotLoad] = []
        for name, part in self.parts.items():
            with isolated(name, "slot_loads"):
                loads += part.slot_loads()
        return loads

    async def aclose(self, within_s: float) -> None:
        """Releases the hosts' slots, which the fleet shares, and closes every connection."""
        # Parts end their requests first, which hold slots.
        for name, part in self.parts.items():
            with isolated(name, "aclose"):
                await part.aclose(within_s / 8)
        # If Redis hangs, the slots expire without being released.
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s / 4):
                await self.fetcher.aclose()
                await self.limiters.sweep()
        await self.proxies.flush_within(within_s / 8)
        await self.redis.aclose()
        self.extraction_pool.close()
        self.writer.close()


async def _run_part(name: str, part: WorkerPart) -> None:
    with isolated(name, "run"):
        await part.run()
