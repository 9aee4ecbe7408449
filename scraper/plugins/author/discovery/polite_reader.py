"""Pages for a person at a terminal, read without servers: one request at a time, as robots.txt
allows and at the definition's rate. A Chromium of this machine renders pages of the queue
`browser`. Stores nothing.

This is the author tools' only way to the network, and their only import of the browser plug-in. The
fleet's state of a host (cooldowns, overrides by operators) is in Redis, and not read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from scraper.crawl.context import make_context
from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import ConfigError, DeferredError, FetchError
from scraper.http.fetcher import HttpFetcher
from scraper.http.page_browser import BrowserFactory, BrowserPermits, PageBrowser
from scraper.http.policy import FetchPolicy
from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.infra import logs
from scraper.plugins.author.supervision import record_page
from scraper.politeness.robots import (
    RobotsRules,
    Unavailable,
    fetch_robots,
    origin_of,
    require_allowed,
    robots_url,
    rules_from,
)
from scraper.registry import find_service
from scraper.rules.routing import is_browser_queue
from scraper.rules.urls import host_of
from scraper.rules.verdict import outcome_of_status, retry_after_s
from scraper.settings import Settings
from scraper.sites.definition import Site


class PoliteReader:
    """Reads pages by a site's policy. Belongs to one event loop.

    `requests` counts all requests: pages, robots.txt, redirects, and the `extras` that pages in a
    browser send themselves. `shown`: a browser renders every page, whatever the site says.
    `announce` is called with the number and URL of each request before it is sent.
    """

    def __init__(
        self,
        site: Site,
        settings: Settings,
        *,
        shown: bool = False,
        announce: Callable[[int, str], None] | None = None,
    ) -> None:
        self.context = make_context(0, 0, site, settings)
        self.requests = self.extras = 0
        self._settings, self._shown, self._announce = settings, shown, announce
        self._browsers: PageBrowser | None = None
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

    @property
    def crawl_delay_s(self) -> float:
        """The longest crawl delay of the hosts that were read."""
        return max(self._delays.values(), default=0.0)

    def require_browser(self) -> None:
        """Raises `ConfigError` that says what to install."""
        self._factory().require(self._settings)

    @staticmethod
    def _factory() -> BrowserFactory:
        """What starts browsers. Raises `ConfigError` where the plug-in `browser` is off."""
        factory = find_service(BrowserFactory)  # type: ignore[type-abstract]
        if factory is None:
            raise ConfigError("the plug-in browser is off (fix: `scraper plugins` says why)")
        return factory

    async def read(
        self,
        url: str,
        kind: Kind,
        *,
        shown: bool = False,
        rendering: Mapping[str, Any] | None = None,
    ) -> Fetched:
        """Returns a page that answered with success.

        `shown`: a browser renders it, with `rendering` instead of the site's `browser:`. Raises
        FetchError for any other answer, and `ConfigError` if no browser is installed.
        """
        record_page(url)
        policy = self.context.policies[kind]
        if policy.proxied:
            raise FetchError(
                Outcome.NO_PROXY,
                "the site requires proxies, which this command does not use (fix: save the page "
                "and give the file)",
                url=url,
            )
        queue = self.context.choose_route(kind, url).queue
        if kind is not Kind.SITEMAP and (shown or self._shown or is_browser_queue(queue)):
            page = await self._render_page(url, policy, rendering)
        else:
            await self._before_hop(url)
            page = await self._fetcher.fetch(url, policy, before_hop=self._before_hop)
        block = self.context.block_of(page)
        if block is not None:
            raise FetchError(Outcome.BLOCKED, str(block), url=url, status=page.status)
        retry_s = retry_after_s(page.headers, datetime.now(UTC))
        outcome = outcome_of_status(page.status, retry_after=retry_s is not None)
        if outcome is not Outcome.FETCHED:
            raise FetchError(
                outcome, f"the host answered {page.status}", url=url, status=page.status
            )
        return page

    async def _render_page(
        self, url: str, policy: FetchPolicy, rendering: Mapping[str, Any] | None
    ) -> Fetched:
        if self._browsers is None:
            self.require_browser()
            self._ending.enter_context(logs.warnings_alone())
            self._browsers = self._factory().open(self._settings, pages=1)
            self._ending.push_async_callback(self._browsers.aclose)
        options = self._factory().rendering(rendering) if rendering else self.context.rendering
        permits = BrowserPermits(self._before_hop, self._before_extra, paid=False)
        try:
            # Pages are read one by one, so that none waits for a slot.
            return await self._browsers.fetch(url, policy, options, permits=permits)
        except DeferredError:
            raise FetchError(
                Outcome.DEFERRED,
                "the browser did not start, or crashed (fix: start `celery -A scraper worker "
                "-Q browser`, which names what is missing)",
                url=url,
            ) from None

    async def read_robots(self, url: str) -> RobotsRules | Unavailable:
        """Returns the rules of the URL's host, requested once."""
        origin = origin_of(url)
        rules = self._rules.get(origin)
        if rules is None:
            await self._wait_for_host(robots_url(url))
            answer = await fetch_robots(
                self._fetcher, url, self.context.policy, before_hop=self._wait_for_host
            )
            rules = self._rules[origin] = rules_from(*answer, self.context.robots_agent)
            if isinstance(rules, RobotsRules):
                self._delays[host_of(url)] = rules.crawl_delay_s or 0.0
        return rules

    async def _before_hop(self, url: str) -> None:
        if self.context.site.robots:
            require_allowed(await self.read_robots(url), url)
        await self._wait_for_host(url)

    async def _before_extra(self, url: str) -> None:
        self.extras += 1
        await self._wait_for_host(url)

    async def _wait_for_host(self, url: str) -> None:
        """Waits until the next request to the host is due, and counts it."""
        host, now = host_of(url), monotonic()
        gap_s = max(self.context.budget.interval_s, self._delays.get(host, 0.0))
        at = max(now, self._not_before.get(host, 0.0))
        self._not_before[host] = at + gap_s
        self.requests += 1
        if self._announce is not None:
            self._announce(self.requests, url)
        if at > now:
            await asyncio.sleep(at - now)
