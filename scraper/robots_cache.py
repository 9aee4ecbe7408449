"""robots.txt as a worker process asks for it: parsed rules here, texts shared by the fleet, one request where neither has
it. A host's requests for it are counted against its budget like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from scraper.crawl_context import CrawlContext
from scraper.fetch.http import BeforeHop, HttpFetcher
from scraper.fetch.robots import RobotsRules, Unavailable, fetch_robots, origin_of, rules_from

RULES_FOR_S = 600.0
UNAVAILABLE_FOR_S = 10.0
ORIGINS_MAX = 5000


Turn = Callable[[], AbstractAsyncContextManager[None]]


class Texts(Protocol):
    async def get(self, origin: str) -> tuple[int, bytes] | None: ...
    async def put(self, origin: str, status: int, body: bytes) -> None: ...


class RobotsCache:
    """Rules by (origin, user agent). One fetch at a time for an origin; the others wait for it."""

    def __init__(self, fetcher: HttpFetcher, texts: Texts) -> None:
        self._fetcher = fetcher
        self._texts = texts
        self._rules: dict[tuple[str, str], tuple[float, RobotsRules | None]] = {}
        self._fetching: dict[str, asyncio.Lock] = {}

    async def rules(self, url: str, context: CrawlContext, turn: Turn, before_hop: BeforeHop) -> RobotsRules | None:
        """The rules that govern `url`, or None while robots.txt cannot be read. `turn` is the host's turn for the request;
        `before_hop` waits for that of each further one."""
        origin = origin_of(url)
        key = origin, context.policy.user_agent
        known = self._known(key)
        if known is not None:
            return known[1]
        try:
            async with self._fetching.setdefault(origin, asyncio.Lock()):
                known = self._known(key)
                if known is not None:
                    return known[1]
                rules = await self._look_up(url, origin, context, turn, before_hop)
                if len(self._rules) >= ORIGINS_MAX:
                    self._rules.clear()
                lasts = RULES_FOR_S if rules is not None else UNAVAILABLE_FOR_S
                self._rules[key] = (asyncio.get_running_loop().time() + lasts, rules)
                return rules
        finally:
            lock = self._fetching.get(origin)
            if lock is not None and not lock.locked():
                self._fetching.pop(origin)

    def _known(self, key: tuple[str, str]) -> tuple[float, RobotsRules | None] | None:
        known = self._rules.get(key)
        return known if known is not None and known[0] > asyncio.get_running_loop().time() else None

    async def _look_up(
        self, url: str, origin: str, context: CrawlContext, turn: Turn, before_hop: BeforeHop
    ) -> RobotsRules | None:
        kept = await self._texts.get(origin)
        if kept is None:
            async with turn():
                kept = await fetch_robots(self._fetcher, url, context.policy, before_hop=before_hop)
            await self._texts.put(origin, *kept)
        rules = rules_from(*kept, context.policy.user_agent)
        return None if isinstance(rules, Unavailable) else rules
