"""When a shop changes its pages: by the hour of the day and the day of the week. Pure.

Many shops change prices at night, or on one day of the week. A profile stretches the time: an hour
with many changes is long in it, and one without is short, so that changes come at random in the
stretched time. Rates and intervals count in stretched days; a week has seven of them either way.

A changed look says that a change came within an interval, not when. It counts for all hours of its
interval, by what the profile says of them already (expectation and maximisation); looks more than a
day apart say nothing of the hour, and those more than a week apart nothing at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

HOURS = 24
DAYS = 7
WEEK_HOURS = HOURS * DAYS
# The changes that an even profile is worth.
HOUR_PRIOR = 48.0
DAY_PRIOR = 28.0
# A profile fades by this with each changed look.
FADES = 1 - 1 / 3000
# No hour is shorter than this part of an even one.
LEAST = 0.05
# 1970-01-01, day 0, was a Thursday.
EPOCH_WEEKDAY = 3


class Profile:
    """A site's changes by hour and weekday (UTC). Times are days since 1970."""

    def __init__(
        self, hours: Sequence[float] | None = None, days: Sequence[float] | None = None
    ) -> None:
        self.hours = list(hours or [HOUR_PRIOR / HOURS] * HOURS)
        self.days = list(days or [DAY_PRIOR / DAYS] * DAYS)
        self._measure_hours()

    def stretched(self, at: float) -> float:
        """Returns the stretched time of a time."""
        hours = (at + EPOCH_WEEKDAY) * HOURS
        week, hour = divmod(hours, WEEK_HOURS)
        whole = int(hour)
        before = self._sums[whole]
        return DAYS * week + before + (hour - whole) * (self._sums[whole + 1] - before)

    def unstretched(self, stretched: float) -> float:
        """Returns the time of a stretched time."""
        week, rest = divmod(stretched, DAYS)
        whole = min(bisect_right(self._sums, rest) - 1, WEEK_HOURS - 1)
        before = self._sums[whole]
        part = (rest - before) / (self._sums[whole + 1] - before)
        return (week * WEEK_HOURS + whole + part) / HOURS - EPOCH_WEEKDAY

    def add_change(self, since: float, until: float) -> None:
        """Counts a change between two looks."""
        if not 0 < until - since <= DAYS:
            return
        if until - since <= 1:
            self._add_part(self.hours, HOURS, since * HOURS, until * HOURS)
        first = since + EPOCH_WEEKDAY
        self._add_part(self.days, DAYS, first, first + until - since)

    def refresh(self) -> None:
        """Makes the changes that were added count for stretched times."""
        self._measure_hours()

    def _add_part(self, counts: list[float], size: int, since: float, until: float) -> None:
        parts = []
        at = since
        while at < until:
            end = min(float(int(at) + 1), until)
            parts.append((int(at) % size, (end - at) * counts[int(at) % size]))
            at = end
        total = sum(part for _, part in parts)
        fades = FADES
        counts[:] = [count * fades for count in counts]
        for place, part in parts:
            counts[place] += part / total

    def _measure_hours(self) -> None:
        hours, days = _share_out(self.hours), _share_out(self.days)
        lengths = [day * hour for day in days for hour in hours]
        factor = DAYS / sum(lengths)
        self._sums = [0.0, *accumulate(length * factor for length in lengths)]
        self._sums[-1] = float(DAYS)


def _share_out(counts: Sequence[float]) -> list[float]:
    even = sum(counts) / len(counts)
    return [max(count / even, LEAST) for count in counts]
