"""What makes a crawl suspect, and which values stay held: numbers in, verdicts out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.results.excerpts import (
    EXCERPT_CHARS,
    SHOWN_CHARS,
    make_excerpt,
    shorten_excerpt,
)
from scraper.rules import quality
from scraper.rules.quality import FieldFigures, Tolerances, UsualFigures

TOLERANCES = Tolerances()
SHARES = st.floats(0.01, 1.0)
RECORDS = st.integers(1, 100_000)


def figures(records: int, found: int, **more: Any) -> FieldFigures:
    """Of a crawl that was the same all along."""
    window = min(records, 50)
    recent = found / records * window if records else 0.0
    return FieldFigures(records, found, recent_records=window, recent_found=recent, **more)


def verdict(
    now: FieldFigures, usual: UsualFigures, tolerances: Tolerances = TOLERANCES
) -> str | None:
    reason = quality.judge_field("price", now, usual, tolerances)
    return reason.what if reason else None


def tail(found: int, records: int, expected: float) -> float:
    """How probable so few are, exactly."""
    return sum(
        math.comb(records, n) * expected**n * (1 - expected) ** (records - n)
        for n in range(found + 1)
    )


@given(st.integers(1, 60), st.integers(0, 60), st.floats(0.01, 0.99))
def test_surprise_never_says_more_than_is_so(records: int, found: int, expected: float) -> None:
    found = min(found, records)
    told = quality.improbability(found, records, expected)
    assert told >= 0
    if found >= expected * records:
        assert told == 0
    else:
        assert math.exp(-told) >= tail(found, records, expected) * (1 - 1e-9)
    if found == 0:
        assert math.exp(-told) == pytest.approx(tail(0, records, expected))


@given(RECORDS, SHARES, st.data())
def test_what_is_as_usual_is_never_in_breach(
    records: int, share: float, data: st.DataObject
) -> None:
    found = data.draw(st.integers(math.ceil(share * records), records))
    usual = UsualFigures(share, 0.0, 10, records)
    now = figures(records, found, distinct=10, sampled=records)
    assert verdict(now, usual) is None
    line = quality.fill_threshold("price", usual, TOLERANCES)
    assert not quality.is_broken(now, line, share)


@given(st.integers(3, 100_000), st.floats(0.95, 1.0))
def test_a_field_that_all_had_and_none_has_is_in_breach(records: int, share: float) -> None:
    now, usual = figures(records, 0), UsualFigures(share)
    line = quality.fill_threshold("price", usual, TOLERANCES)
    assert verdict(now, usual) == "fill" and quality.is_broken(now, line, share)


@given(RECORDS, SHARES, st.data())
def test_fewer_found_is_never_a_better_verdict(
    records: int, share: float, data: st.DataObject
) -> None:
    found = data.draw(st.integers(1, records))
    fewer = data.draw(st.integers(0, found - 1))
    if verdict(figures(records, found), UsualFigures(share)) is not None:
        assert verdict(figures(records, fewer), UsualFigures(share)) is not None


@given(RECORDS, SHARES, st.data())
def test_the_values_of_whatever_is_in_breach_stay_held(
    records: int, share: float, data: st.DataObject
) -> None:
    now = figures(records, data.draw(st.integers(0, records)))
    line = quality.fill_threshold("price", UsualFigures(share), TOLERANCES)
    if verdict(now, UsualFigures(share)) == "fill":
        assert quality.is_broken(now, line, share)


@pytest.mark.parametrize(
    ("records", "found", "usual", "expected"),
    [
        (1, 0, 1.0, None),  # one page proves nothing
        (2, 0, 1.0, "fill"),
        (100, 79, 1.0, "fill"),
        (100, 81, 1.0, None),  # within the tolerance
        # happens one time in thirty
        (10, 0, 0.3, None),
        (30, 0, 0.3, "fill"),
        (0, 0, 1.0, None),
        # There is nothing to compare with, but a field that no page has is misread.
        (4, 0, None, None),
        (5, 0, None, "never"),
        (500, 1, None, None),
    ],
)
def test_fill_rates(records: int, found: int, usual: float | None, expected: str | None) -> None:
    assert verdict(figures(records, found), UsualFigures(usual)) == expected


def test_floors_stand_for_themselves() -> None:
    floor = replace(TOLERANCES, floors={"price": 0.95})
    assert verdict(figures(100, 94), UsualFigures(), floor) == "floor"
    assert verdict(figures(100, 95), UsualFigures(1.0), floor) is None
    assert verdict(figures(3, 2), UsualFigures(), floor) is None, "of three nobody can tell"
    assert verdict(figures(3, 0), UsualFigures(), floor) == "floor"
    never = replace(TOLERANCES, floors={"price": 0.0})
    assert verdict(figures(1000, 0, mistyped=1000), UsualFigures(1.0), never) is None


def test_a_field_breaks_late() -> None:
    now = FieldFigures(10_000, 9_900, vanished=90, recent_records=50, recent_found=1)
    assert verdict(now, UsualFigures(1.0)) == "late"
    assert verdict(replace(now, vanished=0), UsualFigures(1.0)) is None, (
        "a part of the catalogue that never had it"
    )


def test_types_and_values() -> None:
    usual = UsualFigures(1.0, 0.02, 50, 100)
    assert verdict(figures(100, 60, mistyped=40, distinct=30, sampled=60), usual) == "mistyped"
    assert verdict(figures(100, 95, mistyped=5, distinct=50, sampled=95), usual) is None
    assert verdict(figures(100, 100, distinct=3, sampled=100), usual) == "distinct"
    assert verdict(figures(10, 10, distinct=3, sampled=10), usual) is None, (
        "so few products have few values"
    )
    assert verdict(figures(10, 10, distinct=1, sampled=10), usual) == "distinct"
    assert verdict(figures(100, 100, distinct=1, sampled=100), UsualFigures(1.0, 0, 3, 100)) is None


def test_products() -> None:
    history = [100, 104, 98, 3, 101]
    assert quality.judge_products(49, history, TOLERANCES) is not None
    assert quality.judge_products(51, history, TOLERANCES) is None
    assert quality.judge_products(0, [], TOLERANCES) is None
    assert quality.judge_products(0, [1], TOLERANCES) is None, "a shop of one product may have none"
    floor = quality.judge_products(9, [], replace(TOLERANCES, products_floor=10))
    assert floor is not None and floor.what == "products_floor"


def test_what_is_usual_is_the_median_of_crawls_that_read_something() -> None:
    full, odd, tiny = (
        FieldFigures(100, 98, 1, 50, 98),
        FieldFigures(100, 10, 80, 2, 10),
        FieldFigures(2, 0),
    )
    assert quality.usual_figures([tiny, full, odd, full, tiny]) == UsualFigures(0.98, 0.01, 50, 98)
    assert quality.usual_figures([tiny]) == UsualFigures(0.0, 0.0, 0, 0)
    assert quality.usual_figures([FieldFigures(0, 0)]) == UsualFigures()
    old = [full] * 7 + [odd] * 20
    assert quality.usual_figures(old).fill == 0.98, "only the last seven"


def test_crawls_agree_only_in_a_row_and_on_the_same() -> None:
    price, both = frozenset({("price", "fill")}), frozenset({("price", "fill"), ("brand", "fill")})
    assert quality.reasons_repeat([price, price, both], 2) and not quality.reasons_repeat(
        [price, price, both], 3
    )
    assert not quality.reasons_repeat([price], 2) and not quality.reasons_repeat([price] * 5, None)
    assert not quality.reasons_repeat([frozenset()] * 3, 2)


def test_an_excerpt_shows_markup_and_no_scripts() -> None:
    page = b"<html><head><title>x</title></head><body><nav>menu</nav><script>var a='<h1>';</script><!-- <h1> --><main>\n"
    page += b"  <h1>Thing</h1> <style>p{}</style><p class='cost'>19.90</p><svg><path d='M0'/></svg></main>"
    assert make_excerpt(page) == "<main> <h1>Thing</h1> <p class='cost'>19.90</p></main>"
    assert make_excerpt(b"<body>no main part") == "<body>no main part"
    assert make_excerpt(b"<script>never closed " * 10) == "" and make_excerpt(b"") == ""
    assert "\x00" not in make_excerpt(b"a\x00b\xff")


def test_an_excerpt_is_about_the_value_that_is_known() -> None:
    text = make_excerpt(
        b"<h1>Thing</h1>"
        + b"<p>filler</p>" * 1000
        + b"<b class=cost>19.90</b>"
        + b"<p>more</p>" * 1000
    )
    assert (
        "<b class=cost>19.90</b>" in shorten_excerpt(text, "19.90")
        and len(shorten_excerpt(text, "19.90")) == SHOWN_CHARS
    )
    assert shorten_excerpt(text, "7.77") == shorten_excerpt(text, None) == text[:SHOWN_CHARS]


@given(st.binary(max_size=3000))
def test_an_excerpt_takes_anything(body: bytes) -> None:
    assert len(make_excerpt(body)) <= EXCERPT_CHARS


def test_an_excerpt_of_a_hostile_page_is_linear() -> None:
    make_excerpt(b"<script>" * 100_000)
    make_excerpt(b"<script></script>" * 30_000)
    make_excerpt(b"<!--" * 100_000)
    make_excerpt(b"<svg ><head ><noscript >" * 20_000)


def test_crawls_are_compared_with_those_that_read_as_much() -> None:
    shares = {1: 1.0, 2: 0.05, 3: 0.5, 4: 0.4}
    assert quality.comparable_crawls(shares, 0.9) == {1, 3}
    assert quality.comparable_crawls(shares, 0.1) == {2, 4}
    assert quality.comparable_crawls(shares, None) == {1, 2, 3, 4}, "one that has just begun"
    assert quality.comparable_crawls({1: 1.0}, 0.1) == {1} and quality.comparable_crawls(
        {2: 0.05}, 1.0
    ) == {2}, "better than nothing"
    assert quality.comparable_crawls({}, 1.0) == set()


def test_a_field_that_never_was_is_not_judged_where_its_definition_says_so() -> None:
    now = figures(100, 0)
    assert verdict(now, UsualFigures()) == "never"
    assert verdict(now, UsualFigures(fill=0.0)) is None, "it was accepted so"
    assert verdict(now, UsualFigures(), Tolerances(floors={"price": 0.0})) is None
    assert verdict(now, UsualFigures(), Tolerances(fill=0.0)) is None
