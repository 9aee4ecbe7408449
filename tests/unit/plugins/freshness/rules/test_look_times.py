"""What a look at a page teaches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from scraper.plugins.freshness.hooks import HOOKS
from scraper.plugins.freshness.keys import FreshnessKeys
from scraper.plugins.freshness.learning import learn_look
from scraper.plugins.freshness.rules.estimates import Evidence, estimate_rate
from scraper.plugins.freshness.rules.plan import SitePlan
from scraper.plugins.freshness.rules.profile import Profile
from scraper.plugins.freshness.rules.shares import true_share
from scraper.plugins.freshness.rules.stored_plan import StoredPlan
from scraper.settings import Settings
from tests.support.making import a_site

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LOOKS = Evidence(5, 50, 50)


def learn(
    within: str, stored_after: timedelta, *, changed: bool, evidence: Evidence = LOOKS
) -> StoredPlan:
    """Returns the plan after a look at a page, a day after the one before; its products were last
    stored so long after it."""
    stored = StoredPlan(SitePlan.of([], 0), 10.0, 10.0, 0.9, NOON, {}, Profile())
    row = SimpleNamespace(
        id=1, fetched_at=NOON, looked_at=NOON - 24 * HOUR, changed_at=NOON + stored_after,
        content_hash=1, old_hash=0 if changed else 1, older_hash=1 if changed else 0, data={}, ids=["1"], rate=0.1,
        signalled=False, dated=False, card_read=None, card_quiet=None, date_read=None,
        date_quiet=None, **evidence._asdict(),
    )  # fmt: skip
    keys = FreshnessKeys(budget="10/d", fresh=f"95% within {within}")
    return learn_look(row, keys, stored, lambda _data, _ids: 1.0)[1]


@pytest.mark.parametrize("within", ["1h", "6h", "3d"])
def test_what_is_stored_later_than_it_was_read_was_not_true_until_then(within):
    at_once, late = learn(within, 0 * HOUR, changed=True), learn(within, 3 * HOUR, changed=True)
    assert at_once.kept_days - late.kept_days == pytest.approx(3 / 24)
    assert at_once.seen_days == late.seen_days == 1
    if within == "3d":
        assert late.promise_days == at_once.promise_days == 1
    else:
        # Part of the changes came within the time of the promise.
        assert 2 / 24 < at_once.promise_days - late.promise_days < 3 / 24


@pytest.mark.parametrize("changed", [True, False])
def test_a_price_that_flips_fast_is_within_the_promised_time_as_the_formula_has_it(changed):
    """A price that flips ten times a day, looked at once a day, is seldom false for six hours."""
    flips = Evidence(20, 20, 20, 20, returns=19, other_looks=20)
    plan = learn("6h", 0 * HOUR, changed=changed, evidence=flips)
    rate = estimate_rate(flips.after_look(1, changed=changed, returned=changed), 0.1)
    expected = true_share(rate, 1.0, 0.25, same=0.5)
    assert plan.promise_days == pytest.approx(expected, abs=0.1)
    assert plan.promise_days > plan.kept_days + 0.1


def test_products_that_were_stored_before_have_no_delay():
    old = learn("1h", -100 * HOUR, changed=True)
    assert old.kept_days == learn("1h", 0 * HOUR, changed=True).kept_days
    quiet = learn("1h", 3 * HOUR, changed=False)
    assert (quiet.kept_days, quiet.promise_days) == pytest.approx((1, 1))


def test_a_plan_that_only_guessed_is_not_broken():
    stored = StoredPlan(SitePlan.of([], 0), 10, 10, 0.99, NOON, {}, Profile())
    assert stored.expected == 0.99
    guessed = stored._replace(seen_days=10, kept_days=8, foreseen_days=8)
    assert guessed.expected == pytest.approx(0.8)
    assert guessed._replace(foreseen_days=9.99).expected == 0.99


def test_a_promise_for_a_platform_which_each_crawl_reads_whole_is_a_problem():
    promised, budget = (
        a_site(platform="shopify", **keys)
        for keys in ({"fresh": "95% within 12h"}, {"budget": "100/d"})
    )
    ((key, text),) = HOOKS.check_site(promised, Settings())
    assert key == "fresh" and "`schedule`" in text
    assert not [*HOOKS.check_site(budget, Settings())]
    assert not [*HOOKS.check_site(a_site(fresh="95% within 12h"), Settings())]
