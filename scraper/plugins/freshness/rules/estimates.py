"""How often a page changes, by irregular looks at it. Pure. Times are days, rates changes a day.

A look says only whether a page has changed since the look before. If changes come at random (a
Poisson process of rate D), the most likely rate after looks with intervals u is the root of

    sum over changed of u / (e^(Du) - 1)  =  sum over unchanged of u

(Cho and Garcia-Molina, "Estimating frequency of change", 2003). A page keeps three sums instead of
its looks: the number of changed looks, and the days of the changed and of the unchanged ones. The
changed intervals count with their mean, which is exact for regular visits.

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


class Evidence(NamedTuple):
    """What a page's looks show: how many of them were changed, the days that these cover, and the
    days that the others cover."""

    changes: float = 0.0
    changed_days: float = 0.0
    quiet_days: float = 0.0

    def before_signal(self, days: float) -> Evidence:
        """Returns the evidence with `days` before a signal, in which a sensor saw no change. The
        look that follows covers the rest."""
        return self._replace(quiet_days=self.quiet_days + max(days, 0.0))

    def after_look(self, days: float, *, changed: bool) -> Evidence:
        """Returns the evidence with one more look, `days` after the one before."""
        days = max(days, 0.0)
        if changed:
            return Evidence(
                self.changes * FADES + 1,
                self.changed_days * FADES + days,
                self.quiet_days * FADES,
            )
        return Evidence(
            self.changes * FADES, self.changed_days * FADES, self.quiet_days * FADES + days
        )


def estimate_rate(evidence: Evidence, mean_rate: float) -> float:
    """Returns the most likely rate of a page whose site has this mean rate.

    >>> round(estimate_rate(Evidence(), 0.25), 6)
    0.25
    >>> round(estimate_rate(Evidence(500, 500, 500), 0.25), 3)
    0.692
    """
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


def _clamp_rate(rate: float) -> float:
    return min(max(rate, RATE_MIN), RATE_MAX)


def fresh_days(days: float, rate: float, *, changed: bool, most: float | None = None) -> float:
    """Returns for how much of the `days` between two looks the earlier one was true: all of them
    without a change, else the expected time of the first change. No more than `most` count.

    >>> round(fresh_days(2, 1e-9, changed=True), 3)
    1.0
    >>> round(fresh_days(2, 1e-9, changed=True, most=1), 3)
    0.75
    """
    bound = days if most is None else min(max(most, 0.0), days)
    if not changed:
        return bound
    x, part = rate * days, bound / days if days else 0.0
    if x < 1e-4:
        return bound * (1 - part / 2)
    # The integral of the probability that the first change comes later.
    lasting = math.exp(-min(x, 700.0))
    return days * (-math.expm1(-x * part) / x - part * lasting) / (1 - lasting)
