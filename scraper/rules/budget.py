"""Decides how fast a host may be asked: a definition's budget, an operator's override, and the pace
between full speed and the floor. Pure.

The numbers that make a host slower and faster again are here (AIMD: additive increase,
multiplicative decrease); `scraper.politeness.fleet_limiter` applies them in one atomic script, on
Redis's clock, for the whole fleet.

- **Slower**: 429, 503 and timeouts halve the pace (`CUT`). A request that left before the last cut
  took effect says nothing new: slots that were reserved at the old pace are used for `SETTLES_S`
  more. So a hundred 429s of one burst are one signal, and the pace is halved once each round trip,
  as TCP does.
- **Faster**: a success adds `STEP`, but all of them together at most the whole pace in
  `RECOVERS_S`. A host that was halved once is back after a minute; one that is asked once a minute,
  after ten good answers. The pace never exceeds the budget.
- **Floor**: `FLOOR` of the budget. A host that needs a slower pace is down, which
  `scraper.rules.circuit_breaker` handles.

429, and 503 with Retry-After, ask to slow down and count at once. Timeouts and other 503s may be
the page's own trouble, or normal for the shop: they count while more than `BAD_SHARE` of the host's
latest answers (weighted by `BAD_WEIGHT`) are of that kind; after a clean record, from the fifth in
a row on. A shop that fails one page in twenty at any pace is not slowed for it. A page that fails
again says nothing new about a healthy host: at the end of a crawl only such pages are left. Nor
does a page without an answer for much longer than all others took in that time, as long as most
pages are answered: an overloaded host is slow for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from scraper.domain import Blame, Outcome

CUT = 0.5
FLOOR = 1 / 32
STEP = 0.05
RECOVERS_S = 120.0
SETTLES_S = 2.0
BAD_SHARE = 0.15
MOST_SHARE = 0.5
BAD_WEIGHT = 1 / 30
# A host with a good answer within this time, and few bad ones, is healthy. It outlasts the tries of
# a crawl's last page, whose first one may take the whole page timeout.
HEALTHY_S = 180.0
UNASKED = frozenset(
    {Outcome.FRESH, Outcome.FORBIDDEN_ADDRESS, Outcome.ROBOTS_DISALLOWED, Outcome.HOST_DOWN}
)


@dataclass(frozen=True, slots=True)
class Budget:
    """A host's budget for the whole fleet. `interval_s` 0: no rate. `burst` requests may leave at
    once after a pause (a token bucket of that size); any window of W seconds has at most `W /
    interval_s + burst` requests."""

    interval_s: float = 0.0
    concurrency: int = 1
    burst: int = 1


class UnusedSlots(NamedTuple):
    """The last `slots` of a reservation, returned unused; `end` is the reservation's own."""

    end: int
    slots: int
    interval_s: float


@dataclass(frozen=True, slots=True)
class Override:
    """What an operator set for a host; None keeps the definition's value. `interval_s` 0: no
    rate."""

    paused: bool = False
    interval_s: float | None = None
    concurrency: int | None = None
    burst: int | None = None


NO_OVERRIDE = Override()


def combine_budgets(budgets: Iterable[Budget], override: Override, crawl_delay_s: float) -> Budget:
    """Returns the budget in force: of several sites on one host the strictest in each number; the
    operator's override beats the definitions, and robots.txt's crawl delay beats both, one request
    at a time."""
    budgets = list(budgets) or [Budget()]
    interval_s = max(budget.interval_s for budget in budgets)
    concurrency = min(budget.concurrency for budget in budgets)
    burst = min(budget.burst for budget in budgets)
    interval_s = interval_s if override.interval_s is None else override.interval_s
    burst = override.burst or burst
    if crawl_delay_s > interval_s:
        interval_s, burst = crawl_delay_s, 1
    return Budget(interval_s, override.concurrency or concurrency, burst)


class Signals:
    """Decides which outcomes of one host's pages are a reason to slow down, in one process. `now`
    is in seconds of any steady clock."""

    __slots__ = ("_answered_at", "_bad")

    def __init__(self) -> None:
        # The share of the latest answers that were timeouts and 503s.
        self._bad = 0.0
        self._answered_at = float("-inf")

    def is_answering(self, now: float) -> bool:
        """Returns whether the host has given a good answer lately."""
        return now - self._answered_at <= HEALTHY_S

    def is_healthy(self, now: float, share: float = BAD_SHARE) -> bool:
        """Returns whether the host answers other pages well, but for a share."""
        return self._bad <= share and self.is_answering(now)

    def record(
        self,
        outcome: Outcome,
        status: int | None,
        now: float,
        *,
        failed_before: bool = False,
        alone: bool = False,
    ) -> bool | None:
        """Records an outcome. Returns True for a reason to slow down, False for a good answer, None
        for neither. `failed_before`: the page has been charged for its host before. `alone`: other
        pages were answered well while this one was not."""
        if outcome in UNASKED:
            return None
        if outcome is Outcome.THROTTLED:
            return True
        if outcome is Outcome.TIMEOUT or (outcome is Outcome.SERVER_ERROR and status == 503):
            share = MOST_SHARE if alone else BAD_SHARE
            if failed_before and self.is_healthy(now, share):
                return None
            self._bad += BAD_WEIGHT * (1 - self._bad)
            return True if self._bad > share else None
        if outcome.blame in (Blame.HOST, Blame.US):
            return None
        self._bad -= BAD_WEIGHT * self._bad
        self._answered_at = now
        return False


class Terms:
    """The budgets of one host's sites in this process, their crawl delays, and the operator's
    override. Each method that changes one of them returns whether the budget in force changed."""

    def __init__(self, override: Override = NO_OVERRIDE) -> None:
        self.override = override
        self.budget = Budget()
        self._sites: dict[int, Budget] = {}
        self._delays: dict[int, float] = {}
        # Sites that had a page since the last sweep, and since the one before.
        self._used: set[int] = set()
        self._used_before: set[int] = set()

    def set_budget(self, site: int, budget: Budget) -> bool:
        self._used.add(site)
        if self._sites.get(site) is budget:
            return False
        self._sites[site] = budget
        return self._recompute_budget()

    def set_crawl_delay(self, site: int, seconds: float) -> bool:
        if self._delays.get(site, 0.0) == seconds:
            return False
        self._delays[site] = seconds
        return self._recompute_budget()

    def apply_override(self, override: Override) -> bool:
        self.override = override
        return self._recompute_budget()

    def drop_idle_sites(self) -> bool:
        """Drops the budgets of sites without a page here for two sweeps."""
        used, changed = self._used | self._used_before, False
        if used and len(self._sites) > 1 and (idle := self._sites.keys() - used):
            for site in idle:
                del self._sites[site]
                self._delays.pop(site, None)
            changed = self._recompute_budget()
        self._used_before = self._used
        self._used = set()
        return changed

    def _recompute_budget(self) -> bool:
        before = self.budget
        self.budget = combine_budgets(
            self._sites.values(), self.override, max(self._delays.values(), default=0.0)
        )
        return self.budget != before
