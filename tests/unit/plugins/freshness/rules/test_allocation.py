"""How requests are shared among pages."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scraper.plugins.freshness.rules.allocation import (
    Allocation,
    allocate,
    best_visits,
    lambda_visits,
    needed_budget,
    reached_age,
    total_visits,
    visits_of,
)
from scraper.plugins.freshness.rules.plan import first_rate
from scraper.plugins.freshness.rules.shares import PageGroup, looked_share, mean_share, true_share

GROUPS = st.lists(
    st.builds(
        PageGroup,
        st.floats(0.001, 20),
        st.floats(0.1, 10),
        st.integers(1, 1000),
        st.sampled_from([0.0, 0.5, 0.9]),
    ),
    min_size=1,
    max_size=12,
)
SPACINGS = st.floats(0.05, 500)


@settings(deadline=None)
@given(GROUPS, SPACINGS)
def test_the_visits_sum_to_the_budget_and_starve_no_page(pages, spacing):
    budget = sum(group.number for group in pages) / spacing
    allocation = allocate(pages, budget)
    assert total_visits(pages, allocation) == pytest.approx(budget, rel=1e-3)
    assert all(often > 0 for often in visits_of(pages, allocation))


@settings(deadline=None)
@given(GROUPS, SPACINGS)
def test_no_budget_makes_it_worse_than_equal_visits(pages, spacing):
    budget = sum(group.number for group in pages) / spacing
    ours = mean_share(pages, visits_of(pages, allocate(pages, budget)))
    assert ours >= mean_share(pages, [1 / spacing] * len(pages)) - 1e-6


@settings(deadline=None)
@given(GROUPS, SPACINGS, st.floats(0.1, 400))
@example([PageGroup(1.0, 3.0, 1), PageGroup(7.0, 2.0, 1)], 1.0, 2.0)
def test_every_page_gets_the_least_visits_if_the_budget_allows_it(pages, spacing, longest):
    number = sum(group.number for group in pages)
    budget = number / spacing
    allocation = allocate(pages, budget, 1 / longest)
    assert total_visits(pages, allocation) == pytest.approx(budget, rel=1e-2)
    least = min(1 / longest, 1 / spacing)
    assert min(visits_of(pages, allocation)) >= least * (1 - 1e-6)


@given(st.floats(0.001, 50), st.floats(0.1, 10), st.floats(1e-4, 100))
def test_the_best_visits_of_pages_share_one_value(rate, weight, value):
    often = best_visits(rate, weight, value)
    if not often:
        assert value * rate / weight > 0.998
        return
    x = rate / often
    if x < 0.01:
        assert x == pytest.approx(math.sqrt(2 * value * rate / weight), rel=0.02)
    else:
        gain = weight / rate * (1 - (1 + x) * math.exp(-x))
        assert gain == pytest.approx(value, rel=0.01)


def test_lambdacrawl_is_the_published_formula():
    assert lambda_visits(2.0, 3.0, 0.5) == pytest.approx((-2 + math.sqrt(4 + 4 * 3 * 2 / 0.5)) / 2)


def test_heavier_pages_are_visited_more_often():
    pages = [PageGroup(0.3, 1, 100), PageGroup(0.3, 5, 100)]
    light, heavy = visits_of(pages, allocate(pages, 60))
    assert heavy > light


def test_a_site_without_pages_or_budget_has_a_plan():
    assert allocate([], 10).visits(1.0, 1.0) >= 0
    assert isinstance(allocate([PageGroup(1, 1, 5)], 0), Allocation)


@pytest.mark.parametrize(("rate", "visits"), [(0.01, 3.0), (1.0, 1.0), (7.0, 0.5)])
@pytest.mark.parametrize("within", [0.0, 0.2])
def test_the_exact_share_is_that_of_many_draws(rate, visits, within):
    rng = random.Random(3)
    good = 0
    for _ in range(40_000):
        age = rng.random() / visits
        # The value is wrong if it changed first more than `within` days ago.
        good += rng.expovariate(rate) > max(age - within, 0)
    assert true_share(rate, visits, within) == pytest.approx(good / 40_000, abs=0.01)


@given(GROUPS, SPACINGS, st.floats(0, 30))
def test_looked_at_is_plain_arithmetic(pages, spacing, within):
    share = looked_share(pages, [1 / spacing] * len(pages), within)
    assert share == pytest.approx(min(within / spacing, 1))


def test_the_needed_budget_keeps_the_promise_and_less_does_not():
    pages = [PageGroup(math.exp(step / 2 - 4), 1.0, 100) for step in range(10)]
    needed = needed_budget(pages, 0.95, 0.5)
    for budget, kept in ((needed * 1.02, True), (needed * 0.9, False)):
        visits = visits_of(pages, allocate(pages, budget))
        assert (mean_share(pages, visits, 0.5) >= 0.95) is kept
    assert reached_age(pages, allocate(pages, needed), 0.95) == pytest.approx(0.5, rel=0.02)


def test_a_promise_of_pages_that_change_often_needs_no_more_than_equal_visits():
    """Leaving out those that change most keeps more true, but fewer within the promised time."""
    pages = [PageGroup(math.exp(step / 3 - 1), 1.0, 100) for step in range(12)]
    needed = needed_budget(pages, 0.95, 0.5)
    spacings = [0.5 + step / 100 for step in range(200)]
    equal = max(
        spacing
        for spacing in spacings
        if mean_share(pages, [1 / spacing] * len(pages), 0.5) >= 0.95
    )
    assert needed <= 1.01 * 1200 / equal
    shares = [
        mean_share(pages, visits_of(pages, allocate(pages, budget, within=0.5)), 0.5)
        for budget in (needed * step / 10 for step in range(10, 20))
    ]
    assert shares == sorted(shares)


@pytest.mark.parametrize("share", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("within", [1 / 1440, 0.5])
def test_a_promise_of_a_site_without_looks_begins_with_a_visit_each_second_age(share, within):
    pages = [PageGroup(first_rate(share, within), 1.0, 100)]
    spacing = 100 / needed_budget(pages, share, within)
    assert spacing == pytest.approx(2 * within, rel=0.15)


@pytest.mark.parametrize("within", [0.0, 0.3])
@pytest.mark.parametrize("rate", [0.3, 4.0, 24.0])
def test_pages_that_alternate_are_true_as_often_as_in_many_draws(rate, within):
    rng, steps, length = random.Random(5), 200, 2.0
    good = 0
    for _ in range(3000):
        state, last_true = 0, 0.0
        for step in range(steps):
            at = (step + 0.5) / steps * length
            # In so short a time there is at most one change, of half of the draws.
            if rng.random() < -math.expm1(-rate * length / steps) / 2:
                state = 1 - state
            last_true = at if state == 0 else last_true
            good += at - last_true <= within
    share = good / 3000 / steps
    assert true_share(rate, 1 / length, within, same=0.5) == pytest.approx(share, abs=0.03)


def test_visits_of_pages_that_alternate_fast_go_to_other_pages():
    pages = [PageGroup(0.3, 1, 100), PageGroup(24, 1, 100, same=0.5), PageGroup(24, 1, 100)]
    ordinary, alternating, fast = visits_of(pages, allocate(pages, 100))
    assert alternating < ordinary and alternating < fast


def test_hardly_any_requests_are_shared_nearly_as_well_as_can_be():
    """Most changes are missed then, and equal visits keep half as much true."""
    rng = random.Random(1)
    pages = [PageGroup(math.exp(rng.gauss(-2.3, 1.5)), 1.0, 1.0) for _ in range(2000)]
    allocation = allocate(pages, len(pages) / 300)
    best = Allocation(1e30, 1.0, allocation.value, allocation.scale)
    assert mean_share(pages, visits_of(pages, allocation)) > 0.97 * mean_share(
        pages, visits_of(pages, best)
    )
