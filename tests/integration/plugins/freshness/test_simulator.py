"""The simulator of `make fresh`, at the size of a test."""

from __future__ import annotations

import random

import pytest

from tests.support.machine import everyday
from tools.fresh import __main__ as fresh
from tools.fresh.traces import TRACES, BurstyTrace, draw_rates

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", TRACES, ids=lambda kind: kind.name)
def test_pages_change_at_their_rates(kind):
    trace = kind([0.2, 1.0], random.Random(1))
    for page in (0, 1):
        at, end, changes = 4.0, 4.0 + 3000, 0
        while (at := trace.after(page, at) if kind is not BurstyTrace else trace.next[page]) < end:
            changes += 1
            if kind is BurstyTrace:
                trace.next[page] = trace.after(page, at)
        # At most one change a night is seen.
        expected = 3000 * (trace.rates[page] if kind.name != "nightly" else (0.181, 0.632)[page])
        assert changes == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("kind", everyday(TRACES, *TRACES[:2]), ids=lambda kind: kind.name)
def test_what_is_learned_reaches_its_targets(kind):
    checks = list(fresh.run_trace(kind, 1200, 3.0, seed=5))
    # Few requests an hour differ by one, which is much of few.
    missed = [check.text for check in checks if not check.good and "an hour" not in check.text]
    assert not missed


@pytest.mark.parametrize("run", [fresh.run_formula, fresh.run_budgets, fresh.run_cards])
def test_formulas_budgets_and_cards_reach_their_targets(run):
    missed = [check.text for check in run(3000, 2) if not check.good]
    assert not missed


def test_a_new_site_is_promised_what_it_keeps_within_hours():
    missed = [check.text for check in fresh.run_new_site(150, 3) if not check.good]
    assert not missed


def test_a_promise_to_a_new_site_is_kept_from_the_first_week_on():
    (check,) = fresh.run_promise(250, 2, [0.2])
    assert check.good, check.text


def test_a_sensor_that_lies_costs_little():
    assert all(check.good for check in fresh.run_lie(800, 3.0, 2))


def test_pages_of_a_shop_differ_as_measured():
    rates = draw_rates(20_000, random.Random(1))
    assert sum(rates) / len(rates) == pytest.approx(0.3, rel=0.1)
    assert sorted(rates)[10_000] < 0.12
