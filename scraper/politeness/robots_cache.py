"""robots.txt as a worker process asks for it: parsed rules here, texts shared by the fleet, one
request where neither has it. A host's requests for it are counted against its budget like any
other."""

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
from scraper.politeness.robots import (
    RobotsRules,
    Unavailable,
    fetch_robots,
    origin_of,
    rules_from,
)
from scraper.rules.proxies import answer_signal

RULES_FOR_S = 600.0
UNAVAILABLE_FOR_S = 10.0
ORIGINS_MAX = 5000


Permit = Callable[[], AbstractAsyncContextManager[None]]


class Requester(Protocol):
    """In whose name it is asked for: a crawl's context, or a call's."""

    @property
    def policy(self) -> FetchPolicy: ...
    @property
    def robots_agent(self) -> str: ...


class RobotsStore(Protocol):
    async def get(self, origin: str) -> tuple[int, bytes] | None: ...
    async def put(self, origin: str, status: int, body: bytes) -> None: ...


class RobotsCache:
    """Rules by (origin, user agent). One fetch at a time for an origin; the others wait for it."""

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
        """The rules that govern `url`, or why robots.txt cannot be read for now. `permit` is the
        host's for the request; `before_hop` waits for that of each further one.

        Through a proxy, raises FetchError where there is no answer: whose fault that is, another
        proxy may tell.
        """
        origin = origin_of(url)
        key = origin, context.robots_agent
        cached = self._cached(key)
        if cached is not None:
            return cached[1]
        try:
            async with self._fetching.setdefault(origin, asyncio.Lock()):
                cached = self._cached(key)
                if cached is not None:
                    return cached[1]
                rules, certain = await self._look_up(
                    url, origin, context, permit, before_hop, route
                )
                if len(self._rules) >= ORIGINS_MAX:
                    self._rules.clear()
                good = certain and isinstance(rules, RobotsRules)
                lasts = RULES_FOR_S if good else UNAVAILABLE_FOR_S
                self._rules[key] = (asyncio.get_running_loop().time() + lasts, rules)
                return rules
        finally:
            lock = self._fetching.get(origin)
            if lock is not None and not lock.locked():
                self._fetching.pop(origin)

    def _cached(self, key: tuple[str, str]) -> tuple[float, RobotsRules | Unavailable] | None:
        cached = self._rules.get(key)
        fresh = cached is not None and cached[0] > asyncio.get_running_loop().time()
        return cached if fresh else None

    async def _look_up(
        self,
        url: str,
        origin: str,
        context: Requester,
        permit: Permit,
        before_hop: BeforeHop,
        route: ProxyRoute | None,
    ) -> tuple[RobotsRules | Unavailable, bool]:
        """The rules, and whether they are certain: a 403, which allows everything (RFC 9309
        2.3.1.3), may mean the proxy it came through. Such an answer is not shared, and not believed
        for long."""
        kept = await self._texts.get(origin)
        certain = True
        if kept is None:
            async with permit():
                policy = context.policy if route is None else replace(context.policy, proxied=True)
                kept = await fetch_robots(
                    self._fetcher, url, policy, before_hop=before_hop, route=route
                )
            signal = ProxySignal.ANSWERED
            if route is not None:
                signal = answer_signal(kept[0], {}, url, route.proxy, blocked=kept[0] == 403)
            if signal is ProxySignal.FAILED:
                raise FetchError(
                    Outcome.ROBOTS_UNAVAILABLE,
                    f"robots.txt: the answer was {kept[0]}",
                    url=url,
                    signal=signal,
                )
            # That address has asked too much, as like as not.
            if route is not None and kept[0] == 429:
                raise FetchError(
                    Outcome.THROTTLED,
                    "robots.txt: the answer was 429",
                    url=url,
                    status=429,
                    signal=ProxySignal.BLOCKED,
                )
            certain = signal is ProxySignal.ANSWERED
            if certain:
                await self._texts.put(origin, *kept)
        return rules_from(*kept, context.robots_agent), certain
