"""How often a page changes, by irregular looks at it. Pure. Times are days, rates changes a day.

A look says only whether a page has changed since the look before. If changes come at random (a
Poisson process of rate D), the most likely rate after looks with intervals u is the root of

    sum over changed of u / (e^(Du) - 1)  =  sum over unchanged of u

(Cho and Garcia-Molina, "Estimating frequency of change", 2003). A page keeps three sums instead of
its looks: the number of changed looks, and the days of the changed and of the unchanged ones. The
changed intervals count with their mean, which is exact for regular visits.

Some pages alternate between two values: a price with and without a sale, a product that is in stock
or sold out. A look may see the old value again, so that changes are missed. Such a page is a Markov
chain of two states. It draws one of them at random at a rate D, and draws the same one with the
probability `same`. After t days it shows another value with the probability

    (1 - same) (1 - e^(-Dt))

and `same` is 1/2 if both values are shown for the same time. A page is taken to alternate if most
of its changes bring back the value before the last one.

While a page has few looks, it is close to its site's mean rate: a gamma prior, as if `SHAPE`
changes had been seen at that rate. Old looks fade, so that a page may change its habits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# The fewer changes the prior is worth, the more pages of a site may differ.
SHAPE = 0.4
# Each look multiplies the weight of earlier ones by this: about the last 60 count.
FADES = 1 - 1 / 60
# Bounds of a rate: one change in ten years, and one a minute.
RATE_MIN = 1 / 3650
RATE_MAX = 1440.0
# Smaller numbers count as 0.
TINY = 1e-9
STEPS_MAX = 30
# A page alternates if this many changes, and this part of all, have brought an earlier value back.
RETURNS_MIN = 2
RETURNS_PART = 0.75
# Pages that alternate are alike in steps of this part of the time.
SAME_CELLS = 20
HALVINGS = 8
# More draws a day make no difference to a plan.
DRAWS_MAX = 24.0
# The likelihood of a page that alternates hardly falls above the rate at which its looks miss most
# changes: so this many standard deviations more looks count as changed.
MORE_CHANGED = 0.5


class Evidence(NamedTuple):
    """What a page's looks show: how many of them were changed, the days that these cover, the days
    that the others cover, and how many they are; how many changes brought back the value before the
    last one, and how many looks saw the value that the page does not show now."""

    changes: float = 0.0
    changed_days: float = 0.0
    quiet_days: float = 0.0
    quiet_looks: float = 0.0
    returns: float = 0.0
    other_looks: float = 0.0

    @property
    def same(self) -> float:
        """The probability that a draw brings the same value; 0 if the page does not alternate.

        >>> Evidence(10, 10, 10, 10, returns=9, other_looks=10).same, Evidence(10, 10, 10, 10).same
        (0.5, 0.0)
        """
        if self.returns < RETURNS_MIN or self.returns < RETURNS_PART * (self.changes - 1):
            return 0.0
        part = (self.other_looks + 0.5) / (self.changes + self.quiet_looks + 1)
        return 1 - 2 * part * (1 - part)

    @property
    def days(self) -> float:
        """The days between the looks."""
        return self.changed_days + self.quiet_days

    def outweighs(self, mean_rate: float) -> bool:
        """Returns whether a page's rate follows from its looks rather than from its site's mean
        rate: they cover the time of one change at that rate."""
        return self.days * mean_rate >= 1

    def before_signal(self, days: float) -> Evidence:
        """Returns the evidence with `days` before a signal, in which a sensor saw no change. The
        look that follows covers the rest."""
        return self._replace(quiet_days=self.quiet_days + max(days, 0.0))

    def after_look(self, days: float, *, changed: bool, returned: bool = False) -> Evidence:
        """Returns the evidence with one more look, `days` after the one before. `returned`: the
        change brought back the value before the last one."""
        days = max(days, 0.0)
        looks = self.changes + self.quiet_looks
        other = looks - self.other_looks if changed else self.other_looks
        return Evidence(
            self.changes * FADES + changed,
            self.changed_days * FADES + (days if changed else 0.0),
            self.quiet_days * FADES + (0.0 if changed else days),
            self.quiet_looks * FADES + (not changed),
            self.returns * FADES + returned,
            max(other, 0.0) * FADES,
        )


def least_mean_rate(evidence: Evidence, looked_share: float) -> float:
    """Returns the lowest mean rate that a site's pages are likely to have: the rate that the sum of
    all their `evidence` shows, less a standard deviation. Pages that were never looked at, those
    outside of `looked_share`, count as if they did not change. Several changes between two looks
    count as one.

    >>> least_mean_rate(Evidence(1, 1, 9), 1.0), least_mean_rate(Evidence(100, 200, 300), 0.5)
    (0.0, 0.09)
    """
    if not evidence.days:
        return 0.0
    return looked_share * (evidence.changes - math.sqrt(evidence.changes)) / evidence.days


def estimate_rate(evidence: Evidence, mean_rate: float) -> float:
    """Returns the most likely rate of a page whose site has this mean rate.

    >>> round(estimate_rate(Evidence(), 0.25), 6)
    0.25
    >>> round(estimate_rate(Evidence(500, 500, 500), 0.25), 3)
    0.692
    """
    if same := evidence.same:
        return _estimate_draws(evidence, same)
    quiet = evidence.quiet_days + SHAPE / mean_rate
    if evidence.changes < TINY:
        return _clamp_rate(SHAPE / quiet)
    mean = max(evidence.changed_days / evidence.changes, TINY)
    # The left side falls from infinity to 0, and 1/D is above u/(e^(Du) - 1): so the root is below
    # this rate, and Newton's steps on a convex function that begin below it never pass it.
    high = (evidence.changes + SHAPE) / quiet
    rate = high / (1 + high * mean)
    for _ in range(STEPS_MAX):
        grown = math.expm1(min(rate * mean, 700.0))
        part = evidence.changes * mean / grown
        excess = part + SHAPE / rate - quiet
        slope = part * mean * (grown + 1) / grown + SHAPE / rate**2
        step = excess / slope
        rate = max(rate + step, rate / 4)
        if abs(step) < 1e-4 * rate:
            break
    return _clamp_rate(rate)


def _estimate_draws(evidence: Evidence, same: float) -> float:
    """Returns the most likely rate of the draws of a page that alternates. The site's mean rate
    says nothing of pages whose changes are missed."""
    changes, quiet_looks = evidence.changes, max(evidence.quiet_looks, 1.0)
    more = MORE_CHANGED * math.sqrt(changes * quiet_looks / (changes + quiet_looks))
    changed, quiet = evidence.changed_days / changes, evidence.quiet_days / quiet_looks
    low, high = math.log(RATE_MIN), math.log(DRAWS_MAX)
    middle = low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rate = math.exp(middle)
        rises = (changes + more) * changed / max(math.expm1(min(rate * changed, 700.0)), TINY)
        falls = (quiet_looks - more) * quiet * (1 - same)
        falls /= same * math.exp(min(rate * quiet, 700.0)) + 1 - same
        low, high = (middle, high) if rises > falls else (low, middle)
    return math.exp(middle)


def _clamp_rate(rate: float) -> float:
    return min(max(rate, RATE_MIN), RATE_MAX)


def fresh_days(
    days: float, rate: float, *, changed: bool, most: float | None = None, same: float = 0.0
) -> float:
    """Returns for how much of the `days` between two looks the earlier one was true: all of them
    without a change, else the expected time of the first change. No more than `most` count. A page
    that alternates is true again after some changes.

    >>> round(fresh_days(2, 1e-9, changed=True), 3)
    1.0
    >>> round(fresh_days(2, 1e-9, changed=True, most=1), 3)
    0.75
    >>> round(fresh_days(2, 500, changed=True, same=0.5), 3)
    1.0
    """
    bound = days if most is None else min(max(most, 0.0), days)
    if same and days:
        return _alternating_days(days, rate, bound, same, changed=changed)
    if not changed:
        return bound
    x, part = rate * days, bound / days if days else 0.0
    if x < 1e-4:
        return bound * (1 - part / 2)
    # The integral of the probability that the first change comes later.
    lasting = math.exp(-min(x, 700.0))
    return days * (-math.expm1(-x * part) / x - part * lasting) / (1 - lasting)


def _alternating_days(
    days: float, rate: float, bound: float, same: float, *, changed: bool
) -> float:
    """Returns the integral of the probability that a page shows the value of the look before, as
    the look after has seen it."""
    other = 1 - same
    x, lasting = rate * days, math.exp(-min(rate * days, 700.0))
    if x < 1e-4:
        return bound * (1 - bound / days / 2) if changed else bound
    seen = same + other * lasting
    # The integrals of the probabilities of the value then, and of both values then and at the end.
    then = same * bound - other / rate * math.expm1(-rate * bound)
    late = (math.exp(-rate * (days - bound)) - lasting) / rate
    both = same * then + other * (same * late + other * bound * lasting)
    kept = (then - both) / (1 - seen) if changed else both / seen
    # A bound of hardly any time is smaller than the rounding.
    return min(max(kept, 0.0), bound)
