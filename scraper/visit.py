"""A page's way to its answer: a proxy where its site has one, robots.txt, its host's turn, the request, its redirects.

Every request of it has a turn of its own, for the host that it goes to: robots.txt, redirects and second tries included.
What an answer means is said elsewhere (`scraper.scrape`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Protocol

from scraper.batch import Batch
from scraper.crawl_context import CrawlContext
from scraper.domain import Fetched, Kind, LeasedPage, Outcome, ProxySignal
from scraper.errors import DeferredError, FetchError
from scraper.fetch.browser import Browsers
from scraper.fetch.browser_turns import Turns
from scraper.fetch.gate import Gate
from scraper.fetch.gates import Gates
from scraper.fetch.http import BeforeHop, HttpFetcher
from scraper.fetch.identity import Identity
from scraper.fetch.robots import RobotsRules
from scraper.fetch.trip import Trip
from scraper.fetch.via import Via
from scraper.ladders import Way
from scraper.logins import Logins
from scraper.policy.blocks import detect_redirect
from scraper.policy.routing import BROWSER
from scraper.policy.urls import host_of
from scraper.proxy_trips import Trips

ROBOTS_PATIENCE_S = 30.0

Turn = Callable[[], AbstractAsyncContextManager[None]]


class Robots(Protocol):
    async def rules(
        self, url: str, context: CrawlContext, turn: Turn, before_hop: BeforeHop, via: Via | None = None
    ) -> RobotsRules | None: ...


class Visits:
    """Fetches pages. One a process, on its loop. `browsers` show the pages that have come to their level."""

    def __init__(
        self,
        *,
        fetcher: HttpFetcher,
        trips: Trips,
        gates: Gates,
        robots: Robots,
        logins: Logins,
        browsers: Browsers | None = None,
    ) -> None:
        self._browsers = browsers
        self._fetcher = fetcher
        self._trips = trips
        self._gates = gates
        self._robots = robots
        self._logins = logins

    async def fetch(
        self, batch: Batch, gate: Gate, page: LeasedPage, context: CrawlContext, trip: Trip, way: Way
    ) -> Fetched:
        """The page's answer, whatever its status. `gate` is the page's host's; `trip` holds a turn when this ends with an
        error, and knows when the last request left. Raises FetchError, NoProxyError, and DeferredError where the page is
        to go back untried."""
        if way.level == BROWSER and page.kind is not Kind.SITEMAP and self._browsers is not None:
            async with self._browsers.slot(batch.latest, page.id):  # before the host's turn, which it would hold up
                return await self._visit(batch, gate, page, context, trip, way, self._browsers)
        return await self._visit(batch, gate, page, context, trip, way, None)

    async def _visit(
        self,
        batch: Batch,
        gate: Gate,
        page: LeasedPage,
        context: CrawlContext,
        trip: Trip,
        way: Way,
        browsers: Browsers | None,
    ) -> Fetched:
        if context.login is None:
            return await self._fetch(batch, gate, page, context, trip, way, browsers)

        async def as_somebody(identity: Identity) -> Fetched:
            trip.identity = identity
            return await self._fetch(batch, gate, page, context, trip, way, browsers)

        return await self._logins.visit(page, context, batch.latest, trip, as_somebody)

    async def _fetch(
        self,
        batch: Batch,
        gate: Gate,
        page: LeasedPage,
        context: CrawlContext,
        trip: Trip,
        way: Way,
        browsers: Browsers | None,
    ) -> Fetched:
        need = context.need(page, way.level)
        if need is None:
            return await self._get(batch, gate, page, context, trip, None, browsers)
        if trip.identity is not None:
            need = replace(need, account=trip.identity.seed)
        return await self._trips.fetch(
            page,
            need,
            lambda via: self._get(batch, gate, page, context, trip, via, browsers),
            block_of=context.block_of,
            above=way.above is not None,
            alone=way.alone,
        )

    def suspect(self, page: LeasedPage, via: Via) -> None:
        """What came through `via` lacked what the page used to have."""
        self._trips.suspect(page, via)

    async def resolve(self, page: LeasedPage, via: Via, *, there: bool) -> None:
        """A page that was suspected to be blocked has been looked at again."""
        await self._trips.resolve(page, via, there=there)

    async def _get(
        self,
        batch: Batch,
        gate: Gate,
        page: LeasedPage,
        context: CrawlContext,
        trip: Trip,
        via: Via | None,
        browsers: Browsers | None,
    ) -> Fetched:
        """One try, all of it through `via`. A redirect to a known challenge is FetchError(BLOCKED)."""
        trip.via = via

        def still_to_do() -> None:
            if batch.over(page):  # while it waited
                raise DeferredError(0.0)

        def still_ours() -> None:
            if not batch.ours:
                raise DeferredError(0.0)

        @asynccontextmanager
        async def turn() -> AsyncIterator[None]:
            async with gate.turn(batch.latest, page.priority):
                still_to_do()
                yield

        identity = trip.identity

        async def before_hop(url: str) -> None:
            if identity is not None and context.login is not None and url != page.url:
                sign = context.login.leads_out(url)
                if sign is not None:  # before robots.txt is asked, which disallows such pages as a rule
                    raise FetchError(Outcome.LOGGED_OUT, f"redirects to where one logs in ({sign})", url=url)
            hop_gate = self._gates.of(host_of(url))
            latest = asyncio.get_running_loop().time() + context.policy.page_timeout_s

            @asynccontextmanager
            async def hop_turn() -> AsyncIterator[None]:
                """A slot within the turn that is held already, or one of the host that it leads to."""
                if trip.gate is hop_gate:
                    await hop_gate.another(latest, page.priority)
                    still_ours()
                    yield
                else:
                    trip.end()
                    async with hop_gate.turn(latest, page.priority):
                        still_ours()
                        yield

            hop_gate.pending += 1  # it is not idle meanwhile
            try:
                await self._heed_robots(url, hop_gate, context, hop_turn, still_ours, via)
                await trip.go(hop_gate, latest)
            finally:
                hop_gate.pending -= 1
            still_ours()

        async def before_sub(url: str) -> None:
            sub_gate = self._gates.of(host_of(url))
            sub_gate.budget(context.site_id, context.budget)
            await sub_gate.another(asyncio.get_running_loop().time() + context.policy.page_timeout_s, page.priority)
            still_ours()

        try:
            await self._heed_robots(page.url, gate, context, turn, still_ours, via)
            await self._first_turn(batch, gate, trip)
            still_to_do()
            if browsers is not None:
                policy, rendering, turns = context.policy_of(page), context.site.browser, Turns(before_hop, before_sub)
                return await browsers.fetch(
                    page.url,
                    policy,
                    rendering,
                    turns=turns,
                    via=via,
                    page_id=page.id,
                    visitor=identity,
                )
            headers = None if identity is None else identity.headers_for(page.url)
            return await self._fetcher.fetch(
                page.url,
                context.policy_of(page),
                validators=context.validators_of(page),
                before_hop=before_hop,
                extra_headers=headers,
                via=via,
                visitor=identity,
            )
        except FetchError as error:
            block = detect_redirect(error.url) if error.outcome is Outcome.OFF_SITE and error.url else None
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
            trip.end()

    @staticmethod
    async def _first_turn(batch: Batch, gate: Gate, trip: Trip) -> None:
        paced = gate.limits.interval_s > 0
        batch.at_gates += paced
        try:
            await trip.go(gate, batch.latest)
        finally:
            batch.at_gates -= paced

    async def _heed_robots(
        self,
        url: str,
        gate: Gate,
        context: CrawlContext,
        turn: Turn,
        still_ours: Callable[[], None],
        via: Via | None,
    ) -> None:
        """Sets the host's budget, robots.txt's crawl delay included, and refuses what robots.txt disallows.

        Before the page's own turn, so that a request for robots.txt never waits for a turn while holding one. `still_ours`
        raises where a redirect of it is not to be followed any more.
        """
        gate.budget(context.site_id, context.budget)
        if not context.site.robots:
            return

        async def before_hop(to: str) -> None:
            await self._robots_hop(to, context)
            still_ours()

        rules = await self._robots.rules(url, context, turn, before_hop, via)
        if rules is None:
            raise FetchError(
                Outcome.ROBOTS_UNAVAILABLE,
                f"robots.txt of {host_of(url)} cannot be read; until it can, nothing of the host is fetched",
                url=url,
                retry_after_s=ROBOTS_PATIENCE_S,
            )
        if not rules.allowed(url):
            raise FetchError(Outcome.ROBOTS_DISALLOWED, f"robots.txt of {host_of(url)} disallows {url}", url=url)
        gate.crawl_delay(context.site_id, rules.crawl_delay_s or 0.0)

    async def _robots_hop(self, url: str, context: CrawlContext) -> None:
        """robots.txt redirects: a request like any other to the host it leads to."""
        gate = self._gates.of(host_of(url))
        gate.budget(context.site_id, context.budget)
        await gate.another(asyncio.get_running_loop().time() + context.policy.page_timeout_s)
