"""Which way a page goes on this worker, and what follows when it is kept out: again, by another
proxy, or a level up.

`scraper.rules.escalation` says how; here is what this process knows of the hosts (read with every
claim and every two seconds), and how a decision becomes a verdict and a queue. A page that lies in
another queue than its host's level asks for goes to the right one, untried and unpaid: so what
waits need not be rewritten when a host moves.
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
from scraper.rules.escalation import (
    PAGE_TRIES,
    PROBE_LOST_S,
    GoUp,
    HostRoute,
    Ladder,
    RetryHere,
)
from scraper.rules.routing import queue_name

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Tier:
    """How a page is tried now: at `level`, one of `steps`. `alone`: its host needs less; `move`:
    not here, but there."""

    key: TierKey
    steps: Ladder
    level: str
    probe: bool = False
    alone: bool = False
    move: Move | None = None

    @property
    def above(self) -> str | None:
        """The level that it can go to when it is blocked."""
        return escalation.next_level(self.level, self.steps)


def begin_probe(engine: sa.Engine, key: TierKey, steps: Ladder) -> bool:
    """Whether this process may send the host's probe. Raises nothing: where PostgreSQL does not
    answer, somebody else probes later."""
    try:
        with engine.begin() as connection:
            return host_tiers.begin_probe(connection, key, steps)
    except SQLAlchemyError as error:
        if not outages.record_outage(error):
            log.exception("could not begin a probe", host=key.host)
        return False


class TierChoice:
    """One a process, on its loop. `begin_probe` asks the fleet whether this process may send a
    host's probe."""

    def __init__(self, begin_probe: Callable[[TierKey, Ladder], bool], rng: random.Random) -> None:
        self._begin_probe = begin_probe
        self._rng = rng
        self._routes: Mapping[TierKey, HostRoute] = {}
        # This leads from the loop's clock to PostgreSQL's.
        self._clock_s = 0.0

    def apply_routes(self, routes: Mapping[TierKey, HostRoute], now: float) -> None:
        """Takes what the fleet knows; `now`: PostgreSQL's clock at about this moment."""
        self._routes = routes
        self._clock_s = now - asyncio.get_running_loop().time()

    def level(self, context: CrawlContext, host: str, start: str) -> str:
        """Where a page of the host goes that has nothing of its own to say."""
        steps = escalation.build_ladder(start, context.site.escalate)
        return escalation.level_for(self._routes.get(TierKey(context.site_id, host, start)), steps)

    async def choose(self, page: LeasedPage, queue: str, context: CrawlContext) -> Tier:
        """How a page that came from `queue` is to be tried."""
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
                # It is asked once.
                self._routes = {**self._routes, key: replace(route, probe_at=now + PROBE_LOST_S)}
                if await asyncio.to_thread(self._begin_probe, key, steps):
                    return Tier(key, steps, below, move=Move(queue_name(below, region), probe=True))
        return Tier(key, steps, level, alone=level != escalation.level_for(route, steps))

    def after_block(
        self, page: LeasedPage, tier: Tier, queue: str, *, proxied: bool, suspicion: bool
    ) -> tuple[Verdict, Move] | None:
        """What follows where the page gets another chance for free; None: there is none left, and
        the host's account is charged as for any fault of a host.

        A visit through proxies has asked several of them already. A `suspicion` (its fields are
        missing) is looked into once, a level up.
        """
        _, _, region = queue.partition(".")
        if tier.probe:
            level = self._routes[tier.key].level if tier.key in self._routes else tier.level
            return _free(0.0), Move(queue_name(level, region))
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
                return _free(0.0), Move(queue_name(after.level, region), after.level)
            case RetryHere(charged=False):
                return _free(after.delay_s), Move(queue, page.level, page.blocked + 1)
            case _:
                return None


@lru_cache
def plain_tier(queue: str) -> Tier:
    """That of sites whose pages stay where they are."""
    level = queue.partition(".")[0]
    return Tier(TierKey(0, "", level), (level,), level)


def blocked_signal(page: LeasedPage, tier: Tier, sign: str) -> TierSignal | None:
    """What a block says of a host with a ladder, once the page has been given up at its level."""
    return (
        None
        if len(tier.steps) == 1
        else TierSignal(tier.key, tier.steps, tier.level, page.id, sign, tier.probe)
    )


def good_signal(page: LeasedPage, tier: Tier) -> TierSignal | None:
    return (
        None
        if len(tier.steps) == 1
        else TierSignal(tier.key, tier.steps, tier.level, page.id, None, tier.probe)
    )


def _free(delay_s: float) -> Verdict:
    return Verdict(Status.DUE, delay_s, charged=False)
