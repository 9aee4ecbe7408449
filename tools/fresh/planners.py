"""Who decides when a page is visited: what the plug-in learns, and what it is compared with."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection

from scraper.plugins.freshness.learning import RESERVE
from scraper.plugins.freshness.rules.allocation import allocate, needed_budget, visits_of
from scraper.plugins.freshness.rules.contract import KEPT_DAYS, correct_share, needed_share
from scraper.plugins.freshness.rules.estimates import (
    SAME_CELLS,
    Evidence,
    estimate_rate,
    fresh_days,
    least_mean_rate,
)
from scraper.plugins.freshness.rules.plan import FIRST_RATE, SitePlan, first_rate
from scraper.plugins.freshness.rules.profile import Profile
from scraper.plugins.freshness.rules.sensors import SensorRecord
from scraper.plugins.freshness.rules.shares import PageGroup, mean_share

HALVINGS = 60
# Groups of rates to a factor of e.
CELLS = 16
PLANNED_EVERY = 0.5


class Planner(ABC):
    """Decides when pages are visited. Times are days."""

    name: str
    # Of all pages, a day; None: what the budget allows.
    visits: float | None = None

    def begin_round(self, now: float) -> Collection[int]:
        """Returns pages whose visit is moved forward to now. Called once an hour."""
        return ()

    @abstractmethod
    def next_visit(self, page: int, since: float, now: float, changed: bool) -> float:
        """Returns when a page is visited next, after a look at it."""


class KnownPlanner(Planner):
    """Visits each page at an interval of its own, which is given."""

    def __init__(self, name: str, visits: list[float]) -> None:
        self.name = name
        self.intervals = [1 / often for often in visits]

    def next_visit(self, page: int, since: float, now: float, changed: bool) -> float:
        return now + self.intervals[page]


class LearningPlanner(Planner):
    """Plans by the rules of the plug-in, from looks alone."""

    name = "learned"
    planned_every = PLANNED_EVERY
    within = 0.0

    def __init__(self, pages: int, budget: float, start: float) -> None:
        self.evidence = [Evidence()] * pages
        self.rates = [0.0] * pages
        self.budget = budget
        self.plan = SitePlan.of([PageGroup(FIRST_RATE, 1.0, pages)], budget)
        self.profile = Profile()
        self.planned_at = start
        self.promised = 0.0
        self.seen_fresh = self.seen = 0.0
        # Days of the last week: seen, true, and true by the formula.
        self.lately = [0.0, 0.0, 0.0]
        self.modelled = 0.0
        # Whether the next look sees the value before the last one again.
        self.returned = False

    def begin_round(self, now: float) -> Collection[int]:
        if now - self.planned_at >= self.planned_every:
            self._plan(now)
        return ()

    def _plan(self, now: float) -> None:
        self.planned_at = now
        cells = Counter(
            (round(math.log(rate) * CELLS), round(evidence.same * SAME_CELLS) / SAME_CELLS)
            for rate, evidence in zip(self.rates, self.evidence, strict=True)
            if rate
        )
        season = self.profile.season
        pages = [
            PageGroup(math.exp(cell / CELLS) * season, 1.0, number, same)
            for (cell, same), number in cells.items()
        ]
        unknown = self.rates.count(0.0)
        if unknown:
            pages.append(PageGroup(self.plan.mean_rate, 1.0, unknown))
        looks = [evidence for evidence in self.evidence if not evidence.same]
        changes = sum(evidence.changes for evidence in looks)
        together = Evidence(changes, quiet_days=sum(evidence.days for evidence in looks))
        looked = sum(evidence.days > 0 for evidence in looks) / max(len(looks), 1)
        least = least_mean_rate(together, looked) * season
        budget = self._find_budget(pages)
        self.plan = SitePlan.of(pages, budget, mean_least=least, within=self.within)
        self.profile.refresh()
        self.modelled = mean_share(pages, visits_of(pages, self.plan.allocation))
        self.promised = correct_share(self.modelled, *self.lately)
        self.lately = [days * math.exp(-self.planned_every / KEPT_DAYS) for days in self.lately]

    def _find_budget(self, pages: list[PageGroup]) -> float:
        return self.budget

    def next_visit(self, page: int, since: float, now: float, changed: bool) -> float:
        stretch = self.profile.stretched
        here = stretch(now)
        days = here - stretch(since)
        season = self.profile.season
        before = self.evidence[page]
        same = before.same
        evidence = before.after_look(days, changed=changed, returned=self.returned)
        self.evidence[page] = evidence
        mean_rate = self.plan.mean_rate / season
        rate_before = self.rates[page] or mean_rate
        rate = self.rates[page] = estimate_rate(evidence, mean_rate)
        known = before.outweighs(mean_rate)
        if known and not same:
            self.profile.add_look(since, now, rate_before * days * season, changed=changed)
        same = evidence.same
        rate *= season
        kept = fresh_days(days, rate, changed=changed, same=same)
        self.seen += now - since
        true_days = self.profile.unstretched(here - days + kept) - since
        if self.modelled:
            foreseen = self.modelled * (now - since) if known else true_days
            counted = now - since, true_days, foreseen
            self.lately = [sum(pair) for pair in zip(self.lately, counted, strict=True)]
        self.seen_fresh += true_days
        return self.profile.unstretched(here + self.plan.interval(rate, 1.0 - same))


class PromisePlanner(LearningPlanner):
    """Makes as many visits as a promise needs."""

    name = "promised"

    def __init__(self, pages: int, share: float, within: float, start: float) -> None:
        first = PageGroup(first_rate(share, within), 1.0, pages)
        super().__init__(pages, needed_budget([first], share, within), start)
        self.share, self.within, self.visits = share, within, self.budget
        self.plan = SitePlan.of([first], self.budget, within=within)

    def _find_budget(self, pages: list[PageGroup]) -> float:
        share = needed_share(self.share, *self.lately)
        self.budget = self.visits = RESERVE * needed_budget(pages, share, self.within)
        return self.budget


class LiedToPlanner(LearningPlanner):
    """Plans with a sensor that signals every page, every day."""

    name = "lied to"

    def __init__(self, pages: int, budget: float, start: float) -> None:
        super().__init__(pages, budget, start)
        self.record = SensorRecord()
        self.signalled: set[int] = set()
        self.day = 0

    def begin_round(self, now: float) -> Collection[int]:
        super().begin_round(now)
        if int(now) == self.day:
            return ()
        self.day = int(now)
        self.signalled = set(range(len(self.rates)))
        return self.signalled if self.record.has_say else ()

    def next_visit(self, page: int, since: float, now: float, changed: bool) -> float:
        chance = -math.expm1(-self.rates[page] * (now - since))
        signalled = page in self.signalled
        self.record = self.record.after_visit(signalled=signalled, changed=changed, chance=chance)
        self.signalled.discard(page)
        return super().next_visit(page, since, now, changed)


def best_visits(rates: list[float], budget: float) -> list[float]:
    """Returns the rates of visits that keep the most pages true (Azar and others, 2018), which are
    found apart from the plug-in."""
    cells = Counter(round(math.log(rate) * CELLS) for rate in rates)
    middles = {cell: math.exp(cell / CELLS) for cell in cells}
    low, high = -40.0, 20.0
    visits: dict[int, float] = {}
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        visits = {cell: _visits_at(rate, math.exp(middle)) for cell, rate in middles.items()}
        total = sum(often * cells[cell] for cell, often in visits.items())
        low, high = (middle, high) if total > budget else (low, middle)
    return [visits[round(math.log(rate) * CELLS)] for rate in rates]


def _visits_at(rate: float, value: float) -> float:
    """Returns how often a page is visited whose next visit is worth `value`."""
    if value * rate >= 1:
        return 1e-6
    low, high = 0.0, 40.0
    for _ in range(40):
        middle = (low + high) / 2
        gained = 1 - (1 + middle) * math.exp(-middle)
        low, high = (middle, high) if gained < value * rate else (low, middle)
    return rate / max(high, 1e-9)


def proportional_visits(rates: list[float], budget: float) -> list[float]:
    total = sum(rates)
    return [rate / total * budget for rate in rates]


def lambda_visits(rates: list[float], budget: float) -> list[float]:
    groups = [PageGroup(rate, 1.0, 1.0) for rate in rates]
    return visits_of(groups, allocate(groups, budget))
