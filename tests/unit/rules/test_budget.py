"""Which outcomes slow a host down, and what of several budgets counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Blame, Outcome
from scraper.rules.budget import (
    BAD_SHARE,
    BAD_WEIGHT,
    FLOOR,
    HEALTHY_S,
    MOST_SHARE,
    Budget,
    Override,
    Signals,
    combine_budgets,
)
from tests.support.pace import cut_pace, raise_pace

GOOD = (Outcome.FETCHED, 200)
BAD = [(Outcome.TIMEOUT, None), (Outcome.SERVER_ERROR, 503)]


def test_a_wish_counts_at_once() -> None:
    for status in (429, 503):
        assert Signals().record(Outcome.THROTTLED, status, 0.0) is True


@pytest.mark.parametrize("bad", BAD)
def test_from_a_clean_record_the_fifth_in_a_row_counts(bad: tuple[Outcome, int | None]) -> None:
    signals = Signals()
    assert [signals.record(*bad, 0.0) for _ in range(6)] == [None] * 4 + [True] * 2


@pytest.mark.parametrize("bad", BAD)
def test_good_answers_make_a_record_clean_again(bad: tuple[Outcome, int | None]) -> None:
    signals = Signals()
    while not signals.record(*bad, 0.0):
        pass
    assert all(signals.record(*GOOD, 0.0) is False for _ in range(100))
    assert [signals.record(*bad, 0.0) for _ in range(5)] == [None] * 4 + [True]


def test_a_shop_that_fails_one_page_in_twenty_is_never_slowed() -> None:
    signals = Signals()
    said = [signals.record(*(BAD[0] if n % 20 == 0 else GOOD), 0.0) for n in range(2000)]
    assert True not in said


def test_one_that_fails_three_in_ten_is() -> None:
    signals = Signals()
    said = [signals.record(*(BAD[1] if n % 10 < 3 else GOOD), 0.0) for n in range(200)]
    assert said[100:].count(True) > 20


@pytest.mark.parametrize("outcome", sorted(Outcome))
def test_what_each_outcome_says(outcome: Outcome) -> None:
    """A whole answer counts as good, whatever it said. Pages that were not requested, and failures
    that are not overload, count as nothing."""
    unasked = {
        "fresh",
        "forbidden_address",
        "robots_disallowed",
        "host_down",
        "deferred",
        "crashed",
        "worker_lost",
    }
    unasked |= {"no_login", "login_failed"}
    said = Signals().record(outcome, 500, 0.0)
    if outcome is Outcome.THROTTLED:
        assert said is True
    elif outcome.value in unasked or outcome.blame is Blame.HOST:
        assert said is None
    else:
        assert said is False


def test_other_errors_of_the_server_leave_the_record_alone() -> None:
    signals = Signals()
    for _ in range(50):
        assert signals.record(Outcome.SERVER_ERROR, 500, 0.0) is None
        assert signals.record(Outcome.UNREACHABLE, None, 0.0) is None
    assert [signals.record(*BAD[0], 0.0) for _ in range(5)] == [None] * 4 + [True]


@given(st.lists(st.sampled_from([GOOD, *BAD]), max_size=200))
def test_it_slows_down_only_while_its_share_of_bad_ones_is_high(
    said: list[tuple[Outcome, int | None]],
) -> None:
    signals, share = Signals(), 0.0
    for outcome, status in said:
        bad = (outcome, status) != GOOD
        share += BAD_WEIGHT * (bad - share)
        assert signals.record(outcome, status, 0.0) is (
            (True if share > BAD_SHARE else None) if bad else False
        )


@given(st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=100))
def test_a_pace_stays_between_its_floor_and_the_budget(changes: list[int | None]) -> None:
    factor = 1.0
    for good in changes:
        before = factor
        factor = cut_pace(factor) if good is None else raise_pace(factor, good, 10.0)
        assert FLOOR <= factor <= 1.0
        assert factor <= before if good is None else factor >= before


def test_the_strictest_budget_counts_an_operators_word_above_it_and_a_crawl_delay_above_all() -> (
    None
):
    sites = [Budget(0.5, 8, 4), Budget(0.25, 4, 2)]
    assert combine_budgets([], Override(), 0.0) == Budget()
    assert combine_budgets(sites, Override(), 0.0) == Budget(0.5, 4, 2)
    assert combine_budgets(sites, Override(interval_s=0.1, concurrency=16), 0.0) == Budget(
        0.1, 16, 2
    )
    assert combine_budgets(sites, Override(interval_s=0.0), 0.0) == Budget(0.0, 4, 2)
    assert combine_budgets(sites, Override(interval_s=0.1, burst=9), 3.0) == Budget(3.0, 4, 1)


def test_a_page_that_fails_again_says_nothing_of_a_host_that_is_well() -> None:
    signals = Signals()
    for _ in range(100):
        signals.record(*GOOD, 0.0)
    for second in range(int(HEALTHY_S)):
        assert signals.is_healthy(second)
        assert signals.record(*BAD[0], second, failed_before=True) is None
    # Nor is it the sign that a host is well no more, but the silence of all others is.
    assert not signals.is_healthy(HEALTHY_S + 1)
    said = [signals.record(*BAD[0], HEALTHY_S + 1, failed_before=True) for _ in range(6)]
    assert said == [None] * 4 + [True] * 2


@pytest.mark.parametrize("bad", BAD)
def test_different_pages_that_fail_slow_a_host_that_was_well(
    bad: tuple[Outcome, int | None],
) -> None:
    signals = Signals()
    signals.record(*GOOD, 0.0)
    assert True in [signals.record(*bad, 1.0) for _ in range(6)]
    assert not signals.is_healthy(1.0)
    assert signals.record(*bad, 1.0, failed_before=True) is True
    assert signals.record(Outcome.THROTTLED, 429, 1.0, failed_before=True) is True


def test_an_unknown_host_is_not_well() -> None:
    assert not Signals().is_healthy(0.0)


def test_pages_that_alone_give_no_answer_slow_no_other_while_most_are_answered() -> None:
    signals, strict = Signals(), Signals()
    for turn in range(300):
        timeout = (Outcome.TIMEOUT, None) if turn % 3 == 0 else GOOD
        assert signals.record(*timeout, 0.0, alone=True) is (None if timeout != GOOD else False)
        strict.record(*timeout, 0.0)
    assert not strict.is_healthy(0.0)
    assert signals.is_healthy(0.0, MOST_SHARE)
    said = [signals.record(Outcome.TIMEOUT, None, 0.0, alone=True) for _ in range(60)]
    assert said[-1] is True
    assert not signals.is_healthy(0.0, MOST_SHARE)
