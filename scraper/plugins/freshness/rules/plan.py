"""The plan of a site: what a page's next visit follows from, in a few numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scraper.plugins.freshness.rules.allocation import Allocation, allocate
from scraper.plugins.freshness.rules.shares import PageGroup

# The rate of changes of a site without any look, and without a promise: one a month.
FIRST_RATE = 1 / 30
# With a promise, each page is at first visited as often as this many times its age.
FIRST_AGES = 2.0
# No page waits for longer than ten years.
LEAST_VISITS = 1 / 3650


def first_rate(share: float, within: float) -> float:
    """Returns the rate of changes of a site without any look, which was promised that this share is
    true within that many days: the rate at which a visit each `FIRST_AGES` times as many days just
    keeps the promise, so that it is kept unless pages change more often.

    >>> round(first_rate(0.95, 0.5), 3), round(first_rate(0.95, 0), 3)
    (0.4, 0.033)
    """
    if not within:
        return FIRST_RATE
    # Of few changes, those in the days after the age are missed for half of these days.
    missed_days = (FIRST_AGES - 1) ** 2 / (2 * FIRST_AGES) * within
    return max((1 - share) / missed_days, FIRST_RATE)


class SitePlan(NamedTuple):
    """How a site's requests are shared among its pages, and the mean rate of their changes."""

    allocation: Allocation
    mean_rate: float

    @classmethod
    def of(
        cls,
        pages: Sequence[PageGroup],
        budget: float,
        least: float = 0.0,
        mean_least: float = 0.0,
        within: float = 0.0,
    ) -> SitePlan:
        """Plans `budget` visits a day, at least `least` of each page, for values that are true or
        were `within` that many days. The mean of the pages' rates is `mean_least` or more: it rises
        slowly by itself, since a page with few looks is taken to be close to it."""
        # The rates of pages that alternate say nothing of the others.
        ordinary = [group for group in pages if not group.same]
        number = sum(group.number for group in ordinary)
        changes = sum(group.number * group.rate for group in ordinary)
        mean = changes / number if number else FIRST_RATE
        return cls(allocate(pages, budget, least, within), max(mean, mean_least))

    def interval(self, rate: float, weight: float) -> float:
        """Returns the days from one visit of a page to the next."""
        return 1 / max(self.allocation.visits(rate, weight), LEAST_VISITS)
