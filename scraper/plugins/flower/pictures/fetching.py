"""Requests a shop's picture as a crawl requests its pages: through the guard, with a permit of the
fleet's budget for the host, as robots.txt allows, and never without the proxy or login that the
site's pages need. Bounded in bytes and time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from scraper.crawl.context import CrawlContext, make_context
from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import DeferredError, FetchError
from scraper.http.fetcher import HttpFetcher
from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.infra import redis_clients
from scraper.plugins.flower.pictures.raster import NotAPictureError, identify_raster
from scraper.plugins.flower.pictures.store import ProductPicture, Stored
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.politeness.robots import require_allowed
from scraper.politeness.robots_cache import RobotsCache
from scraper.politeness.robots_store import RobotsTexts
from scraper.rules.budget import Override
from scraper.rules.urls import host_of
from scraper.rules.verdict import outcome_of_status, retry_after_s
from scraper.settings import Settings
from scraper.sites.definition import Site

BODY_MAX_BYTES = 2_000_000
REDIRECTS_MAX = 3
# A person looks at an empty frame.
WAIT_S, PICTURE_S = 8.0, 15.0
AT_ONCE = 6
PROBLEM_MAX_CHARS = 300
ACCEPT = {"Accept": "image/avif,image/webp,image/png,image/jpeg,image/gif;q=0.9"}


class PictureFetcher:
    """Belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        redis = redis_clients.connect_async(settings.valkey_url)
        self._fetcher = HttpFetcher(PoolOptions(max_connections=AT_ONCE))
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._limiters = HostLimiters(
            RedisFleetLimiter(redis, f"pictures:{random.getrandbits(32):08x}")
        )
        self._robots = RobotsCache(self._fetcher, RobotsTexts(redis))

    async def fetch(self, wanted: ProductPicture, overrides: Mapping[str, Override]) -> Stored:
        """Returns the picture, or the problem. `overrides`: what operators have set for hosts.
        Raises `DeferredError` if the host's budget has no request left."""
        self._limiters.apply_overrides(overrides)
        try:
            async with asyncio.timeout(WAIT_S):
                await self._slots.acquire()
        except TimeoutError:
            # Slow hosts have all of them.
            raise DeferredError(WAIT_S) from None
        try:
            return await self._fetch_picture(wanted)
        except (FetchError, NotAPictureError) as error:
            return Stored(None, None, str(error).replace("\0", "")[:PROBLEM_MAX_CHARS])
        finally:
            self._slots.release()
            await self._limiters.sweep()

    async def _fetch_picture(self, wanted: ProductPicture) -> Stored:
        context = self._make_context(wanted)
        try:
            async with asyncio.timeout(WAIT_S + PICTURE_S):
                fetched = await self._fetch_body(wanted.url, context)
        except TimeoutError:
            reason = f"no answer within {WAIT_S + PICTURE_S:g} s"
            raise FetchError(Outcome.TIMEOUT, reason, url=wanted.url) from None
        return Stored(identify_raster(fetched.body).media_type, fetched.body, None)

    def _make_context(self, wanted: ProductPicture) -> CrawlContext:
        """Returns the rules of the site's pages, without its headers, which may be secrets: a
        picture may be on any host. Raises `FetchError` where they require more than a request."""
        site = Site.model_validate(wanted.definition)
        context = make_context(0, wanted.site_id, site, self._settings)
        if context.needs[Kind.PRODUCT] is not None or context.login is not None:
            reason = "the shop's pages are read through a proxy or with a login"
            raise FetchError(Outcome.NO_PROXY, reason, url=wanted.url)
        policy = replace(
            context.policy,
            headers={},
            allowed=None,
            cookies=None,
            body_max_bytes=BODY_MAX_BYTES,
            wire_max_bytes=BODY_MAX_BYTES,
            redirects_max=REDIRECTS_MAX,
            page_timeout_s=min(context.policy.page_timeout_s, PICTURE_S),
        )
        return replace(context, policy=policy)

    async def _fetch_body(self, url: str, context: CrawlContext) -> Fetched:
        """Returns an answer with success."""
        permits, deadline_at = PagePermits(), asyncio.get_running_loop().time() + WAIT_S

        async def permit_hop(url: str) -> None:
            limiter = self._limiters.for_host(host_of(url))
            limiter.set_budget(context.site_id, context.budget)
            permits.release()
            await self._apply_robots(url, context, limiter, deadline_at)
            await permits.acquire(limiter, deadline_at)

        try:
            await permit_hop(url)
            fetched = await self._fetcher.fetch(
                url, context.policy, before_hop=permit_hop, extra_headers=ACCEPT
            )
            wait_s = retry_after_s(fetched.headers, datetime.now(UTC))
            outcome = outcome_of_status(fetched.status, retry_after=wait_s is not None)
            if permits.limiter is not None:
                await permits.limiter.heed_answer(
                    outcome, fetched.status, permits.began, retry_after_s=wait_s
                )
        finally:
            permits.release()
        if outcome is not Outcome.FETCHED:
            raise FetchError(outcome, f"the host answered {fetched.status}", url=url)
        return fetched

    async def _apply_robots(
        self, url: str, context: CrawlContext, limiter: HostLimiter, deadline_at: float
    ) -> None:
        """Raises `FetchError` if robots.txt disallows the picture."""
        if not context.site.robots:
            return

        @asynccontextmanager
        async def hold_permit() -> AsyncIterator[None]:
            async with limiter.permit(deadline_at):
                yield

        async def permit_hop(url: str) -> None:
            await self._limiters.for_host(host_of(url)).take_slot(deadline_at)

        rules = require_allowed(
            await self._robots.rules(url, context, hold_permit, permit_hop), url
        )
        limiter.set_crawl_delay(context.site_id, rules.crawl_delay_s or 0.0)
