"""Which changes of a whole field are believed: numbers in, verdicts out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from scraper.results.differences import FieldDifference, find_differences
from scraper.results.judgement import plausibility
from scraper.results.judgement.plausibility import (
    Changes,
    DoubtfulPages,
    ShownTwice,
    judge_changes,
    judge_pages,
    judge_repeats,
)
from scraper.rules.quality import Tolerances

SALE = {"before": 9e4, "after": 7e4, "order": 0.97, "alike": 20}


def verdict(now: Changes, usual: float | None = 0.01, *, price: bool = True, **more: Any) -> Any:
    reason = judge_changes("price", now, usual, Tolerances(**more), price=price)
    return reason.what if reason else None


@pytest.mark.parametrize(
    ("now", "usual", "expected"),
    [
        (Changes(500, 50, **SALE), 0.01, None),
        (Changes(500, 500, **SALE), 0.01, None),
        # the prices of other products
        (Changes(500, 500, **SALE | {"order": 0.1}), 0.01, "changed"),
        (Changes(500, 500, **SALE | {"after": 7e3}), 0.01, "changed"),
        # with tax
        (Changes(500, 500, **SALE | {"after": 1.08e5, "alike": 500}), 0.01, "changed"),
        # With tax, on a day on which other prices change, too.
        (Changes(500, 500, **SALE | {"after": 1.08e5, "alike": 300}), 0.01, "changed"),
        (Changes(500, 100, **SALE | {"alike": 60}), 0.01, "changed"),
        (Changes(500, 100, **SALE | {"alike": 40}), 0.01, None),
        (Changes(500, 200, **SALE | {"order": 0.1}), None, "changed"),
        (Changes(500, 140, **SALE | {"order": 0.1}), None, None),
        # a field that changes every day
        (Changes(500, 400, **SALE | {"order": 0.1}), 0.7, None),
        # Two are too few to decide.
        (Changes(2, 2, **SALE | {"order": None, "alike": 1}), 0.01, None),
        (Changes(0), None, None),
        (Changes(500, vanished=70), 0.0, "vanished"),
        (Changes(500, vanished=25), 0.0, None),
        (Changes(500, held=37), 0.01, "implausible"),
        (Changes(500, held=2), 0.01, None),
        (Changes(50_000, held=40), 0.01, None),
    ],
)
def test_prices(now: Changes, usual: float | None, expected: str | None) -> None:
    assert verdict(now, usual) == expected


def test_other_fields_have_no_sales() -> None:
    assert verdict(Changes(500, 100, **SALE), price=False) == "changed"
    assert verdict(Changes(500, 500), None, price=False) is None, "perhaps it always does"


def test_what_is_not_to_be_judged_is_not() -> None:
    assert verdict(Changes(500, 500, 200, 100), changed=1.0) is None
    assert verdict(Changes(500, vanished=500), floors={"price": 0.0}) is None


def test_pages_that_are_not_their_products() -> None:
    none = DoubtfulPages()
    assert judge_pages(2, 100, none, 100) is None and judge_pages(5, 1000, none, 1000) is None
    reason = judge_pages(70, 500, none, 500)
    assert reason is not None and reason.field is None and "70 of 500" in reason.text


def test_pages_that_are_not_believed() -> None:
    why = "other products' pages say the same: One moment"
    known = DoubtfulPages(5, 5, why, "https://a.example/1")
    reason = judge_pages(0, 400, known, 400)
    assert reason is not None and f"5 of 400 product pages are not believed: {why}" in reason.text
    assert "https://a.example/1" in reason.text
    new = DoubtfulPages(5, 0, why)
    assert judge_pages(0, 0, new, 400) is None, "a new product may have little to show"
    assert judge_pages(0, 0, new, 100) is not None
    assert judge_pages(0, 0, DoubtfulPages(2, 0, why), 10) is None


def test_listings_that_show_what_others_show() -> None:
    stuck = ShownTwice(20, 8, "https://a.example/c?page=2")
    reason = judge_repeats(30, stuck, 0)
    assert reason is not None and "8 of 20 listing pages" in reason.text
    assert stuck.example is not None and stuck.example in reason.text
    assert judge_repeats(30, stuck, 8) is None and judge_repeats(30, stuck, None) is None
    assert judge_repeats(0, stuck, 0) is None, "nothing is missed"
    assert judge_repeats(30, ShownTwice(20, 2, "u"), 0) is None


STORED = {
    "name": "a",
    "price": Decimal("9.90"),
    "price_currency": "EUR",
    "stock": 3,
    "note": "",
    "more": {"b": 1, "a": [Decimal("1.0")]},
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"price": Decimal("9.9")}, ["price changed"]),
        ({"price_currency": "USD"}, ["price changed"]),
        ({"price": None, "price_currency": None}, ["price vanished"]),
        # a default, which is not a value of the page's own
        ({"stock": 0}, ["stock vanished"]),
        ({"note": "new"}, ["note appeared"]),
        ({"note": None}, []),
        # PostgreSQL orders the keys, and 1.0 is read as a float from JSON.
        ({"more": {"a": [1.0], "b": 1}}, []),
        ({"more": {"a": [2], "b": 1}}, ["more changed"]),
        ({"name": "b", "extra": True}, ["extra appeared", "name changed"]),
    ],
)
def test_what_a_page_says_otherwise(changes: dict[str, Any], expected: list[str]) -> None:
    found = ("name", "price", "more", "note", "extra")
    data = STORED | changes
    assert [f"{d.field} {d.difference}" for d in find_differences(STORED, data, found)] == expected


def test_a_price_goes_with_its_currency() -> None:
    data = {key: value for key, value in STORED.items() if not key.startswith("price")}
    assert list(find_differences(STORED, data, None)) == [FieldDifference("price", "vanished", {})]
    data |= {"price": Decimal("8.00"), "price_currency": "EUR"}
    (change,) = find_differences(STORED, data, None)
    assert change.value == {"price": Decimal("8.00"), "price_currency": "EUR"}


@pytest.mark.parametrize(
    ("changed", "text", "held"), [(300, True, True), (140, True, False), (300, False, False)]
)
def test_texts_that_change_on_most_products_of_a_second_crawl(
    changed: int, text: bool, held: bool
) -> None:
    now = Changes(300, changed)
    waits = plausibility.find_doubt("name", now, None, Tolerances(), price=False, text=text)
    assert (waits is not None) == held
    assert judge_changes("name", now, None, Tolerances(), price=False) is None
