"""Pages for a person at a terminal, read without servers: one request at a time, robots.txt obeyed,
no host asked faster than the definition says. Pages of the queue `browser` are shown by a Chromium
of this machine. Stores nothing.

What the fleet knows of a host (its rests, what operators have set) is in Redis, and not known here.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from time import monotonic

from scraper.crawl.context import make_context
from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import DeferredError, FetchError
from scraper.http.fetcher import HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.infra import logs
from scraper.plugins.browser import chromium
from scraper.plugins.browser.keys import Rendering
from scraper.plugins.browser.permits import BrowserPermits
from scraper.plugins.browser.pool import Browsers
from scraper.politeness.robots import (
    RobotsRules,
    Unavailable,
    fetch_robots,
    origin_of,
    require_allowed,
    robots_url,
    rules_from,
)
from scraper.rules.routing import is_browser_queue
from scraper.rules.urls import host_of
from scraper.rules.verdict import outcome_of_status, retry_after_s
from scraper.settings import Settings
from scraper.sites.definition import Site


class PoliteReader:
    """Reads pages by a site's policy. Belongs to one event loop. `requests` counts what was sent,
    robots.txt and redirects included, and what pages ask for by themselves, which are `extras`.
    `shown`: by a browser, whatever the site says."""

    def __init__(self, site: Site, settings: Settings, *, shown: bool = False) -> None:
        self.context = make_context(0, 0, site, settings)
        self.requests = self.extras = 0
        self._settings, self._shown = settings, shown
        self._browsers: Browsers | None = None
        self._ending = AsyncExitStack()
        self._fetcher = HttpFetcher(PoolOptions(max_connections=4))
        self._rules: dict[str, RobotsRules | Unavailable] = {}
        self._not_before: dict[str, float] = {}
        self._delays: dict[str, float] = {}

    async def __aenter__(self) -> PoliteReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._fetcher.aclose()
        await self._ending.aclose()

    def require_browser(self) -> None:
        """Raises `ConfigError` that says what to install."""
        chromium.require_extra()
        chromium.program(self._settings)

    async def read(
        self, url: str, kind: Kind, *, shown: bool = False, rendering: Rendering | None = None
    ) -> Fetched:
        """The page, answered well. `shown`: by a browser, which does as `rendering` says. Raises
        FetchError, whatever keeps it from that, and `ConfigError` where there is no browser."""
        policy = self.context.policies[kind]
        if policy.proxied:
            raise FetchError(
                Outcome.NO_PROXY,
                "its site goes through proxies, and from here it would not (fix: save the page "
                "and give the file)",
                url=url,
            )
        queue = self.context.choose_route(kind, url).queue
        if kind is not Kind.SITEMAP and (shown or self._shown or is_browser_queue(queue)):
            page = await self._show(url, policy, rendering or self.context.site.browser)
        else:
            await self._before_hop(url)
            page = await self._fetcher.fetch(url, policy, before_hop=self._before_hop)
        block = self.context.block_of(page)
        if block is not None:
            raise FetchError(Outcome.BLOCKED, str(block), url=url, status=page.status)
        wish_s = retry_after_s(page.headers, datetime.now(UTC))
        outcome = outcome_of_status(page.status, retry_after=wish_s is not None)
        if outcome is not Outcome.FETCHED:
            raise FetchError(outcome, f"the answer was {page.status}", url=url, status=page.status)
        return page

    async def _show(self, url: str, policy: FetchPolicy, rendering: Rendering | None) -> Fetched:
        if self._browsers is None:
            self.require_browser()
            self._ending.enter_context(logs.warnings_alone())
            self._browsers = Browsers(self._settings, pages=1)
            self._ending.push_async_callback(self._browsers.aclose)
        permits = BrowserPermits(self._before_hop, self._before_sub, paid=False)
        try:
            # One page after the other: there is no slot to wait for.
            return await self._browsers.fetch(url, policy, rendering, permits=permits)
        except DeferredError:
            raise FetchError(
                Outcome.DEFERRED,
                "the browser did not start, or was lost (fix: `celery -A scraper worker -Q "
                "browser` says at its start what it lacks)",
                url=url,
            ) from None

    async def robots(self, url: str) -> RobotsRules | Unavailable:
        """The rules of the URL's host, asked for once."""
        origin = origin_of(url)
        rules = self._rules.get(origin)
        if rules is None:
            await self._turn(robots_url(url))
            answer = await fetch_robots(
                self._fetcher, url, self.context.policy, before_hop=self._turn
            )
            rules = self._rules[origin] = rules_from(*answer, self.context.robots_agent)
            if isinstance(rules, RobotsRules):
                self._delays[host_of(url)] = rules.crawl_delay_s or 0.0
        return rules

    async def _before_hop(self, url: str) -> None:
        if self.context.site.robots:
            require_allowed(await self.robots(url), url)
        await self._turn(url)

    async def _before_sub(self, url: str) -> None:
        self.extras += 1
        await self._turn(url)

    async def _turn(self, url: str) -> None:
        """Waits until the host may be asked again."""
        host, now = host_of(url), monotonic()
        gap_s = max(self.context.budget.interval_s, self._delays.get(host, 0.0))
        at = max(now, self._not_before.get(host, 0.0))
        self._not_before[host] = at + gap_s
        self.requests += 1
        if at > now:
            await asyncio.sleep(at - now)
