"""The services of a worker process that plug-ins use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import redis.asyncio as aredis
import sqlalchemy as sa

from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, LeasedPage, Message
from scraper.frontier.control import HostControl
from scraper.http.account_session import AccountSession
from scraper.http.fetcher import HttpFetcher
from scraper.http.page_browser import PageBrowser
from scraper.infra.slots import SlotCost
from scraper.plugin import WorkerPart
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.politeness.robots_cache import RobotsCache
from scraper.proxies.pool import ProxyPool
from scraper.proxies.rotation import ProxyRotation
from scraper.settings import Settings

# A slot, how many of its pages are left, how many of those only wait for their host's permit, and
# how many pages would fill the slot.
SlotLoad = tuple[SlotCost | None, int, int, int]


class SessionPool(Protocol):
    """Keeps accounts logged in to the sites whose definition asks for it."""

    async def fetch_as_account(
        self,
        page: LeasedPage,
        context: CrawlContext,
        latest: float,
        permits: PagePermits,
        get: Callable[[AccountSession], Awaitable[Fetched]],
    ) -> Fetched:
        """Returns what `get` returns for a logged-in account. Raises what `get` raises,
        `NoLoginError` if the page must wait, and `FetchError` (LOGIN_FAILED, LOGGED_OUT)."""
        ...


@dataclass(kw_only=True, eq=False)
class WorkerHost:
    """The services of a worker process that plug-ins use. One a process; `loop` is its event
    loop."""

    settings: Settings
    name: str
    engine: sa.Engine
    redis: aredis.Redis
    rng: random.Random
    loop: asyncio.AbstractEventLoop
    fetcher: HttpFetcher
    limiters: HostLimiters
    robots: RobotsCache
    proxies: ProxyPool
    rotation: ProxyRotation
    send: Callable[[Sequence[Message]], None]
    # Applies operators' settings for hosts, as they were at that time of `time.monotonic`.
    apply_control: Callable[[HostControl, float], None]
    count_batches: Callable[[], int]
    loop_silent_s: Callable[[], float]
    parts: dict[str, WorkerPart] = field(default_factory=dict)

    @property
    def browser(self) -> PageBrowser | None:
        """The browser of the first plug-in that has one."""
        return next((part.browser for part in self.parts.values() if part.browser), None)

    @property
    def sessions(self) -> SessionPool | None:
        """The accounts of the first plug-in that has some."""
        return next((part.sessions for part in self.parts.values() if part.sessions), None)
