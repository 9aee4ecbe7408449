"""How long a host's requests take, on a clock that the test moves."""

from __future__ import annotations

import pytest

from scraper.politeness.latency_estimate import (
    ANSWERS_LEAST,
    PATIENT_LEAST_S,
    PATIENT_SHARE,
    PATIENT_TRY,
    STUCK_MAX_S,
    STUCK_S,
    TIMEOUT_LEAST_S,
    TIMEOUT_SLOWEST,
    LatencyEstimate,
)


def after(answers: int, seconds: float = 0.05, now: float = 1000.0) -> LatencyEstimate:
    latency = LatencyEstimate()
    for _ in range(answers):
        latency.record_answer(seconds, now)
    return latency


def test_too_few_answers_say_nothing() -> None:
    assert after(ANSWERS_LEAST - 1).answer_timeout_s(0, 1000.0) is None


def test_the_slowest_answer_decides_and_fades() -> None:
    latency = after(ANSWERS_LEAST)
    assert latency.answer_timeout_s(0, 1000.0) == TIMEOUT_LEAST_S
    latency.record_answer(2.0, 1000.0)
    assert latency.answer_timeout_s(0, 1000.0) == TIMEOUT_SLOWEST * 2.0
    for _ in range(700):
        latency.record_answer(0.05, 1000.0)
    assert latency.answer_timeout_s(0, 1000.0) == pytest.approx(TIMEOUT_SLOWEST * 1.0, rel=0.02)


def test_later_tries_wait_for_a_share_of_the_crawl() -> None:
    latency = after(ANSWERS_LEAST)
    assert latency.answer_timeout_s(PATIENT_TRY - 1, 1100.0) == TIMEOUT_LEAST_S
    assert latency.answer_timeout_s(PATIENT_TRY, 1000.0) == PATIENT_LEAST_S
    assert latency.answer_timeout_s(PATIENT_TRY, 1100.0) == pytest.approx(100 * PATIENT_SHARE)


def test_a_host_that_is_known_to_be_slow_hangs_later() -> None:
    latency = LatencyEstimate()
    waits = [latency.stuck_after_s()]
    for seconds in (1.0, 30.0):
        for _ in range(30):
            latency.record_held(seconds)
        waits.append(latency.stuck_after_s())
    assert waits == [STUCK_S, pytest.approx(3.0, rel=0.01), STUCK_MAX_S]
