"""When a shop changes its pages."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.plugins.freshness.rules.profile import Profile

# 2026-11-23, a Monday, at 00:00 UTC.
MONDAY = 20780.0
TIMES = st.floats(20000, 30000)
COUNTS = st.floats(0, 100)


@given(
    st.lists(COUNTS, min_size=24, max_size=24).filter(sum),
    st.lists(COUNTS, min_size=7, max_size=7).filter(sum),
    TIMES,
    st.floats(0, 30),
)
def test_stretched_time_runs_forwards_and_back(hours, days, at, later):
    profile = Profile(hours, days)
    assert profile.stretched(at + later) >= profile.stretched(at)
    assert profile.unstretched(profile.stretched(at)) == pytest.approx(at, abs=1e-6)
    assert profile.stretched(at + 7) == pytest.approx(profile.stretched(at) + 7)


def test_an_even_profile_changes_nothing():
    assert Profile().stretched(MONDAY + 3.5) - Profile().stretched(MONDAY) == pytest.approx(3.5)


def test_changes_at_night_make_nights_long():
    profile, rng = Profile(), random.Random(1)
    for day in range(400):
        looked = MONDAY + day + rng.random()
        at = MONDAY + day + 3 / 24 + 0.01
        if looked - 1 < at < looked:
            profile.add_change(looked - 0.9, looked)
        profile.add_change(at - rng.random() * 0.3, at + rng.random() * 0.3)
    profile.refresh()
    night = profile.stretched(MONDAY + 4 / 24) - profile.stretched(MONDAY + 3 / 24)
    noon = profile.stretched(MONDAY + 13 / 24) - profile.stretched(MONDAY + 12 / 24)
    assert night > 6 * noon


def test_changes_on_tuesdays_make_tuesdays_long():
    profile, rng = Profile(), random.Random(1)
    for week in range(300):
        at = MONDAY + 7 * week + 1 + rng.random()
        profile.add_change(at - 2 * rng.random(), at + 2 * rng.random())
    profile.refresh()
    days = [
        profile.stretched(MONDAY + day + 1) - profile.stretched(MONDAY + day) for day in range(7)
    ]
    assert max(days) == days[1] > 2


@pytest.mark.parametrize("length", [0.0, -1.0, 8.0, 400.0])
def test_intervals_that_say_nothing_are_ignored(length):
    profile = Profile()
    before = list(profile.hours), list(profile.days)
    profile.add_change(MONDAY, MONDAY + length)
    assert (profile.hours, profile.days) == before
