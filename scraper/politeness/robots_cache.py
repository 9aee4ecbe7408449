"""Caches robots.txt for a worker process: parsed rules in memory, texts in Redis for the fleet, and
one request where neither has it. Requests for it count against the host's budget like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

from scraper.domain import Outcome, ProxySignal
from scraper.errors import FetchError
from scraper.http.fetcher import BeforeHop, HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.politeness.robots import RobotsRules, Unavailable, fetch_robots, origin_of, rules_from
from scraper.rules.proxies import answer_signal

RULES_FOR_S = 600.0
UNAVAILABLE_FOR_S = 10.0
ORIGINS_MAX = 5000


Permit = Callable[[], AbstractAsyncContextManager[None]]


class Requester(Protocol):
    """The crawl or call on whose behalf robots.txt is requested."""

    @property
    def policy(self) -> FetchPolicy: ...
    @property
    def robots_agent(self) -> str: ...


class RobotsStore(Protocol):
    async def get(self, origin: str) -> tuple[int, bytes] | None: ...
    async def put(self, origin: str, status: int, body: bytes) -> None: ...


class RobotsCache:
    """Rules by (origin, user agent). One request at a time for an origin; other pages wait for
    it."""

    def __init__(self, fetcher: HttpFetcher, texts: RobotsStore) -> None:
        self._fetcher = fetcher
        self._texts = texts
        self._rules: dict[tuple[str, str], tuple[float, RobotsRules | Unavailable]] = {}
        self._fetching: dict[str, asyncio.Lock] = {}

    async def rules(
        self,
        url: str,
        context: Requester,
        permit: Permit,
        before_hop: BeforeHop,
        route: ProxyRoute | None = None,
    ) -> RobotsRules | Unavailable:
        """Returns the rules that govern `url`, or why robots.txt cannot be read now. `permit` is
        the host's for the request; `before_hop` waits for the permit of each redirect.

        Through a proxy, raises FetchError for a missing response, so that another proxy is tried.
        """
        origin = origin_of(url)
        key = origin, context.robots_agent
        cached = self._get_fresh(key)
        if cached is not None:
            return cached[1]
        try:
            async with self._fetching.setdefault(origin, asyncio.Lock()):
                cached = self._get_fresh(key)
                if cached is not None:
                    return cached[1]
                rules, certain = await self._fetch_rules(
                    url, origin, context, permit, before_hop, route
                )
                if len(self._rules) >= ORIGINS_MAX:
                    self._rules.clear()
                lasting = certain and isinstance(rules, RobotsRules)
                lasts_s = RULES_FOR_S if lasting else UNAVAILABLE_FOR_S
                self._rules[key] = (asyncio.get_running_loop().time() + lasts_s, rules)
                return rules
        finally:
            lock = self._fetching.get(origin)
            if lock is not None and not lock.locked():
                self._fetching.pop(origin)

    def _get_fresh(self, key: tuple[str, str]) -> tuple[float, RobotsRules | Unavailable] | None:
        cached = self._rules.get(key)
        fresh = cached is not None and cached[0] > asyncio.get_running_loop().time()
        return cached if fresh else None

    async def _fetch_rules(
        self,
        url: str,
        origin: str,
        context: Requester,
        permit: Permit,
        before_hop: BeforeHop,
        route: ProxyRoute | None,
    ) -> tuple[RobotsRules | Unavailable, bool]:
        """Returns the rules, and whether they are certain: a 403, which allows everything (RFC 9309
        2.3.1.3), may concern only the proxy. Such a response is not shared, and soon requested
        again."""
        cached = await self._texts.get(origin)
        if cached is not None:
            return rules_from(*cached, context.robots_agent), True
        async with permit():
            policy = context.policy if route is None else replace(context.policy, proxied=True)
            status, body = await fetch_robots(
                self._fetcher, url, policy, before_hop=before_hop, route=route
            )
        certain = route is None or _is_certain(status, url, route)
        if certain:
            await self._texts.put(origin, status, body)
        return rules_from(status, body, context.robots_agent), certain


def _is_certain(status: int, url: str, route: ProxyRoute) -> bool:
    """Returns whether a response through a proxy is the host's to all visitors. Raises FetchError
    where the proxy is probably at fault."""
    signal = answer_signal(status, {}, url, route.proxy, blocked=status == 403)
    message = f"robots.txt: the answer was {status}"
    if signal is ProxySignal.FAILED:
        raise FetchError(Outcome.ROBOTS_UNAVAILABLE, message, url=url, signal=signal)
    # The proxy's address has probably sent too many requests.
    if status == 429:
        raise FetchError(
            Outcome.THROTTLED, message, url=url, status=429, signal=ProxySignal.BLOCKED
        )
    return signal is ProxySignal.ANSWERED
