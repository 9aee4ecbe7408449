"""Whether what a site was promised is kept, and if not, why. Pure."""

from __future__ import annotations

from typing import NamedTuple

# A share may be this much lower before the contract is broken.
TOLERANCE = 0.02
# A plan without a promise expects a share, which is less certain.
PLAN_TOLERANCE = 0.05
# Fewer visits than this part of the planned ones are too few.
VISITED_PART = 0.8

# The days of one page that a formula is worth, before its errors are known.
FORMULA_DAYS = 50.0
# What was kept fades within about a week.
KEPT_DAYS = 7.0

SMALL_BUDGET = "budget too small"
SLOW_HOST = "fewer visits than planned"
MORE_CHANGES = "more changes than learned"


def correct_share(share: float, seen: float, kept: float, foreseen: float) -> float:
    """Returns the share that a plan promises, by the one that its formula gives, and how formulas
    were kept so far: of the days `seen`, those in which what was stored was `kept` true, and those
    that were `foreseen`. What is lost counts as many times as it did then.

    >>> round(correct_share(0.8, 0, 0, 0), 3), round(correct_share(0.8, 1e6, 9e5, 8e5), 3)
    (0.8, 0.9)
    """
    usual = FORMULA_DAYS * (1 - share)
    if usual <= 0:
        return share
    return max(1 - (1 - share) * (seen - kept + usual) / (max(seen - foreseen, 0.0) + usual), 0.0)


def needed_share(share: float, seen: float, kept: float, foreseen: float) -> float:
    """Returns the share that a plan's formula must give for a promise of `share`: the reverse of
    `correct_share`.

    >>> round(needed_share(0.8, 0, 0, 0), 3), round(needed_share(0.9, 1e6, 9e5, 8e5), 3)
    (0.8, 0.8)
    """
    usual = FORMULA_DAYS * (1 - share)
    if usual <= 0:
        return share
    return max(1 - (1 - share) * (max(seen - foreseen, 0.0) + usual) / (seen - kept + usual), 0.0)


class Contract(NamedTuple):
    """What a site was promised, and what was kept. A share without a promise, or before the first
    look, is None; `visits` and `visited` are product pages a day, planned and real."""

    needed: float
    budget: float | None
    promised: float | None
    promise_kept: float | None
    planned: float
    kept: float | None
    visits: float
    visited: float | None

    @property
    def broken(self) -> str | None:
        """The reason for which the contract is broken; None if it is kept.

        >>> Contract(900, 1000, 0.95, 0.91, 0.8, 0.8, 100, 60).broken
        'fewer visits than planned'
        """
        if self.promised is not None and self.budget is not None and self.needed > self.budget:
            return SMALL_BUDGET
        if not self._is_missed():
            return None
        if self.visited is not None and self.visited < VISITED_PART * self.visits:
            return SLOW_HOST
        return MORE_CHANGES

    def _is_missed(self) -> bool:
        if self.promised is not None:
            return self.promise_kept is not None and self.promise_kept < self.promised - TOLERANCE
        return self.kept is not None and self.kept < self.planned - PLAN_TOLERANCE
