"""What a plan of visits is worth: exact shares of values that are true. Pure. Times are days.

A page that changes at a rate D and is visited every I days is true for this share of the time
(Cho and Garcia-Molina, "Effective page refresh policies", 2003), with x = D I:

    F(x) = (1 - e^-x) / x

"Within an age a": the stored value is what the shop showed at some time of the last `a` days. That
holds during the first `a` days after each visit in any case, and afterwards as above.

A page that alternates between two values (see `estimates`) shows the one that is stored for the
share `same` of the time whenever it is visited. Visits count for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class PageGroup(NamedTuple):
    """A number of pages with the same rate of changes and the same weight. `same`: the share of the
    time for which they are true without visits."""

    rate: float
    weight: float
    number: float
    same: float = 0.0

    @property
    def gain(self) -> float:
        """The weight of what visits may keep true."""
        return self.weight * (1 - self.same)


def true_share(rate: float, visits: float, within: float = 0.0, same: float = 0.0) -> float:
    """Returns the share of the time for which a page's value is true, or was within that many days.
    `visits` is how often it is visited, a day.

    >>> round(true_share(1.0, 1.0), 4), true_share(1.0, 1.0, within=1.0)
    (0.6321, 1.0)
    >>> round(true_share(100.0, 1.0, same=0.5), 3)
    0.505
    """
    if visits * within >= 1:
        return 1.0
    if visits <= 0:
        return same if rate > 0 else 1.0
    late = 1 / visits - within
    x = rate * late
    share = -math.expm1(-x) / x if x > 1e-9 else 1.0
    missed = (1 - same) * stays_away(rate, within, same)
    return 1 - late * visits * (1 - share) * missed


def stays_away(rate: float, days: float, same: float) -> float:
    """Returns the probability that a page does not show its earlier value again within that many
    days: 1 unless it alternates."""
    return math.exp(-min(same, 1 - same) * rate * days)


def mean_share(pages: Sequence[PageGroup], visits: Sequence[float], within: float = 0.0) -> float:
    """Returns the weighted share of all pages; `visits` are the rates of visits of each group."""
    total = sum(group.weight * group.number for group in pages)
    if not total:
        return 1.0
    shares = (
        group.weight * group.number * true_share(group.rate, often, within, group.same)
        for group, often in zip(pages, visits, strict=True)
    )
    return sum(shares) / total


def looked_share(pages: Sequence[PageGroup], visits: Sequence[float], within: float) -> float:
    """Returns the weighted share of pages whose last visit is at most that many days ago: plain
    arithmetic, whatever they do."""
    total = sum(group.weight * group.number for group in pages)
    if not total:
        return 1.0
    return (
        sum(
            group.weight * group.number * min(often * within, 1.0)
            for group, often in zip(pages, visits, strict=True)
        )
        / total
    )
