"""The plan of a site: what a page's next visit follows from, in a few numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scraper.plugins.freshness.rules.allocation import Allocation, allocate
from scraper.plugins.freshness.rules.shares import PageGroup

# The rate of changes of a site without any look: one a month.
FIRST_RATE = 1 / 30
# No page waits for longer than ten years.
LEAST_VISITS = 1 / 3650


class SitePlan(NamedTuple):
    """How a site's requests are shared among its pages, and the mean rate of their changes."""

    allocation: Allocation
    mean_rate: float

    @classmethod
    def of(
        cls, pages: Sequence[PageGroup], budget: float, least: float = 0.0, mean_least: float = 0.0
    ) -> SitePlan:
        """Plans `budget` visits a day, at least `least` of each page. The mean of the pages' rates
        is `mean_least` or more: it rises slowly by itself, since a page with few looks is taken to
        be close to it."""
        # The rates of pages that alternate say nothing of the others.
        ordinary = [group for group in pages if not group.same]
        number = sum(group.number for group in ordinary)
        changes = sum(group.number * group.rate for group in ordinary)
        mean = changes / number if number else FIRST_RATE
        return cls(allocate(pages, budget, least), max(mean, mean_least))

    def interval(self, rate: float, weight: float) -> float:
        """Returns the days from one visit of a page to the next."""
        return 1 / max(self.allocation.visits(rate, weight), LEAST_VISITS)
