"""How often each page is visited, for a number of requests a day. Pure.

The rule is LambdaCrawl's for pages that give no signals (Kolobov and others, "Staying up to date
with online content changes using reinforcement learning for scheduling", 2019): a page that changes
at a rate D and has the weight w is visited at the rate

    (-D + sqrt(D² + 4 w D / l)) / 2

with one `l` for the site, found by bisection, so that the rates sum to the budget. It starves no
page. With few requests most of what changes often is missed whatever one does, and these rates keep
fewer values true than could be. Then a part of the requests goes to the visits that keep the most
values true at fixed intervals (Cho and Garcia-Molina, "Effective page refresh policies", 2003):
with x = D I, all pages that are visited share the value

    V = w / D (1 - (1 + x) e^-x)

and pages that change too often are left out of that part. It is as small as `GOOD_SHARE` allows.

PageGroup come in groups of similar pages, so the cost does not depend on how many pages there are.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scraper.plugins.freshness.rules.shares import PageGroup, mean_share

# LambdaCrawl alone is good enough if it keeps this part of what could be kept true.
GOOD_SHARE = 0.993
# The parts of the best visits that are tried.
BEST_PARTS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.97)
# How exactly numbers are found, as a part of their range, and what depends on them.
ACCURACY = 2.0**-45
BUDGET_ACCURACY = 2.0**-22
BUDGET_MAX = 1e9
# The values of x and of 1 - (1 + x) e^-x, for the inverse of the latter.
_XS = [math.exp(step / 100 - 10) for step in range(1400)]
_GAINS = [-math.expm1(-x) - x * math.exp(-x) for x in _XS]


class Allocation(NamedTuple):
    """A site's numbers, from which each page's rate of visits follows: the multiplier `l`, the part
    of the best visits with their value and scale, equal visits if these are better, and the least
    rate."""

    multiplier: float
    part: float = 0.0
    value: float = 0.0
    scale: float = 1.0
    equal: float = 0.0
    least: float = 0.0

    def visits(self, rate: float, weight: float) -> float:
        """Returns how often a page is visited, a day."""
        if self.equal:
            return self.equal
        often = lambda_visits(rate, weight, self.multiplier)
        if self.part:
            best = self.scale * best_visits(rate, weight, self.value)
            often += self.part * (best - often)
        return max(often, self.least)


def lambda_visits(rate: float, weight: float, multiplier: float) -> float:
    """Returns LambdaCrawl's rate of visits.

    >>> round(lambda_visits(1.0, 1.0, 0.5), 3)
    1.0
    """
    scaled = 2 * weight * rate / multiplier
    # The formula above, turned so that nothing is lost where the two terms are nearly equal.
    return scaled / (rate + math.sqrt(rate * rate + 2 * scaled))


def best_visits(rate: float, weight: float, value: float) -> float:
    """Returns the rate of visits of a page whose next visit is worth `value`; 0 if none is.

    >>> round(best_visits(1.0, 1.0, 1 - 2 / math.e), 3), best_visits(9.0, 1.0, 0.2)
    (1.0, 0.0)
    """
    gain = value * rate / weight
    if gain >= _GAINS[-1]:
        return 0.0
    place = bisect_right(_GAINS, gain)
    if not place:
        return rate / math.sqrt(2 * gain)
    before, step = _GAINS[place - 1], _GAINS[place] - _GAINS[place - 1]
    part = (gain - before) / step if step else 0.0
    return rate / (_XS[place - 1] + part * (_XS[place] - _XS[place - 1]))


def allocate(
    pages: Sequence[PageGroup], budget: float, least: float = 0.0, within: float = 0.0
) -> Allocation:
    """Shares `budget` requests a day among the pages; each gets at least `least` visits a day. If
    the budget is too small for that, all get the same. Values count that are true, or were within
    that many days."""
    number = sum(group.number for group in pages)
    if not number or budget <= 0:
        return Allocation(1e30, least=least)
    equal = budget / number
    if least >= equal:
        return Allocation(1e30, equal=equal)
    multiplier = _find_number(pages, budget, lambda_visits)
    chosen = _mix_best(pages, budget, multiplier, within)
    return _raise_least(pages, chosen, budget, least) if least > 0 else chosen


def _mix_best(
    pages: Sequence[PageGroup], budget: float, multiplier: float, within: float
) -> Allocation:
    value = _find_number(pages, budget, best_visits)
    # Equal pages are left out together, so that the sum may pass over the budget.
    total = sum(group.number * best_visits(group.rate, group.gain, value) for group in pages)
    scale = budget / total if total else 1.0
    highest = _share_of(pages, Allocation(multiplier, 1.0, value, scale), within)
    even = Allocation(multiplier, equal=budget / sum(group.number for group in pages))
    least = _share_of(pages, even, within)
    wanted, reached, mixed = max(GOOD_SHARE * highest, least), 0.0, even
    for part in BEST_PARTS:
        mixed = Allocation(multiplier, part, value, scale)
        reached = _share_of(pages, mixed, within)
        if reached >= wanted - 1e-12:
            break
    return mixed if reached >= least - 1e-12 else even


def _find_number(
    pages: Sequence[PageGroup], budget: float, visits: Callable[[float, float, float], float]
) -> float:
    """Returns the number for which all pages' visits sum to the budget. The logarithm of the sum
    falls nearly in a straight line with the number's."""
    groups = [(group.number, group.rate, group.gain) for group in pages]

    def exceed(logarithm: float) -> float:
        number = math.exp(logarithm)
        total = sum(count * visits(rate, gain, number) for count, rate, gain in groups)
        return math.log(total / budget) if total else -math.inf

    return math.exp(_find_root(exceed, -70.0, 70.0))


def _find_root(
    function: Callable[[float], float], low: float, high: float, accuracy: float = ACCURACY
) -> float:
    """Returns where a falling function is no longer above zero, or the end that is nearest, by the
    method ITP (Oliveira and Takahashi, 2020). It makes three calls more than halving at worst, and
    few where the function is nearly straight."""
    above, below = function(low), function(high)
    if above <= 0:
        return low
    if below >= 0:
        return high
    slope, room = 0.2 / (high - low), high - low
    least = accuracy * room
    while high - low > least:
        middle = (low + high) / 2
        secant = middle
        if math.isfinite(below):
            secant = low + (high - low) * above / (above - below)
        # Towards the middle by a little, and never farther from it than what halving has left.
        moved = min(slope * (high - low) ** 2, abs(middle - secant))
        secant += math.copysign(moved, middle - secant)
        farthest = max(room - (high - low) / 2, 0.0)
        if abs(secant - middle) > farthest:
            secant = middle - math.copysign(farthest, middle - secant)
        value = function(secant)
        if abs(value) < accuracy:
            return secant
        if value > 0:
            low, above = secant, value
        else:
            high, below = secant, value
        room /= 2
    return high


def total_visits(pages: Sequence[PageGroup], allocation: Allocation) -> float:
    return sum(group.number * allocation.visits(group.rate, group.gain) for group in pages)


def visits_of(pages: Sequence[PageGroup], allocation: Allocation) -> list[float]:
    return [allocation.visits(group.rate, group.gain) for group in pages]


def needed_budget(
    pages: Sequence[PageGroup], share: float, within: float, least: float = 0.0
) -> float:
    """Returns the fewest requests a day with which the share is true within that many days."""

    def lack(logarithm: float) -> float:
        return share - _share_of(pages, allocate(pages, math.exp(logarithm), least, within), within)

    enough = math.exp(_find_root(lack, 0.0, math.log(BUDGET_MAX), BUDGET_ACCURACY))
    # What the least visits cost is spent in any case.
    return max(enough, least * sum(group.number for group in pages))


def reached_age(pages: Sequence[PageGroup], allocation: Allocation, share: float) -> float:
    """Returns the age in days within which the share of values is true."""
    visits = visits_of(pages, allocation)
    return _find_root(lambda days: share - mean_share(pages, visits, days), 0.0, 3650.0)


def _share_of(pages: Sequence[PageGroup], allocation: Allocation, within: float) -> float:
    return mean_share(pages, visits_of(pages, allocation), within)


def _raise_least(
    pages: Sequence[PageGroup], chosen: Allocation, budget: float, least: float
) -> Allocation:
    """Returns an allocation whose pages all get the least visits, at the cost of the others."""

    def scale(logarithm: float) -> Allocation:
        factor = math.exp(logarithm)
        return chosen._replace(
            multiplier=chosen.multiplier * factor,
            value=chosen.value * factor,
            scale=1.0,
            equal=0.0,
            least=least,
        )

    def exceed(logarithm: float) -> float:
        return math.log(total_visits(pages, scale(logarithm)) / budget)

    raised = scale(_find_root(exceed, 0.0, 70.0))
    # The best visits jump to 0, and no factor may lead to the budget then.
    if chosen.part and abs(total_visits(pages, raised) - budget) > 1e-3 * budget:
        return _raise_least(pages, chosen._replace(part=0.0), budget, least)
    return raised
