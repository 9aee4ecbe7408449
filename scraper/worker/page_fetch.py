"""Fetches a page: its browser slot, account, proxy, robots.txt, permits, request and redirects.

Every request has a permit of the host it goes to, including robots.txt, redirects and retries.
`scraper.worker.response_judge` says what a response means.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
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
from scraper.politeness.robots_cache import Permit
from scraper.proxies.rotation import Lacks, ProxyRotation
from scraper.rules.blocks import detect_block_redirect
from scraper.rules.budget import MOST_SHARE
from scraper.rules.proxies import ProxyNeed
from scraper.rules.routing import BROWSER
from scraper.rules.urls import host_of
from scraper.worker.batch import Batch
from scraper.worker.host import SessionPool
from scraper.worker.tiers import Tier

# After this the page is tried again if robots.txt could not be read.
ROBOTS_PATIENCE_S = 30.0
NO_SLOT = nullcontext()


class Robots(Protocol):
    async def rules(
        self,
        url: str,
        context: CrawlContext,
        permit: Permit,
        before_hop: BeforeHop,
        route: ProxyRoute | None = None,
    ) -> RobotsRules | Unavailable: ...


@dataclass(kw_only=True, eq=False)
class PageFetcher:
    """Fetches pages. One a process, on its loop. `browser` shows the pages whose level needs it."""

    fetcher: HttpFetcher
    rotation: ProxyRotation
    limiters: HostLimiters
    robots: Robots
    sessions: SessionPool | None = None
    browser: PageBrowser | None = None

    async def fetch(
        self,
        batch: Batch,
        limiter: HostLimiter,
        page: LeasedPage,
        context: CrawlContext,
        permits: PagePermits,
        tier: Tier,
        lacks: Lacks,
    ) -> Fetched:
        """Returns the page's response, whatever its status.

        `limiter` is the page's host's; `permits` notes when the last request left. `lacks` as in
        `ProxyRotation.fetch`. Raises FetchError, NoProxyError, and DeferredError if the page goes
        back untried.
        """
        page_fetch = PageFetch(self, batch, limiter, page, context, permits, tier, lacks)
        slot: AbstractAsyncContextManager[None] = NO_SLOT
        if self.browser is not None and tier.level == BROWSER and page.kind is not Kind.SITEMAP:
            # The browser's slot comes before the host's permit, which would otherwise be held while
            # the page waits for the slot.
            page_fetch.browser = self.browser
            slot = self.browser.slot(batch.deadline_at, page.id)
        async with slot:
            if context.login is not None:
                assert self.sessions is not None, "a site with a login needs accounts"
                return await self.sessions.fetch_as_account(
                    page, context, batch.deadline_at, permits, page_fetch.fetch_as_account
                )
            need = context.proxy_need(page, tier.level)
            if need is None:
                return await page_fetch.try_route(None)
            return await page_fetch.fetch_by_proxy(need)


@dataclass(slots=True)
class PageFetch:
    """One page being fetched. Shares nothing with other pages. `browser` is None if the page is
    fetched by HTTP."""

    parts: PageFetcher
    batch: Batch
    limiter: HostLimiter
    page: LeasedPage
    context: CrawlContext
    permits: PagePermits
    tier: Tier
    lacks: Lacks
    browser: PageBrowser | None = None

    async def fetch_as_account(self, account: AccountSession) -> Fetched:
        self.permits.identity = account
        need = self.context.proxy_need(self.page, self.tier.level)
        if need is None:
            return await self.try_route(None)
        return await self.fetch_by_proxy(replace(need, account=account.seed))

    async def fetch_by_proxy(self, need: ProxyNeed) -> Fetched:
        return await self.parts.rotation.fetch(
            self.page,
            need,
            self.try_route,
            block_of=self.context.block_of,
            can_go_up=self.tier.above is not None,
            page_alone=self.tier.alone,
            # A logged-out page lacks much, and an account stays with its proxy: asking other
            # proxies would not help.
            lacks=self.lacks if self.permits.identity is None else None,
        )

    async def try_route(self, route: ProxyRoute | None) -> Fetched:
        """Fetches the page once, with all its requests through `route`. Raises FetchError(BLOCKED)
        for a redirect to a known challenge."""
        page, context, permits = self.page, self.context, self.permits
        permits.route = route
        try:
            await self._apply_robots(page.url, self.limiter, self._hold_permit)
            await self._acquire_first_permit()
            self._require_wanted()
            if self.browser is not None:
                return await self._show_page(self.browser, route)
            account = permits.identity
            return await self.parts.fetcher.fetch(
                page.url,
                self._choose_policy(),
                validators=context.validators_of(page),
                before_hop=self._permit_hop,
                extra_headers=None if account is None else account.headers_for(page.url),
                route=route,
                visitor=account,
                held_body=permits.body,
            )
        except FetchError as error:
            blocked = _find_block(error)
            if blocked is None:
                raise
            raise blocked from error
        finally:
            permits.release()

    async def _show_page(self, browser: PageBrowser, route: ProxyRoute | None) -> Fetched:
        return await browser.fetch(
            self.page.url,
            self.context.policy_of(self.page),
            self.context.rendering,
            permits=BrowserPermits(self._permit_hop, self._permit_subrequest),
            route=route,
            page_id=self.page.id,
            visitor=self.permits.identity,
        )

    def _choose_policy(self) -> FetchPolicy:
        """Returns the site's policy, with less time while the host answers other pages well.

        A page that never answers would otherwise hold one of the host's permits, and the end of the
        crawl, for several times the whole page timeout. Two tries keep the whole timeout: the first
        one of a page that was good before, and the first one through a proxy, which may be slow.
        """
        page, limiter = self.page, self.limiter
        policy = self.context.policy_of(page)
        enough_s = limiter.answer_timeout_s(page.host_attempts)
        whole = not page.host_attempts and (page.good_before or self.permits.route is not None)
        if whole or enough_s is None or enough_s >= policy.page_timeout_s:
            return policy
        if not limiter.signals.is_healthy(asyncio.get_running_loop().time(), MOST_SHARE):
            return policy
        return self.context.hurried_policy(page.kind, policy, enough_s)

    def _require_wanted(self) -> None:
        """Raises DeferredError if the page was dropped while it waited for its permit."""
        if self.batch.is_dropped(self.page):
            raise DeferredError(0.0)

    def _require_lease(self) -> None:
        """Raises DeferredError if the lease may have expired while the page waited."""
        if not self.batch.holds_lease:
            raise DeferredError(0.0)

    @asynccontextmanager
    async def _hold_permit(self) -> AsyncIterator[None]:
        """Holds a permit of the page's host for a request for robots.txt."""
        async with self.limiter.permit(self.batch.deadline_at, self.page.priority):
            self._require_wanted()
            yield

    @asynccontextmanager
    async def _hold_hop_permit(
        self, limiter: HostLimiter, deadline_at: float
    ) -> AsyncIterator[None]:
        """Holds a permit of the host that a redirect leads to; takes a rate slot within the permit
        that the page already has there."""
        if self.permits.limiter is limiter:
            await limiter.take_slot(deadline_at, self.page.priority)
            self._require_lease()
            yield
        else:
            self.permits.release()
            async with limiter.permit(deadline_at, self.page.priority):
                self._require_lease()
                yield

    async def _acquire_first_permit(self) -> None:
        paced = self.limiter.budget.interval_s > 0
        self.batch.waiting_for_permit += paced
        try:
            await self.permits.acquire(self.limiter, self.batch.deadline_at, self.page.priority)
        finally:
            self.batch.waiting_for_permit -= paced

    async def _permit_hop(self, url: str) -> None:
        """Gets a permit for a redirect's next request. Raises FetchError if it leads to a login
        page or robots.txt disallows it, and DeferredError."""
        login = self.context.login
        if self.permits.identity is not None and login is not None and url != self.page.url:
            # The login page comes before robots.txt, which usually disallows it.
            sign = login.leads_out(url)
            if sign is not None:
                raise FetchError(
                    Outcome.LOGGED_OUT, f"redirects to where one logs in ({sign})", url=url
                )
        limiter, deadline_at = self.parts.limiters.for_host(host_of(url)), self._hop_deadline_at()
        # The sweep must not release the host's limiter as idle while this request waits.
        limiter.pending += 1
        try:
            await self._apply_robots(
                url, limiter, lambda: self._hold_hop_permit(limiter, deadline_at)
            )
            await self.permits.acquire(limiter, deadline_at, self.page.priority)
        finally:
            limiter.pending -= 1
        self._require_lease()

    async def _permit_subrequest(self, url: str) -> None:
        """Takes a rate slot for a request that a browser makes for the page."""
        limiter = self.parts.limiters.for_host(host_of(url))
        limiter.set_budget(self.context.site_id, self.context.budget)
        await limiter.take_slot(self._hop_deadline_at(), self.page.priority)
        self._require_lease()

    async def _apply_robots(self, url: str, limiter: HostLimiter, permit: Permit) -> None:
        """Sets the host's budget, including robots.txt's crawl delay. Raises FetchError if
        robots.txt disallows the URL.

        Runs before the page's own permit is acquired, so that a request for robots.txt never waits
        for a permit while the page holds one.
        """
        context = self.context
        limiter.set_budget(context.site_id, context.budget)
        if not context.site.robots:
            return
        rules = require_allowed(
            await self.parts.robots.rules(
                url, context, permit, self._permit_robots_hop, self.permits.route
            ),
            url,
            retry_after_s=ROBOTS_PATIENCE_S,
        )
        self.permits.robots = rules
        limiter.set_crawl_delay(context.site_id, rules.crawl_delay_s or 0.0)

    async def _permit_robots_hop(self, url: str) -> None:
        """Takes a rate slot of the host that robots.txt redirects to."""
        limiter = self.parts.limiters.for_host(host_of(url))
        limiter.set_budget(self.context.site_id, self.context.budget)
        await limiter.take_slot(self._hop_deadline_at())
        self._require_lease()

    def _hop_deadline_at(self) -> float:
        """Returns the loop time until which a further request of the page waits for its permit."""
        return asyncio.get_running_loop().time() + self.context.policy.page_timeout_s


def _find_block(error: FetchError) -> FetchError | None:
    """Returns the block behind a redirect that leaves the site; None for any other error."""
    if error.outcome is not Outcome.OFF_SITE or not error.url:
        return None
    block = detect_block_redirect(error.url)
    if block is None:
        return None
    return FetchError(
        Outcome.BLOCKED,
        str(block),
        url=error.url,
        status=error.status,
        signal=ProxySignal.BLOCKED,
        sign=block.sign,
    )
