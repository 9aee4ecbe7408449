"""How long a page of a site with `revisit: {min, max}` rests, by how often it changes. Pure.

`CHANGES` changes are expected in an interval, so that `QUIET` of the visits after a whole one find
nothing new. The rate of changes is the most likely one after all looks at the page, see
`estimates`; how long they were apart does not matter. A new page begins with the shortest.

An example, from six hours to two weeks, on a new site: a page is visited each day and never
changes. It rests for 6 h, then 34 h, 61 h, 87 h …
"""

from __future__ import annotations

import math

from scraper.plugins.freshness.keys import DAY_S
from scraper.plugins.freshness.rules.estimates import Evidence, estimate_rate
from scraper.rules.revisit import Bounds

CHANGES = 0.46
QUIET = math.exp(-CHANGES)


def first_rate(bounds: Bounds) -> float:
    """Returns the mean rate of an unknown site: its pages rest for the shortest time."""
    return CHANGES * DAY_S / bounds.min_s


def next_interval_s(
    bounds: Bounds, evidence: Evidence, days: float, mean_rate: float, *, changed: bool
) -> float:
    """Returns the interval of a page that is looked at again after `days`.

    >>> week = Bounds(21_600, 604_800)
    >>> looks = Evidence(10, 10, 10)
    >>> [round(next_interval_s(week, looks, 1, 0.5, changed=changed)) for changed in (True, False)]
    [54476, 62259]
    """
    rate = estimate_rate(evidence.after_look(days, changed=changed), mean_rate)
    return bounds.clamped(CHANGES / rate * DAY_S)
