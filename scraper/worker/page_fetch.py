"""A page's way to its answer: a proxy where its site has one, robots.txt, its host's turn, the
request, its redirects.

Every request of it has a turn of its own, for the host that it goes to: robots.txt, redirects and
second tries included. What an answer means is said elsewhere (`scraper.worker.batch_processor`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, Kind, LeasedPage, Outcome, ProxySignal
from scraper.errors import DeferredError, FetchError
from scraper.http.account_session import AccountSession
from scraper.http.fetcher import BeforeHop, HttpFetcher
from scraper.http.page_browser import BrowserPermits, PageBrowser
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.politeness.robots import RobotsRules, Unavailable, require_allowed
from scraper.proxies.rotation import Lacks, ProxyRotation
from scraper.rules.blocks import detect_block_redirect
from scraper.rules.budget import MOST_SHARE
from scraper.rules.routing import BROWSER
from scraper.rules.urls import host_of
from scraper.worker.batch import Batch
from scraper.worker.host import SessionPool
from scraper.worker.tiers import Tier

ROBOTS_PATIENCE_S = 30.0

Turn = Callable[[], AbstractAsyncContextManager[None]]


class Robots(Protocol):
    async def rules(
        self,
        url: str,
        context: CrawlContext,
        turn: Turn,
        before_hop: BeforeHop,
        route: ProxyRoute | None = None,
    ) -> RobotsRules | Unavailable: ...


@dataclass(kw_only=True, eq=False)
class PageFetcher:
    """Fetches pages. One a process, on its loop. `browser` shows the pages that have come to its
    level."""

    fetcher: HttpFetcher
    rotation: ProxyRotation
    limiters: HostLimiters
    robots: Robots
    sessions: SessionPool | None = None
    browser: PageBrowser | None = None

    def fetch(
        self,
        batch: Batch,
        limiter: HostLimiter,
        page: LeasedPage,
        context: CrawlContext,
        permits: PagePermits,
        tier: Tier,
        lacks: Lacks,
    ) -> Awaitable[Fetched]:
        """The page's answer, whatever its status. `limiter` is the page's host's; `permits` holds a
        turn when this ends with an error, and knows when the last request left. Raises FetchError,
        NoProxyError, and DeferredError where the page is to go back untried. `lacks` as in
        `ProxyRotation.fetch`.

        This and the two steps below only choose what is awaited, so they are no coroutines
        themselves: each of those between the lane and the socket is resumed for every answer."""
        browsers = None
        if tier.level == BROWSER and page.kind is not Kind.SITEMAP:
            browsers = self.browser
        page_fetch = PageFetch(self, batch, limiter, page, context, permits, tier, lacks, browsers)
        return page_fetch.answer() if browsers is None else page_fetch.answer_in_slot(browsers)


@dataclass(slots=True)
class PageFetch:
    """One page on its way, and what it needs there. Holds nothing that another page might see."""

    _all: PageFetcher
    _batch: Batch
    _limiter: HostLimiter
    _page: LeasedPage
    _context: CrawlContext
    _permits: PagePermits
    _tier: Tier
    _lacks: Lacks
    _browsers: PageBrowser | None

    async def answer_in_slot(self, browsers: PageBrowser) -> Fetched:
        # The slot comes before the host's turn, which waiting for it would hold up.
        async with browsers.slot(self._batch.deadline_at, self._page.id):
            return await self.answer()

    def answer(self) -> Awaitable[Fetched]:
        sessions = self._all.sessions
        if self._context.login is None:
            return self._by_its_route()
        assert sessions is not None, "what knows a site's login signs logs in to it"
        return sessions.visit(
            self._page, self._context, self._batch.deadline_at, self._permits, self._with_account
        )

    def _with_account(self, account: AccountSession) -> Awaitable[Fetched]:
        self._permits.identity = account
        return self._by_its_route()

    def _by_its_route(self) -> Awaitable[Fetched]:
        need = self._context.proxy_need(self._page, self._tier.level)
        if need is None:
            return self._get(None)
        if self._permits.identity is not None:
            need = replace(need, account=self._permits.identity.seed)
        return self._all.rotation.fetch(
            self._page,
            need,
            self._get,
            block_of=self._context.block_of,
            can_go_up=self._tier.above is not None,
            page_alone=self._tier.alone,
            # Whoever is logged out lacks much, and an account stays with its proxy.
            lacks=self._lacks if self._permits.identity is None else None,
        )

    async def _get(self, route: ProxyRoute | None) -> Fetched:
        """One try, all of it through `route`. A redirect to a known challenge is
        FetchError(BLOCKED)."""
        page, context, permits = self._page, self._context, self._permits
        permits.route = route
        try:
            await self._heed_robots(page.url, self._limiter, self._turn)
            await self._first_turn()
            self._still_to_do()
            if self._browsers is not None:
                return await self._browsers.fetch(
                    page.url,
                    context.policy_of(page),
                    context.rendering,
                    permits=BrowserPermits(self._before_hop, self._before_sub),
                    route=route,
                    page_id=page.id,
                    visitor=permits.identity,
                )
            return await self._all.fetcher.fetch(
                page.url,
                self._policy(),
                validators=context.validators_of(page),
                before_hop=self._before_hop,
                extra_headers=None
                if permits.identity is None
                else permits.identity.headers_for(page.url),
                route=route,
                visitor=permits.identity,
                held_body=permits.body,
            )
        except FetchError as error:
            block = (
                detect_block_redirect(error.url)
                if error.outcome is Outcome.OFF_SITE and error.url
                else None
            )
            if block is None:
                raise
            raise FetchError(
                Outcome.BLOCKED,
                str(block),
                url=error.url,
                status=error.status,
                signal=ProxySignal.BLOCKED,
                sign=block.sign,
            ) from error
        finally:
            permits.release()

    def _policy(self) -> FetchPolicy:
        """The site's, with less time for a page while its host answers others well: else one that
        never answers would hold a place of the host, and the end of the crawl, for several times
        the whole page timeout. The first try of a page that was good before has all of it, and so
        has one by a proxy, which may be slower than others."""
        page, limiter = self._page, self._limiter
        policy, enough_s = (
            self._context.policy_of(page),
            limiter.answer_timeout_s(page.host_attempts),
        )
        whole = not page.host_attempts and (page.good_before or self._permits.route is not None)
        if whole or enough_s is None or enough_s >= policy.page_timeout_s:
            return policy
        if not limiter.signals.is_healthy(asyncio.get_running_loop().time(), MOST_SHARE):
            return policy
        return replace(policy, page_timeout_s=enough_s, hurried=True)

    def _still_to_do(self) -> None:
        """Whether it is, after it waited for a turn."""
        if self._batch.over(self._page):
            raise DeferredError(0.0)

    def _still_ours(self) -> None:
        if not self._batch.ours:
            raise DeferredError(0.0)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._limiter.permit(self._batch.deadline_at, self._page.priority):
            self._still_to_do()
            yield

    @asynccontextmanager
    async def _hop_turn(self, limiter: HostLimiter, deadline_at: float) -> AsyncIterator[None]:
        """A slot within the turn that is held already, or one of the host that a redirect leads
        to."""
        if self._permits.limiter is limiter:
            await limiter.take_slot(deadline_at, self._page.priority)
            self._still_ours()
            yield
        else:
            self._permits.release()
            async with limiter.permit(deadline_at, self._page.priority):
                self._still_ours()
                yield

    async def _first_turn(self) -> None:
        paced = self._limiter.budget.interval_s > 0
        self._batch.at_gates += paced
        try:
            await self._permits.acquire(self._limiter, self._batch.deadline_at)
        finally:
            self._batch.at_gates -= paced

    async def _before_hop(self, url: str) -> None:
        if (
            self._permits.identity is not None
            and self._context.login is not None
            and url != self._page.url
        ):
            sign = self._context.login.leads_out(url)
            # It comes before robots.txt is asked, which disallows such pages as a rule.
            if sign is not None:
                raise FetchError(
                    Outcome.LOGGED_OUT, f"redirects to where one logs in ({sign})", url=url
                )
        limiter, deadline_at = self._all.limiters.for_host(host_of(url)), self._patience()
        # It is not idle meanwhile.
        limiter.pending += 1
        try:
            await self._heed_robots(url, limiter, lambda: self._hop_turn(limiter, deadline_at))
            await self._permits.acquire(limiter, deadline_at)
        finally:
            limiter.pending -= 1
        self._still_ours()

    async def _before_sub(self, url: str) -> None:
        """A browser's sub-request."""
        limiter = self._all.limiters.for_host(host_of(url))
        limiter.set_budget(self._context.site_id, self._context.budget)
        await limiter.take_slot(self._patience(), self._page.priority)
        self._still_ours()

    async def _heed_robots(self, url: str, limiter: HostLimiter, turn: Turn) -> None:
        """Sets the host's budget, robots.txt's crawl delay included, and refuses what robots.txt
        disallows.

        Before the page's own turn, so that a request for robots.txt never waits for a turn while
        holding one.
        """
        context = self._context
        limiter.set_budget(context.site_id, context.budget)
        if not context.site.robots:
            return
        rules = require_allowed(
            await self._all.robots.rules(url, context, turn, self._robots_hop, self._permits.route),
            url,
            retry_after_s=ROBOTS_PATIENCE_S,
        )
        self._permits.robots = rules
        limiter.set_crawl_delay(context.site_id, rules.crawl_delay_s or 0.0)

    async def _robots_hop(self, url: str) -> None:
        """robots.txt redirects: a request like any other to the host it leads to."""
        limiter = self._all.limiters.for_host(host_of(url))
        limiter.set_budget(self._context.site_id, self._context.budget)
        await limiter.take_slot(self._patience())
        self._still_ours()

    def _patience(self) -> float:
        """Until when a further request of the page waits for its turn, by the loop's clock."""
        return asyncio.get_running_loop().time() + self._context.policy.page_timeout_s
