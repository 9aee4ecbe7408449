"""How long pages rest, by how often they change."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.plugins.freshness.rules.estimates import Evidence, estimate_rate
from scraper.plugins.freshness.rules.intervals import QUIET, first_rate, next_interval_s
from scraper.rules.revisit import Bounds

HOUR, DAY = 3600.0, 86_400.0
WIDE = Bounds(60.0, 365 * DAY)
seconds = st.floats(60.0, 365 * DAY)
days = st.floats(0.0, 3650.0)
rates = st.floats(0.001, 20.0)
looks = st.lists(st.tuples(st.floats(0.01, 100.0), st.booleans()), max_size=12)


def look(found: list[tuple[float, bool]]) -> Evidence:
    evidence = Evidence()
    for since, changed in found:
        evidence = evidence.after_look(since, changed=changed)
    return evidence


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    least, most = sorted((draw(seconds), draw(seconds)))
    return Bounds(least, most)


@given(bounds(), looks, days, rates, st.booleans())
def test_an_interval_is_within_its_bounds(
    limits: Bounds, found: list[tuple[float, bool]], since: float, mean: float, changed: bool
) -> None:
    interval = next_interval_s(limits, look(found), since, mean, changed=changed)
    assert limits.min_s <= interval <= limits.max_s


@given(looks, days, rates)
def test_a_change_never_makes_it_longer_than_none(
    found: list[tuple[float, bool]], since: float, mean: float
) -> None:
    changed, same = (
        next_interval_s(WIDE, look(found), since, mean, changed=value) for value in (True, False)
    )
    assert changed <= same * 1.001


@given(st.floats(1, 30), st.integers(2, 50), rates)
def test_many_looks_that_find_nothing_say_no_more_than_one(
    lasting: float, number: int, mean: float
) -> None:
    """The sooner they come, the less each says: together about as much as one look after all that
    time."""
    one = estimate_rate(look([(lasting, False)]), mean)
    many = estimate_rate(look([(lasting / number, False)] * number), mean)
    # Older looks fade, so together they say a little less.
    assert one * 0.999 <= many <= one * 2


@given(days, days, rates)
def test_the_longer_nothing_changed_the_longer_it_gets(
    one: float, other: float, mean: float
) -> None:
    sooner, later = sorted((one, other))
    for changed in (True, False):
        after = [
            next_interval_s(WIDE, Evidence(), since, mean, changed=changed)
            for since in (sooner, later)
        ]
        assert after[0] <= after[1] * 1.001


def test_a_page_of_a_new_site_rests_longer_with_each_quiet_day() -> None:
    limits, rests = Bounds(6 * HOUR, 14 * DAY), []
    found: list[tuple[float, bool]] = []
    for _ in range(30):
        interval = next_interval_s(limits, look(found), 1, first_rate(limits), changed=False)
        rests.append(round(interval / HOUR))
        found.append((1.0, False))
    assert rests[:3] == [34, 61, 87]
    assert rests == sorted(rests) and rests[-1] == 14 * 24


@pytest.mark.parametrize(
    "every", [0.0, 6 * HOUR, DAY], ids=["as it is due", "a crawl each 6 hours", "a crawl a day"]
)
@pytest.mark.parametrize("days", [2.0, 10.0, 60.0])
def test_it_settles_where_two_looks_in_three_find_nothing(days: float, every: float) -> None:
    """A page that changes at random, once in `days` days, looked at by the first crawl after it is
    due: whenever crawls come, the interval settles near the same part of the time between two
    changes."""
    rng = random.Random(7)
    limits, rate = Bounds(HOUR, 1000 * DAY), 1 / (days * DAY)
    evidence, interval, settled, quiet = Evidence(), HOUR, [], 0
    for number in range(3000):
        since = max(interval, math.ceil(interval / every) * every) if every else interval
        changed = rng.random() < 1 - math.exp(-rate * since)
        interval = next_interval_s(
            limits, evidence, since / DAY, first_rate(limits), changed=changed
        )
        evidence = evidence.after_look(since / DAY, changed=changed)
        if number > 300:
            settled.append(math.log(interval))
            quiet += not changed
    mean = math.exp(sum(settled) / len(settled))
    assert mean * rate == pytest.approx(-math.log(QUIET), rel=0.25)
    if not every:
        assert quiet / len(settled) == pytest.approx(QUIET, abs=0.05)


def test_it_is_steadier_than_halving_and_growing_by_half() -> None:
    """Once much is known of a page, one look moves its interval by little."""
    evidence = look([(1.0, number % 3 == 0) for number in range(90)])
    changed, same = (
        next_interval_s(WIDE, evidence, 1, 0.4, changed=value) for value in (True, False)
    )
    assert 0.9 < changed / same < 1
