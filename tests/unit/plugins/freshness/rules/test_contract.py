"""When a contract is broken, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.plugins.freshness.rules.contract import (
    MORE_CHANGES,
    SLOW_HOST,
    SMALL_BUDGET,
    Contract,
    correct_share,
    needed_share,
)

KEPT = Contract(900, 1000, 0.95, 0.96, 0.9, 0.9, 800, 790)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"promise_kept": 0.94}, None),
        ({"promise_kept": None}, None),
        ({"promise_kept": 0.9}, MORE_CHANGES),
        ({"promise_kept": 0.9, "visited": None}, MORE_CHANGES),
        ({"promise_kept": 0.9, "visited": 300}, SLOW_HOST),
        ({"visited": 300}, None),
        ({"needed": 1001}, SMALL_BUDGET),
        ({"needed": 1001, "budget": None}, None),
        ({"promise_kept": 0.2, "needed": 1001, "visited": 3}, SMALL_BUDGET),
        ({"promised": None, "promise_kept": None, "needed": 0}, None),
        ({"promised": None, "kept": 0.84}, MORE_CHANGES),
        ({"promised": None, "kept": 0.84, "visited": 1}, SLOW_HOST),
        ({"promised": None, "kept": None}, None),
    ],
)
def test_the_reason_is_the_first_that_applies(changes, reason):
    assert KEPT._replace(**changes).broken == reason


@given(st.floats(0, 1), st.floats(0, 1e6), st.floats(0, 1), st.floats(0, 1))
def test_a_corrected_share_is_a_share_and_follows_what_was_kept(share, seen, kept, foreseen):
    corrected = correct_share(share, seen, seen * kept, seen * foreseen)
    assert 0 <= corrected <= 1
    assert (corrected - share) * (kept - foreseen) >= -1e-6


def test_a_formula_that_was_wrong_by_half_is_corrected():
    assert correct_share(0.9, 1e5, 0.8e5, 0.9e5) == pytest.approx(0.8, abs=0.01)
    # A few days of a few pages prove little.
    assert correct_share(0.9, 5, 4, 4.5) == pytest.approx(0.9, abs=0.02)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_formula_that_gives_the_needed_share_promises_it(share, kept, foreseen):
    seen = 1e7
    needed = needed_share(share, seen, seen * kept, seen * foreseen)
    assert 0 <= needed <= 1
    # The formula cannot give less than nothing, and days that are few prove little.
    if needed and foreseen < 0.999 and kept < 0.999:
        promised = correct_share(needed, seen, seen * kept, seen * foreseen)
        assert promised == pytest.approx(share, abs=0.01)


def test_a_promise_that_was_kept_too_little_needs_more():
    assert needed_share(0.9, 1e5, 0.8e5, 0.9e5) == pytest.approx(0.95, abs=0.01)
    assert needed_share(0.9, 0, 0, 0) == needed_share(0.9, 10, 9, 9) == pytest.approx(0.9)
    assert needed_share(1.0, 1e5, 0.8e5, 0.9e5) == 1
