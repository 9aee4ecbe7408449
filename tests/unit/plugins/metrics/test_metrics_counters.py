"""Counters that never fall, and sources that never hang their readers."""

from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from scraper.plugins.metrics import sources
from scraper.plugins.metrics.counters import Growing
from scraper.plugins.metrics.sources import MetricSource

SHOP = ("shop",)


def test_growth_since_the_first_look_is_counted() -> None:
    growing = Growing()
    growing.start([SHOP])
    growing.update({1: {SHOP: 1000}})
    assert growing.sums == {SHOP: 0}
    growing.update({1: {SHOP: 1010}, 2: {SHOP: 5}})
    assert growing.sums == {SHOP: 15}, "a row that is new has begun at nothing"


def test_rows_that_shrink_or_vanish_take_nothing_away() -> None:
    growing = Growing()
    growing.update({1: {SHOP: 10}, 2: {SHOP: 7}})
    growing.update({1: {SHOP: 4}, 2: {SHOP: 8}})
    assert growing.sums == {SHOP: 1}
    growing.update({1: {SHOP: 6}})
    assert growing.sums == {SHOP: 3}, "counted on from where it fell to"


def test_rows_to_keep_are_not_counted_twice_when_they_come_again() -> None:
    growing = Growing()
    growing.update({})
    growing.update({1: {SHOP: 3}}, keep=[1])
    growing.update({}, keep=[1])
    growing.update({1: {SHOP: 4}}, keep=[1])
    assert growing.sums == {SHOP: 4}


@given(
    st.lists(
        st.dictionaries(st.integers(0, 3), st.integers(0, 100).map(lambda n: {SHOP: float(n)})),
        max_size=20,
    )
)
def test_a_sum_never_falls(looks: list[dict[int, dict[tuple[str, ...], float]]]) -> None:
    growing, before = Growing(), 0.0
    for rows in looks:
        growing.update(rows)
        assert growing.sums[SHOP] >= before
        before = growing.sums[SHOP]


def test_a_source_that_hangs_is_asked_once_and_holds_up_no_other() -> None:
    asked, go = [], threading.Event()

    def read() -> list[object]:
        asked.append(1)
        go.wait(30)
        return []

    source = MetricSource("slow", read)  # type: ignore[arg-type]
    for _ in range(3):
        source.refresh()
        assert source.wait_for_reading(time.monotonic()) is None
    assert len(asked) == 1
    go.set()
    answer = source.wait_for_reading(time.monotonic() + 30)
    assert answer is not None and answer.metrics == []


def test_an_answer_is_kept_and_a_failure_is_not() -> None:
    answers = iter([["first"], ["second"]])
    asked = []

    def read() -> list[str]:
        asked.append(1)
        if len(asked) == 2:
            raise RuntimeError("away")
        return next(answers)

    source = MetricSource("moody", read)  # type: ignore[arg-type]

    def scrape() -> list[str] | None:
        source.refresh()
        answer = source.wait_for_reading(time.monotonic() + 30)
        return None if answer is None else list(answer.metrics)  # type: ignore[arg-type]

    assert scrape() == scrape() == ["first"] and len(asked) == 1
    assert source._reading is not None
    source._reading = sources.SourceReading(source._reading.metrics, time.monotonic() - 60, 0.0)
    assert scrape() is None, "nothing stale is shown"
    assert scrape() == ["second"]
