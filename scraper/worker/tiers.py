"""Chooses the level at which a worker tries a page, and what follows a block: another try at the
same level, or a try one level up.

`scraper.rules.escalation` has the rules. This module holds what the process knows about hosts'
levels (read with every claim and every two seconds), and turns decisions into verdicts and queues.
A page in another queue than its host's level needs goes to the right queue untried and without a
charge, so that waiting pages need not be rewritten when a host changes its level.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.context import CrawlContext
from scraper.domain import LeasedPage, Move, Status, Verdict
from scraper.frontier import host_tiers
from scraper.frontier.host_tiers import TierKey, TierSignal
from scraper.infra import outages
from scraper.rules import escalation
from scraper.rules.escalation import PAGE_TRIES, PROBE_LOST_S, GoUp, HostRoute, Ladder, RetryHere
from scraper.rules.routing import queue_name

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Tier:
    """How a page is tried now: at `level`, which is one of `steps`. `alone`: only this page needs
    the level, and its host a cheaper one. `move`: the page is not tried here, but goes there."""

    key: TierKey
    steps: Ladder
    level: str
    probe: bool = False
    alone: bool = False
    move: Move | None = None

    @property
    def above(self) -> str | None:
        """The level that a blocked page can go to."""
        return escalation.next_level(self.level, self.steps)


def begin_probe(engine: sa.Engine, key: TierKey, steps: Ladder) -> bool:
    """Returns True if this process may send the host's probe. Raises nothing: if PostgreSQL does
    not answer, another process probes later."""
    try:
        with engine.begin() as connection:
            return host_tiers.begin_probe(connection, key, steps)
    except SQLAlchemyError as error:
        if not outages.record_outage(error):
            log.exception("could not begin a probe", host=key.host)
        return False


class TierChoice:
    """Chooses tiers. One a process, on its loop. `begin_probe` returns True if this process may
    send a host's probe."""

    def __init__(self, begin_probe: Callable[[TierKey, Ladder], bool], rng: random.Random) -> None:
        self._begin_probe = begin_probe
        self._rng = rng
        self._routes: Mapping[TierKey, HostRoute] = {}
        # Add this to the loop's time to get PostgreSQL's.
        self._clock_s = 0.0

    def apply_routes(self, routes: Mapping[TierKey, HostRoute], now: float) -> None:
        """Replaces the known levels. `now` is PostgreSQL's time at about this moment."""
        self._routes = routes
        self._clock_s = now - asyncio.get_running_loop().time()

    def level(self, context: CrawlContext, host: str, start: str) -> str:
        """Returns the level for a page that has no level of its own yet."""
        steps = escalation.build_ladder(start, context.site.escalate)
        return escalation.level_for(self._routes.get(TierKey(context.site_id, host, start)), steps)

    async def choose(self, page: LeasedPage, queue: str, context: CrawlContext) -> Tier:
        """Returns how to try a page that came from `queue`."""
        if not context.site.escalate:
            return plain_tier(queue)
        start = context.choose_route(page.kind, page.url).capability
        key = TierKey(context.site_id, page.host, start)
        steps = escalation.build_ladder(start, context.site.escalate)
        here, _, region = queue.partition(".")
        if page.probe and here in steps:
            return Tier(key, steps, here, probe=True)
        route = self._routes.get(key)
        level = escalation.level_for(route, steps, page.level)
        if level != here:
            return Tier(
                key, steps, level, move=Move(queue_name(level, region), page.level, page.blocked)
            )
        below = escalation.level_below(level, steps)
        if route is not None and below is not None and page.level is None and not page.blocked:
            now = asyncio.get_running_loop().time() + self._clock_s
            if escalation.is_probe_due(route, steps, now):
                # This process asks once for each probe.
                self._routes = {**self._routes, key: replace(route, probe_at=now + PROBE_LOST_S)}
                if await asyncio.to_thread(self._begin_probe, key, steps):
                    return Tier(key, steps, below, move=Move(queue_name(below, region), probe=True))
        return Tier(key, steps, level, alone=level != escalation.level_for(route, steps))

    def after_block(
        self, page: LeasedPage, tier: Tier, queue: str, *, proxied: bool, suspicion: bool
    ) -> tuple[Verdict, Move] | None:
        """Returns what follows if the page gets another free try. None means that the free tries
        are used up, and the block is charged like any fault of the host.

        A try with proxies has used several of them already. A `suspicion` (the page lacks fields)
        gets one more try, one level up.
        """
        _, _, region = queue.partition(".")
        if tier.probe:
            level = self._routes[tier.key].level if tier.key in self._routes else tier.level
            return _due_without_charge(0.0), Move(queue_name(level, region))
        tries = PAGE_TRIES + 1 if proxied or suspicion else page.blocked + 1
        after = escalation.after_block(
            tier.level,
            tier.steps,
            tries,
            self._rng,
            proxies=0 if not proxied else PAGE_TRIES,
            charged=0,
            charged_max=2,
        )
        match after:
            case GoUp():
                return _due_without_charge(0.0), Move(queue_name(after.level, region), after.level)
            case RetryHere(charged=False):
                return _due_without_charge(after.delay_s), Move(queue, page.level, page.blocked + 1)
            case _:
                return None


@lru_cache
def plain_tier(queue: str) -> Tier:
    """Returns the only tier of a site without escalation."""
    level = queue.partition(".")[0]
    return Tier(TierKey(0, "", level), (level,), level)


def blocked_signal(page: LeasedPage, tier: Tier, sign: str) -> TierSignal | None:
    """Returns the signal of a page that is given up at its level; None if the host has one level
    only."""
    return (
        None
        if len(tier.steps) == 1
        else TierSignal(tier.key, tier.steps, tier.level, page.id, sign, tier.probe)
    )


def good_signal(page: LeasedPage, tier: Tier) -> TierSignal | None:
    """Returns the signal of a page that was served; None if the host has one level only."""
    return (
        None
        if len(tier.steps) == 1
        else TierSignal(tier.key, tier.steps, tier.level, page.id, None, tier.probe)
    )


def _due_without_charge(delay_s: float) -> Verdict:
    return Verdict(Status.DUE, delay_s, charged=False)
