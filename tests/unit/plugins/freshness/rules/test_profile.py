"""When a shop changes its pages."""

from __future__ import annotations

import math
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


def play(profile: Profile, pages: int, days: float, next_change, interval: float, rng) -> None:
    """Lets pages that change at one rate be looked at by a profile, which learns from the looks."""
    for page in range(pages):
        looked, change = MONDAY + rng.random(), next_change(MONDAY)
        while looked < MONDAY + days:
            at = profile.unstretched(profile.stretched(looked) + interval)
            changed = change <= at
            expected = 0.5 * (profile.stretched(at) - profile.stretched(looked))
            profile.add_look(looked, at, expected, changed=changed)
            if changed:
                change = next_change(at)
            looked = at
        if page % 10 == 9:
            profile.refresh()


def test_even_changes_keep_the_profile_even():
    """Visits come where the profile has most time, and must not make it longer there."""
    rng = random.Random(1)
    for interval in (0.7, 3.0):
        profile = Profile()
        play(profile, 300, 120, lambda at: at + rng.expovariate(0.5), interval, rng)
        days = [profile.stretched(MONDAY + d + 1) - profile.stretched(MONDAY + d) for d in range(7)]
        assert min(days) > 0.75 and max(days) < 1.3
        hours = [
            count / even for count, even in zip(profile.hours, profile.hours_even, strict=True)
        ]
        assert max(hours) < 1.6 * min(hours)


def test_changes_at_night_make_nights_long():
    def next_night(at: float) -> float:
        nights = 1 if rng.random() < 0.4 else 2 + int(rng.expovariate(0.5))
        return float(int(at - 3 / 24)) + 3 / 24 + 0.01 + nights

    profile, rng = Profile(), random.Random(1)
    play(profile, 100, 60, next_night, 0.4, rng)
    night = profile.stretched(MONDAY + 4 / 24) - profile.stretched(MONDAY + 3 / 24)
    noon = profile.stretched(MONDAY + 13 / 24) - profile.stretched(MONDAY + 12 / 24)
    assert night > 6 * noon


def test_changes_on_tuesdays_make_tuesdays_long():
    def next_tuesday(at: float) -> float:
        week = int((at - MONDAY - 1) // 7) + 1
        return MONDAY + 7 * week + 1 + rng.random()

    profile, rng = Profile(), random.Random(1)
    play(profile, 100, 100, next_tuesday, 1.3, rng)
    days = [
        profile.stretched(MONDAY + day + 1) - profile.stretched(MONDAY + day) for day in range(7)
    ]
    assert max(days) == days[1] > 2


@pytest.mark.parametrize("length", [0.0, -1.0, 8.0, 400.0])
def test_intervals_that_say_nothing_are_ignored(length):
    profile = Profile()
    before = list(profile.hours), list(profile.days_even)
    profile.add_look(MONDAY, MONDAY + length, 0.5, changed=True)
    profile.add_look(MONDAY, MONDAY + 0.5, 0.0, changed=True)
    assert (profile.hours, profile.days_even) == before


@pytest.mark.parametrize(("times", "days"), [(3.0, 14), (0.25, 14), (3.0, 60)])
def test_a_season_is_noticed_within_two_weeks(times, days):
    profile, rng, rate = Profile(), random.Random(3), 0.2
    for day in range(40 + days):
        actual = rate * (times if day >= 40 else 1.0)
        for _ in range(400):
            changed = rng.random() < -math.expm1(-actual * 2)
            since = MONDAY + day
            profile.add_look(since, since + 2, rate * 2 * profile.season, changed=changed)
        if day == 39:
            assert profile.season == pytest.approx(1.0, abs=0.2)
    assert profile.season == pytest.approx(times, rel=0.35)


def test_looks_that_arrive_out_of_order_count_for_the_season():
    profile = Profile()
    for since in (MONDAY + 30, MONDAY):
        profile.add_look(since, since + 1, 5.0, changed=False)
    assert 0 < profile.season < 1
    kept = Profile(profile.hours, profile.days, profile.hours_even, profile.days_even)
    assert kept.season == 1
    assert Profile(season=profile.lately).season == profile.season
