"""Change rates from irregular looks."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scraper.plugins.freshness.rules.estimates import (
    RATE_MAX,
    RATE_MIN,
    SHAPE,
    Evidence,
    estimate_rate,
    fresh_days,
)

DAYS = st.floats(0.01, 60)
RATES = st.floats(0.001, 20)
LOOKS = st.lists(st.tuples(DAYS, st.booleans()), max_size=40)


def gather(looks):
    evidence = Evidence()
    for days, changed in looks:
        evidence = evidence.after_look(days, changed=changed)
    return evidence


@given(LOOKS, RATES)
def test_the_estimate_is_the_root_of_the_likelihood(looks, mean):
    evidence = gather(looks)
    rate = estimate_rate(evidence, mean)
    assert RATE_MIN <= rate <= RATE_MAX
    if not RATE_MIN < rate < RATE_MAX:
        return
    quiet = evidence.quiet_days + SHAPE / mean
    length = evidence.changed_days / evidence.changes if evidence.changes > 1e-9 else 1.0
    seen = evidence.changes * length / math.expm1(min(rate * length, 700)) + SHAPE / rate
    assert seen == pytest.approx(quiet, rel=2e-3)


@given(LOOKS, DAYS, RATES)
def test_a_change_never_lowers_the_rate_and_a_quiet_look_never_raises_it(looks, days, mean):
    evidence = gather(looks)
    # Both follow the same look, so that both have faded alike.
    changed = estimate_rate(evidence.after_look(days, changed=True), mean)
    quiet = estimate_rate(evidence.after_look(days, changed=False), mean)
    assert changed >= quiet * (1 - 1e-3)


@pytest.mark.parametrize("true", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("irregular", [False, True])
def test_many_looks_find_the_rate_however_they_are_spaced(true, irregular):
    rng = random.Random(4)
    rates = []
    for _ in range(300):
        looks = []
        for _ in range(60):
            days = rng.expovariate(true) if irregular else 0.8 / true
            looks.append((days, rng.random() < -math.expm1(-true * days)))
        rates.append(estimate_rate(gather(looks), 0.3))
    middle = sorted(rates)[150]
    # Intervals of all lengths count with their mean, which is not exact.
    assert middle == pytest.approx(true, rel=0.25 if irregular else 0.12)


def test_a_page_without_looks_has_the_rate_of_its_site():
    assert estimate_rate(Evidence(), 0.7) == pytest.approx(0.7)


def test_many_looks_within_a_minute_do_not_make_a_quiet_page():
    minute = [(0.00001, False)] * 100
    assert estimate_rate(gather(minute), 0.5) == pytest.approx(0.5, rel=0.01)


def test_a_page_that_changes_its_habits_is_noticed():
    looks = [(1.0, True)] * 200 + [(1.0, False)] * 200
    assert estimate_rate(gather(looks), 0.5) < 0.1


@given(DAYS, RATES)
def test_a_changed_interval_was_true_for_less_than_its_half(days, rate):
    kept = fresh_days(days, rate, changed=True)
    assert 0 <= kept <= days / 2 * (1 + 1e-6)
    assert fresh_days(days, rate, changed=False) == days


def test_the_expected_first_change_is_that_of_many_draws():
    rng = random.Random(1)
    first = [at for at in (rng.expovariate(0.7) for _ in range(60_000)) if at < 2]
    assert fresh_days(2, 0.7, changed=True) == pytest.approx(sum(first) / len(first), rel=0.01)


def alternate(rate, days, looks, rng, part=0.5):
    """Looks at a page that draws one of two values, and returns what the looks show."""
    evidence, state, seen, older = Evidence(), 0, 0, None
    for _ in range(looks):
        if rng.random() < -math.expm1(-rate * days):
            state = int(rng.random() < part)
        changed = state != seen
        evidence = evidence.after_look(days, changed=changed, returned=changed and state == older)
        older, seen = (seen if changed else older), state
    return evidence


@pytest.mark.parametrize("rate", [0.3, 0.6, 1.5])
def test_pages_that_alternate_are_recognised_with_their_rate(rate):
    rng = random.Random(2)
    pages = [alternate(rate, 1.0, 400, rng) for _ in range(60)]
    same = sorted(page.same for page in pages)
    assert same[6] >= 0.5 and same[30] == pytest.approx(0.5, abs=0.05)
    middle = sorted(estimate_rate(page, 0.3) for page in pages)[30]
    assert middle == pytest.approx(rate, rel=0.4)


def test_the_rate_of_changes_that_looks_miss_is_high():
    rng = random.Random(2)
    rates = sorted(estimate_rate(alternate(20.0, 3.0, 30, rng), 0.3) for _ in range(100))
    # By the changes that are seen alone it would be 0.23.
    assert rates[50] > 2 and rates[10] > 0.4


def test_a_value_that_is_seldom_shown_leaves_little_to_visits():
    evidence = alternate(3.0, 1.0, 400, random.Random(2), part=0.1)
    assert evidence.same == pytest.approx(1 - 2 * 0.1 * 0.9, abs=0.06)


@given(LOOKS, RATES)
def test_pages_whose_values_never_return_do_not_alternate(looks, mean):
    evidence = gather(looks)
    assert evidence.same == 0
    assert 0 <= evidence.other_looks <= evidence.changes + evidence.quiet_looks + 1e-6


def test_one_value_that_returned_makes_no_page_alternate():
    evidence = Evidence()
    for number in range(12):
        evidence = evidence.after_look(1.0, changed=True, returned=number == 5)
    assert evidence.same == 0


@example(1.0, 1.0, 0.5, 1e-170, True)
@given(DAYS, RATES, st.floats(0.5, 0.95), st.floats(0, 60), st.booleans())
def test_pages_that_alternate_are_true_for_a_part_of_the_time(days, rate, same, most, changed):
    kept = fresh_days(days, rate, changed=changed, same=same, most=most)
    assert -1e-9 <= kept <= min(days, most) * (1 + 1e-9)
    assert kept <= fresh_days(days, rate, changed=changed, same=same) * (1 + 1e-9)


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("most", [0.7, 2.0])
def test_the_days_of_a_page_that_alternates_are_those_of_many_draws(changed, most):
    rng, steps, rate, days = random.Random(1), 40, 1.5, 2.0
    kept = []
    while len(kept) < 4000:
        states = [0]
        for _ in range(steps):
            flips = rng.random() < -math.expm1(-rate * days / steps) / 2
            states.append(1 - states[-1] if flips else states[-1])
        if states[-1] == changed:
            part = states[: round(most / days * steps)]
            kept.append(part.count(0) / steps * days)
    found = fresh_days(days, rate, changed=changed, same=0.5, most=most)
    assert found == pytest.approx(sum(kept) / len(kept), rel=0.05)
