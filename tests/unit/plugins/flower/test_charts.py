"""How a crawl's time is cut into the steps of a chart, and what is said of outcomes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Blame, Outcome
from scraper.frontier.throughput import COARSER, is_failure
from scraper.plugins.flower.charts import (
    CHART_POINTS,
    STEPS_S,
    empty_points,
    floor,
    window,
)
from scraper.rules.schedule import latest_slot, next_slot

NOON = datetime(2026, 7, 1, 12, 0, 7, tzinfo=UTC)
SPANS = st.floats(0, 10 * 365 * 86_400)


@given(SPANS, st.sampled_from([10, 60, 600]))
def test_a_window_has_few_points_that_cover_it_all(span_s: float, coarsest_s: int) -> None:
    shown = window(NOON, NOON + timedelta(seconds=span_s), coarsest_s=coarsest_s)
    points = empty_points(shown)
    assert shown.step_s >= coarsest_s
    assert len(points) <= CHART_POINTS + 1 or shown.step_s == STEPS_S[-1]
    assert points[0].at <= NOON and points[-1].at <= shown.end < points[-1].at + timedelta(
        seconds=shown.step_s
    )
    assert [b.at - a.at for a, b in itertools.pairwise(points)] == [
        timedelta(seconds=shown.step_s)
    ] * (len(points) - 1)
    assert all(1 <= point.covered_s <= shown.step_s for point in points)


@given(SPANS)
def test_the_steps_cover_no_more_than_the_time_itself(span_s: float) -> None:
    points = empty_points(window(NOON, NOON + timedelta(seconds=span_s)))
    # The first and last count at least one second.
    assert sum(point.covered_s for point in points) <= span_s + 2


def test_the_step_is_the_shortest_that_fits() -> None:
    steps = [
        window(NOON, NOON + timedelta(seconds=s)).step_s
        for s in (5, 1190, 1191, 3570, 86_400, 30 * 86_400)
    ]
    assert steps == [10, 10, 20, 30, 1200, 43_200]


def test_every_step_is_made_of_whole_stored_buckets() -> None:
    for _, coarser, _ in COARSER:
        assert [step for step in STEPS_S if step > coarser and step % coarser] == []
        assert coarser in STEPS_S


def test_a_bucket_begins_where_postgresql_says() -> None:
    assert floor(NOON, 10) == NOON.replace(second=0)
    assert floor(NOON, 86_400) == NOON.replace(hour=0, minute=0, second=0)


def test_an_outcome_failed_where_shop_or_site_is_to_blame() -> None:
    good = {Outcome.FETCHED, Outcome.NOT_MODIFIED, Outcome.FRESH, Outcome.NOT_FOUND}
    assert {outcome for outcome in Outcome if not is_failure(outcome)} == good
    assert all(
        is_failure(outcome)
        for outcome in Outcome
        if outcome.blame in (Blame.HOST, Blame.PROXY, Blame.PARSER)
    )


@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["0 6 * * *", "*/7 * * * *", "30 2 * * *", "0 0 29 2 *"]),
    st.sampled_from(["Europe/Berlin", "UTC", "America/New_York", "Australia/Lord_Howe"]),
)
def test_the_next_slot_is_the_latest_one_once_it_has_come(
    now: datetime, expression: str, zone: str
) -> None:
    coming = next_slot(expression, zone, now)
    assert coming is not None and coming > now
    assert latest_slot(expression, zone, coming) == coming
    before = latest_slot(expression, zone, coming - timedelta(seconds=1))
    assert before is None or before <= now, "no slot is left out"


def test_an_expression_without_slots_has_no_next_one() -> None:
    assert next_slot("0 0 30 2 *", "UTC", NOON) is None


@pytest.mark.parametrize("span_s", [0, 0.5])
def test_a_crawl_that_has_just_begun_has_a_point(span_s: float) -> None:
    (point,) = empty_points(window(NOON, NOON + timedelta(seconds=span_s)))
    assert point.covered_s == 1.0
