"""When a shop changes its pages: by the hour of the day and the day of the week. Pure.

Many shops change prices at night, or on one day of the week. A profile stretches the time: an hour
with many changes is long in it, and one without is short, so that changes come at random in the
stretched time. Rates and intervals count in stretched days; a week has seven of them either way.

A look says only whether a change came within its interval. So an hour is as long as the changes
that came in it, over those that would have come if all hours were alike. Both are counted at each
look, a change for all hours of its interval, by what the profile says of them already (expectation
and maximisation). Without the looks that found no change, hours that are looked at more often would
grow longer and longer. Looks more than a day apart say nothing of the hour, and those more than a
week apart nothing of the weekday.

A shop's season is counted in the same way: the changes that came in the last weeks, over those that
its pages' rates had led one to expect. Rates are those of a year without seasons.
"""

from __future__ import annotations

import math
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
# The changes that a season without any is worth, and the days after which a look has lost most of
# its weight.
SEASON_PRIOR = 20.0
SEASON_DAYS = 5.0
# What is more than a season is in the pages' rates.
SEASON_MOST = 3.0
# 1970-01-01, day 0, was a Thursday.
EPOCH_WEEKDAY = 3


class Profile:
    """A site's changes by hour and weekday (UTC). Times are days since 1970."""

    def __init__(
        self,
        hours: Sequence[float] | None = None,
        days: Sequence[float] | None = None,
        hours_even: Sequence[float] | None = None,
        days_even: Sequence[float] | None = None,
        season: Sequence[float] | None = None,
    ) -> None:
        self.hours = list(hours or [HOUR_PRIOR / HOURS] * HOURS)
        self.days = list(days or [DAY_PRIOR / DAYS] * DAYS)
        self.hours_even = list(hours_even or [sum(self.hours) / HOURS] * HOURS)
        self.days_even = list(days_even or [sum(self.days) / DAYS] * DAYS)
        # The changes that came lately, those that were to come, and the time of the last look.
        self.lately = list(season or (0.0, 0.0, 0.0))
        self._measure_hours()

    @property
    def season(self) -> float:
        """How many times as often as in other weeks pages change now."""
        came, expected, _ = self.lately
        season = (came + SEASON_PRIOR) / (expected + SEASON_PRIOR)
        return min(max(season, 1 / SEASON_MOST), SEASON_MOST)

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

    def add_look(self, since: float, until: float, expected: float, *, changed: bool) -> None:
        """Counts a look: `expected` changes were to come since the one before, by the page's rate,
        this profile and the season."""
        if until <= since or expected <= 0:
            return
        # There was one change at least.
        came = expected / -math.expm1(-expected) if changed else 0.0
        self._add_lately(until, expected / self.season, came)
        if until - since > DAYS:
            return
        if until - since <= 1:
            _add_parts(
                self.hours, self.hours_even, self._hour_lengths,
                since * HOURS, until * HOURS, expected, came,
            )  # fmt: skip
        first = since + EPOCH_WEEKDAY
        _add_parts(
            self.days, self.days_even, self._day_lengths,
            first, first + until - since, expected, came,
        )  # fmt: skip

    def _add_lately(self, until: float, expected: float, came: float) -> None:
        came_before, expected_before, last = self.lately
        fades = math.exp(min(last - until, 0.0) / SEASON_DAYS)
        self.lately = [
            came_before * fades + came, expected_before * fades + expected, max(last, until),
        ]  # fmt: skip

    def refresh(self) -> None:
        """Makes the changes that were added count for stretched times."""
        self._measure_hours()

    def _measure_hours(self) -> None:
        self._hour_lengths = _share_out(self.hours, self.hours_even)
        self._day_lengths = _share_out(self.days, self.days_even)
        lengths = [day * hour for day in self._day_lengths for hour in self._hour_lengths]
        factor = DAYS / sum(lengths)
        self._sums = [0.0, *accumulate(length * factor for length in lengths)]
        self._sums[-1] = float(DAYS)


def _add_parts(
    counts: list[float],
    even: list[float],
    lengths: Sequence[float],
    since: float,
    until: float,
    expected: float,
    came: float,
) -> None:
    """Adds the changes that came, and those expected in even time, to the places of an interval. A
    profile fades with each change."""
    if came:
        counts[:] = [count * FADES for count in counts]
        even[:] = [count * FADES for count in even]
    size, parts, total, at = len(counts), [], 0.0, since
    while at < until:
        place, end = int(at) % size, min(float(int(at) + 1), until)
        parts.append((place, end - at))
        total += (end - at) * lengths[place]
        at = end
    for place, length in parts:
        even[place] += expected * length / total
        counts[place] += came * length * lengths[place] / total


def _share_out(counts: Sequence[float], even: Sequence[float]) -> list[float]:
    shares = [count / expected for count, expected in zip(counts, even, strict=True)]
    mean = sum(shares) / len(shares)
    return [max(share / mean, LEAST) for share in shares]
