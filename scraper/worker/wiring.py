"""What a worker process is made of, put together once: each part is given the parts it needs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import redis.asyncio as aredis
import sqlalchemy as sa

from scraper.crawl.context import CrawlContexts
from scraper.domain import Message
from scraper.extract.subprocess.pool import ExtractionPool
from scraper.http.fetcher import HttpFetcher
from scraper.plugins.accounts.file import AccountFile
from scraper.plugins.accounts.pool import Logins
from scraper.plugins.accounts.store import LoginStore
from scraper.plugins.archive.spool import Archive
from scraper.plugins.browser.call_pages import CallPages
from scraper.plugins.browser.pool import Browsers
from scraper.plugins.dedup.remembered_links import RememberedLinks
from scraper.plugins.functions.clients import Clients
from scraper.plugins.functions.request_sender import RequestSender
from scraper.plugins.functions.runner import CallRunner
from scraper.plugins.functions.store import Groups
from scraper.plugins.functions.transport import PoliteTransport
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.robots_cache import RobotsCache
from scraper.politeness.robots_store import RobotsTexts
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import ProxyHealth
from scraper.proxies.pool import ProxyPool
from scraper.proxies.rotation import ProxyRotation
from scraper.settings import Settings
from scraper.worker.batch_processor import Scraper
from scraper.worker.commit import Settler
from scraper.worker.page_fetch import PageFetcher
from scraper.worker.telemetry import Telemetry
from scraper.worker.tiers import TierChoice, begin_probe
from scraper.worker.writer import Writer

# Of one process.
REDIS_CONNECTIONS = 32


class Services:
    """The parts that live as long as the process. Made on its loop, and closed there. `worker`
    names it in the frontier; `wants_work`: whether pages that are found may be sent out at once."""

    def __init__(
        self,
        settings: Settings,
        *,
        worker: str,
        engine: sa.Engine,
        contexts: CrawlContexts,
        telemetry: Telemetry,
        send: Callable[[Sequence[Message]], None],
        wants_work: Callable[[], bool],
    ) -> None:
        self.redis = redis = _redis(settings)
        rng = random.Random()
        self.fetcher, self.browsers = HttpFetcher(), Browsers(settings)
        self.limiters = HostLimiters(
            RedisFleetLimiter(redis, f"{worker}:{random.getrandbits(32):08x}")
        )
        robots = RobotsCache(self.fetcher, RobotsTexts(redis))
        self.proxies = ProxyPool(ProxyFile(settings.proxy_list), ProxyHealth(redis), rng)
        rotation = ProxyRotation(self.proxies)
        self.logins = Logins(
            fetcher=self.fetcher,
            pool=self.proxies,
            limiters=self.limiters,
            file=AccountFile(settings.accounts),
            store=LoginStore(redis),
            settings=settings,
            rng=rng,
        )
        self.dedup = RememberedLinks(settings)
        self.settler = Settler(
            engine=engine,
            worker=worker,
            contexts=contexts,
            dedup=self.dedup,
            telemetry=telemetry,
            send=send,
            wants_work=wants_work,
        )
        self.writer, self.archive = Writer(self.settler.store), Archive(engine, settings)
        self.tiers = TierChoice(partial(begin_probe, engine), rng)
        self.page_reader = ExtractionPool()
        self.scraper = Scraper(
            page_fetcher=PageFetcher(
                fetcher=self.fetcher,
                rotation=rotation,
                limiters=self.limiters,
                robots=robots,
                logins=self.logins,
                browsers=self.browsers,
            ),
            page_reader=self.page_reader,
            tiers=self.tiers,
            limiters=self.limiters,
            writer=self.writer,
            contexts=contexts.of,
            rng=rng,
            telemetry=telemetry,
            archive=self.archive,
        )
        self.request_sender = RequestSender()
        self.call_runner = self._make_call_runner(settings, robots, rotation)

    def _make_call_runner(
        self, settings: Settings, robots: RobotsCache, rotation: ProxyRotation
    ) -> CallRunner:
        """What runs users' functions, on the parts that pages are fetched by."""
        transport = PoliteTransport(
            sender=self.request_sender, limiters=self.limiters, robots=robots, rotation=rotation
        )
        return CallRunner(
            groups=Groups(self.redis, settings.lease_s),
            clients=Clients(transport, settings.client_init),
            pages=CallPages(self.browsers, transport, self.proxies),
            settings=settings,
        )

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What each part does by itself, for as long as the process lives."""
        return self.writer.run(), self.proxies.run(), self.logins.run()

    async def aclose(self, within_s: float) -> None:
        """Gives back what the fleet shares (the hosts' turns) and closes every connection."""
        # Where Redis hangs, the shares run out by themselves.
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s / 4):
                await self.limiters.sweep()
        await self.proxies.flush_within(within_s / 8)
        await self.logins.close(within_s / 8)
        await self.call_runner.aclose()
        await self.request_sender.aclose()
        await self.browsers.aclose()
        await self.fetcher.aclose()
        await self.redis.aclose()
        self.page_reader.close()
        self.writer.close()
        self.dedup.close()
        self.archive.close()


def _redis(settings: Settings) -> aredis.Redis:
    # Whoever finds all connections in use waits: redis-py's default is to tell the 101st that Redis
    # is away.
    pool = aredis.BlockingConnectionPool.from_url(
        settings.valkey_url,
        max_connections=REDIS_CONNECTIONS,
        timeout=10,
        socket_connect_timeout=5,
        socket_timeout=10,
    )
    return aredis.Redis.from_pool(pool)
