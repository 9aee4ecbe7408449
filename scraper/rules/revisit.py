"""How long a product page rests until it is asked for again: an interval of its own, by how often
it was found changed. Pure.

The rule, for a page that is looked at after its whole interval: found changed, the interval is
halved; unchanged, it grows by half. Looked at earlier or later (a crawl comes when it comes, and
somebody may type `--refetch`), it moves by as much as that look has to say: ten looks within a
minute that find nothing new are no sign of a quiet page.

That is one step of maximum likelihood for changes that come at random (a Poisson process). With a
rate of changes of `C` an interval, the likelihood of what was seen after `u` intervals moves the
logarithm of the interval by `C·u` where nothing changed, and by `-C·u / (e^(C·u) - 1)` where
something did; both times `GAIN`. At the true rate these are 0 on average, whatever the times
between the looks, so the interval settles where `QUIET` of the looks find nothing new. Halving and
growing by half at `u` = 1 give both constants.

An example, from six hours to two weeks: a page is looked at each day and never changes. The first
look is four intervals late, and counts for `LATE_MAX`: 6 h -> 20 h; then 33 h, 45 h (a look each
day says less than a whole interval), …

Rejected: counting looks and changes (Cho and Garcia-Molina), which wants regular looks, two
columns, and a memory of what the page was years ago; a step without regard to the time that has
passed, which `--refetch` would drive to the bounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# unchanged after a whole interval
GROWS = 1.5
# changed after a whole interval
SHRINKS = 0.5
# changes to be expected in an interval: 0.46
C = math.log(1 + math.log(GROWS) / -math.log(SHRINKS))
GAIN = math.log(GROWS) / C
# of the looks after a whole interval: 63 % find nothing new
QUIET = math.exp(-C)
# intervals: a look that comes later than that says no more, so that no step is too long
LATE_MAX = 3.0


class Bounds(NamedTuple):
    """The shortest and the longest interval, in seconds. Equal: all pages have the same."""

    min_s: float
    max_s: float

    @property
    def adaptive(self) -> bool:
        return self.min_s < self.max_s

    def clamped(self, seconds: float) -> float:
        return min(max(seconds, self.min_s), self.max_s)


def next_interval_s(
    bounds: Bounds, interval_s: float | None, since_s: float | None, *, changed: bool
) -> float:
    """The interval of a page that has been looked at `since_s` after its last good answer. A page
    that is new, or never had an interval, begins with the shortest: what is not known is looked at
    soon.

    >>> week = Bounds(3600, 604_800) >>> [round(next_interval_s(week, 86_400, 86_400,
    changed=changed)) for changed in (True, False)] [43200, 129600]
    """
    if interval_s is None or since_s is None:
        return bounds.min_s
    now_s = bounds.clamped(interval_s)
    expected = C * min(max(since_s, 0.0) / now_s, LATE_MAX)
    if changed:
        return bounds.clamped(
            now_s * math.exp(-GAIN * expected / math.expm1(expected) if expected > 1e-9 else -GAIN)
        )
    return bounds.clamped(now_s * math.exp(GAIN * expected))
