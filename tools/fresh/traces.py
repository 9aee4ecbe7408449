"""Invented pages that change: when each changes next. Times are days, from a Monday at 00:00."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod

from scraper.plugins.freshness.rules.profile import Profile

# 1970-01-05 was a Monday.
START = 4.0
SIGMA = 1.5
NIGHT = 3 / 24
BURST_DAYS = 0.5
BURST_CHANGES = 4.0


class Trace(ABC):
    """The changes of all pages, of which each has a mean rate."""

    name: str

    def __init__(self, rates: list[float], rng: random.Random) -> None:
        self.rates = rates
        self.rng = rng
        self.next = [START] * len(rates)
        self.next = [self.after(page, START) for page in range(len(rates))]

    @abstractmethod
    def after(self, page: int, at: float) -> float:
        """Returns when a page changes next after a time."""

    def look(self, page: int, since: float, now: float) -> float | None:
        """Returns when a page first changed since the last look, or None."""
        first = self.next[page]
        if first > now:
            return None
        self.next[page] = self.after(page, now)
        return first


class PoissonTrace(Trace):
    """Changes at random."""

    name = "poisson"

    def after(self, page: int, at: float) -> float:
        return at + self.rng.expovariate(self.rates[page])


class NightlyTrace(Trace):
    """Changes at three o'clock at night, each night with the same chance."""

    name = "nightly"

    def after(self, page: int, at: float) -> float:
        chance = -math.expm1(-self.rates[page])
        nights = math.ceil(math.log(1 - self.rng.random()) / math.log(1 - min(chance, 1 - 1e-12)))
        return math.floor(at - NIGHT) + NIGHT + max(nights, 1)


class SeasonalTrace(Trace):
    """Changes at random, most of them on Tuesdays and in working hours."""

    name = "seasonal"

    def __init__(self, rates: list[float], rng: random.Random) -> None:
        hours = [8.0 if 8 <= hour < 18 else 1.0 for hour in range(24)]
        # Days since 1970 count from Monday in a profile.
        self.profile = Profile(hours, [2.0, 8.0, 2.0, 2.0, 2.0, 1.0, 1.0])
        super().__init__(rates, rng)

    def after(self, page: int, at: float) -> float:
        stretched = self.profile.stretched(at) + self.rng.expovariate(self.rates[page])
        return self.profile.unstretched(stretched)


class BurstyTrace(Trace):
    """Changes come several at a time, within half a day, with long pauses between."""

    name = "bursty"

    def __init__(self, rates: list[float], rng: random.Random) -> None:
        self.burst_until = [0.0] * len(rates)
        # Days between the beginnings of bursts.
        self.pauses = [(BURST_CHANGES + 1) / rate for rate in rates]
        super().__init__(rates, rng)
        cycles = [BURST_DAYS + pause for pause in self.pauses]
        self.rates = [(BURST_CHANGES + 1) / cycle for cycle in cycles]

    def after(self, page: int, at: float) -> float:
        rng, changed = self.rng, self.next[page]
        while changed <= at:
            until = self.burst_until[page]
            within = changed + rng.expovariate(BURST_CHANGES / BURST_DAYS)
            if within < until:
                changed = within
                continue
            changed = max(changed, until) + rng.expovariate(1 / self.pauses[page])
            self.burst_until[page] = changed + BURST_DAYS
        return changed


TRACES: tuple[type[Trace], ...] = (PoissonTrace, NightlyTrace, SeasonalTrace, BurstyTrace)


def draw_rates(pages: int, rng: random.Random, mean: float = 0.3) -> list[float]:
    """Returns changes a day of pages, as they differ in shops: many hardly ever change."""
    centre = math.log(mean) - SIGMA**2 / 2
    return [min(math.exp(rng.gauss(centre, SIGMA)), 24.0) for _ in range(pages)]
