"""When a contract is broken, and why."""

from __future__ import annotations

import pytest

from scraper.plugins.freshness.rules.contract import (
    MORE_CHANGES,
    SLOW_HOST,
    SMALL_BUDGET,
    Contract,
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
