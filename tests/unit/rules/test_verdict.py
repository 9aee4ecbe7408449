"""Verdicts: every outcome ends, waits as long as it must, and is charged to whom it should be."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Blame, Outcome, Status, Verdict
from scraper.rules.circuit_breaker import HostDown
from scraper.rules.verdict import (
    FORBIDDEN_BASE_S,
    HOST_PATIENCE,
    RETRY_AFTER_MAX_S,
    THROTTLED_ATTEMPTS,
    RetryPolicy,
    judge_outcome,
    outcome_of_status,
)

POLICIES = st.builds(
    RetryPolicy,
    attempts_max=st.integers(1, 20),
    base_s=st.floats(0.1, 10),
    max_s=st.floats(10, 1000),
)
RNGS = st.integers().map(random.Random)
CHARGED = [outcome for outcome in Outcome if outcome.tried]
# while their host is down
WAITS = [o for o in CHARGED if o.blame is Blame.HOST and o is not Outcome.THROTTLED]
BACK = [Outcome.DEFERRED, Outcome.PROXY_FAILED, Outcome.NO_PROXY, Outcome.NO_LOGIN]


def middle() -> random.Random:
    return random.Random(1)


def tries(outcome: Outcome, policy: RetryPolicy) -> int:
    """The most an account may be charged: a host's faults get more patience than a page's own, and
    a host that asks us to slow down still more."""
    if outcome.blame is not Blame.HOST:
        return policy.attempts_max
    if outcome is Outcome.BLOCKED:
        return policy.attempts_max
    limit = policy.attempts_max * HOST_PATIENCE
    return max(THROTTLED_ATTEMPTS, limit) if outcome is Outcome.THROTTLED else limit


@given(st.sampled_from(CHARGED), POLICIES, RNGS, st.none() | st.floats(0, 100_000))
def test_every_outcome_ends_within_the_attempts(
    outcome: Outcome, policy: RetryPolicy, rng: random.Random, wish_s: float | None
) -> None:
    attempts = 0
    while True:
        verdict = judge_outcome(outcome, attempts, policy, rng, retry_after_s=wish_s)
        assert verdict.charged
        assert verdict.delay_s >= 0
        attempts += 1
        if verdict.status is not Status.DUE:
            break
        assert attempts < tries(outcome, policy)
    assert verdict.status.final
    assert verdict.delay_s == 0


@given(st.lists(st.sampled_from(CHARGED), min_size=80), POLICIES, RNGS)
def test_a_mixture_of_outcomes_ends_too(
    outcomes: list[Outcome], policy: RetryPolicy, rng: random.Random
) -> None:
    """Two accounts: a page ends at the latest when both are used up."""
    charged: Counter[bool] = Counter()
    for outcome in outcomes:
        account = outcome.blame is Blame.HOST
        if judge_outcome(outcome, charged[account], policy, rng).status is not Status.DUE:
            return
        charged[account] += 1
        assert charged[account] < tries(outcome, policy)
    raise AssertionError("still due")


DOWNS = st.builds(HostDown, st.floats(0, 60), charged=st.booleans(), given_up=st.booleans())


@given(st.sampled_from(WAITS), st.integers(0, 100), POLICIES, RNGS, st.floats(0, 60))
def test_while_its_host_is_down_a_page_waits_for_free(
    outcome: Outcome, attempts: int, policy: RetryPolicy, rng: random.Random, rest_s: float
) -> None:
    """Invariant 8."""
    verdict = judge_outcome(outcome, attempts, policy, rng, down=HostDown(rest_s))
    assert (verdict.status, verdict.charged) == (Status.DUE, False)
    assert rest_s <= verdict.delay_s <= rest_s + 1


@given(st.sampled_from(WAITS), st.integers(0, 100), POLICIES, RNGS, st.floats(0, 60))
def test_when_it_is_down_for_longer_each_try_is_charged(
    outcome: Outcome, attempts: int, policy: RetryPolicy, rng: random.Random, rest_s: float
) -> None:
    """It has as many as at any other time, and waits for its host's rest, not for a backoff of its
    own."""
    verdict = judge_outcome(outcome, attempts, policy, rng, down=HostDown(rest_s, charged=True))
    last = attempts + 1 >= tries(outcome, policy)
    assert (verdict.status, verdict.charged) == (Status.DEAD if last else Status.DUE, True)
    assert verdict.delay_s == 0 if last else rest_s <= verdict.delay_s <= rest_s + 1


@given(st.sampled_from(WAITS), st.integers(0, 100), POLICIES, RNGS)
def test_a_host_that_is_given_up_gives_up_the_page(
    outcome: Outcome, attempts: int, policy: RetryPolicy, rng: random.Random
) -> None:
    given_up = HostDown(0.0, charged=True, given_up=True)
    assert judge_outcome(outcome, attempts, policy, rng, down=given_up) == Verdict(
        Status.DEAD, 0.0, charged=True
    )


@given(
    st.sampled_from([o for o in Outcome if o not in WAITS]),
    st.integers(0, 100),
    POLICIES,
    st.integers(),
    DOWNS,
)
def test_other_outcomes_are_judged_alike_whether_the_host_is_down(
    outcome: Outcome, attempts: int, policy: RetryPolicy, seed: int, down: HostDown
) -> None:
    same = [
        judge_outcome(outcome, attempts, policy, random.Random(seed), down=each)
        for each in (None, down)
    ]
    assert same[0] == same[1]


@given(st.integers(0, 1000), POLICIES, RNGS, st.none() | st.floats(0, 100))
def test_a_page_whose_host_is_hopeless_dies_untried_and_pays_nothing(
    attempts: int, policy: RetryPolicy, rng: random.Random, wish_s: float | None
) -> None:
    verdict = judge_outcome(Outcome.HOST_DOWN, attempts, policy, rng, retry_after_s=wish_s)
    assert verdict == Verdict(Status.DEAD, 0.0, charged=False)


@given(
    st.integers(0, 100),
    POLICIES,
    RNGS,
    st.floats(0, 100_000),
    st.sampled_from([Outcome.THROTTLED, Outcome.TIMEOUT]),
)
def test_a_servers_wish_is_the_least_delay(
    attempts: int, policy: RetryPolicy, rng: random.Random, wish_s: float, outcome: Outcome
) -> None:
    verdict = judge_outcome(outcome, attempts, policy, rng, retry_after_s=wish_s)
    if verdict.status is Status.DUE:
        assert verdict.delay_s >= min(wish_s, RETRY_AFTER_MAX_S)
        assert verdict.delay_s <= max(1.5 * policy.max_s, 1.1 * RETRY_AFTER_MAX_S)


@given(st.integers(0, 10_000), POLICIES, RNGS)
def test_backoff_doubles_and_is_bounded_with_jitter(
    attempt: int, policy: RetryPolicy, rng: random.Random
) -> None:
    expected = min(policy.base_s * 2 ** min(attempt, 30), policy.max_s)
    assert 0.5 * expected <= policy.delay_s(attempt, rng) <= 1.5 * expected


def test_pages_that_failed_together_do_not_come_back_together() -> None:
    rng = middle()
    assert (
        len({judge_outcome(Outcome.TIMEOUT, 0, RetryPolicy(), rng).delay_s for _ in range(50)})
        == 50
    )
    wishes = {
        judge_outcome(Outcome.THROTTLED, 0, RetryPolicy(), rng, retry_after_s=60).delay_s
        for _ in range(50)
    }
    assert len(wishes) == 50


@given(st.sampled_from(BACK), st.integers(0, 1000), POLICIES, st.floats(0, 60))
def test_a_page_that_was_not_tried_pays_nothing(
    outcome: Outcome, attempts: int, policy: RetryPolicy, delay_s: float
) -> None:
    verdict = judge_outcome(outcome, attempts, policy, middle(), retry_after_s=delay_s)
    assert verdict == Verdict(Status.DUE, delay_s, charged=False)


@pytest.mark.parametrize(
    ("outcome", "attempts", "status"),
    [
        (Outcome.FETCHED, 0, Status.OK),
        (Outcome.NOT_MODIFIED, 3, Status.UNCHANGED),
        (Outcome.FRESH, 0, Status.UNCHANGED),
        (Outcome.NOT_FOUND, 0, Status.GONE),
        (Outcome.REFUSED, 0, Status.DEAD),
        (Outcome.ROBOTS_DISALLOWED, 0, Status.DEAD),
        (Outcome.SERVER_ERROR, 6, Status.DUE),
        (Outcome.SERVER_ERROR, 7, Status.DEAD),
        (Outcome.MALFORMED, 2, Status.DUE),
        (Outcome.MALFORMED, 3, Status.DEAD),
        (Outcome.NOT_EXTRACTED, 0, Status.DUE),
        (Outcome.NOT_EXTRACTED, 1, Status.INVALID),
        (Outcome.FUNCTION_FAILED, 1, Status.INVALID),
    ],
)
def test_what_is_done(outcome: Outcome, attempts: int, status: Status) -> None:
    assert judge_outcome(outcome, attempts, RetryPolicy(), middle()).status is status


def test_only_good_answers_count_as_good() -> None:
    """Invariant 7."""
    good = {
        o
        for o in Outcome
        if judge_outcome(o, 0, RetryPolicy(), middle()).status in (Status.OK, Status.UNCHANGED)
    }
    assert good == {Outcome.FETCHED, Outcome.NOT_MODIFIED, Outcome.FRESH}


@pytest.mark.parametrize(
    ("status", "retry_after", "outcome"),
    [
        (200, False, Outcome.FETCHED),
        (204, False, Outcome.FETCHED),
        (304, False, Outcome.MALFORMED),
        (404, False, Outcome.NOT_FOUND),
        (410, True, Outcome.NOT_FOUND),
        (401, False, Outcome.REFUSED),
        (403, True, Outcome.REFUSED),
        (451, False, Outcome.REFUSED),
        (408, False, Outcome.SERVER_ERROR),
        (425, False, Outcome.SERVER_ERROR),
        (429, False, Outcome.THROTTLED),
        (503, True, Outcome.THROTTLED),
        (503, False, Outcome.SERVER_ERROR),
        (500, True, Outcome.SERVER_ERROR),
        (599, False, Outcome.SERVER_ERROR),
    ],
)
def test_what_a_status_says(status: int, retry_after: bool, outcome: Outcome) -> None:
    assert outcome_of_status(status, retry_after=retry_after) is outcome


def test_304_is_an_answer_to_a_conditional_request_alone() -> None:
    assert outcome_of_status(304, retry_after=False, conditional=True) is Outcome.NOT_MODIFIED
    assert outcome_of_status(304, retry_after=False) is Outcome.MALFORMED
    assert outcome_of_status(200, retry_after=False, conditional=True) is Outcome.FETCHED


@given(st.integers(100, 999), st.booleans())
def test_any_status_says_something(status: int, retry_after: bool) -> None:
    good = outcome_of_status(status, retry_after=retry_after) is Outcome.FETCHED
    assert good == (200 <= status < 300)


@pytest.mark.parametrize(
    ("outcome", "tries"),
    [(Outcome.SERVER_ERROR, 4), (Outcome.UNREACHABLE, 4), (Outcome.TIMEOUT, 3)],
)
def test_a_page_that_fails_alone_has_its_own_tries_soon_after_each_other(
    outcome: Outcome, tries: int
) -> None:
    rng, policy, delays = random.Random(5), RetryPolicy(), []
    for attempts in range(20):
        verdict = judge_outcome(outcome, attempts, policy, rng, host_healthy=True)
        assert verdict.charged
        if verdict.status is Status.DEAD:
            break
        delays.append(verdict.delay_s)
    assert len(delays) + 1 == tries
    assert sum(delays) < 15
    # A first failure may be its host's: it waits, as ever.
    assert judge_outcome(outcome, 0, policy, middle(), host_healthy=True) == judge_outcome(
        outcome, 0, policy, middle()
    )


@pytest.mark.parametrize("attempts_max", [1, 2, 3, 8])
def test_one_that_gives_no_answer_has_a_second_try_at_least(attempts_max: int) -> None:
    policy = RetryPolicy(attempts_max=attempts_max)
    assert (
        judge_outcome(Outcome.TIMEOUT, 0, policy, middle(), host_healthy=True).status is Status.DUE
    )


def test_a_host_that_is_down_is_waited_for_however_well_it_was() -> None:
    down, policy = HostDown(5.0), RetryPolicy()
    for outcome in (Outcome.SERVER_ERROR, Outcome.TIMEOUT):
        verdict = judge_outcome(outcome, 3, policy, middle(), down=down, host_healthy=True)
        assert (verdict.status, verdict.charged) == (Status.DUE, False)


def test_a_403_is_asked_for_once_more_and_later() -> None:
    policy, rng = RetryPolicy(), random.Random(1)
    first = judge_outcome(Outcome.REFUSED, 0, policy, rng, forbidden=True)
    assert first.status is Status.DUE and first.delay_s >= FORBIDDEN_BASE_S / 2 and first.charged
    assert judge_outcome(Outcome.REFUSED, 1, policy, rng, forbidden=True).status is Status.DEAD
    once = RetryPolicy(attempts_max=1)
    assert judge_outcome(Outcome.REFUSED, 0, once, rng, forbidden=True).status is Status.DEAD
    assert judge_outcome(Outcome.REFUSED, 0, policy, rng).status is Status.DEAD
