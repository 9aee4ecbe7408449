"""What people type after --since, and the line they read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.cli.common.shared import parse_since
from scraper.errors import ConfigError
from scraper.feed.prices import draw_sparkline
from scraper.feed.reader import Change
from scraper.plugins.changes.command import Wanted, describe_change

AT = datetime(2025, 11, 21, 6, 0, 12, tzinfo=UTC)


def a_change(event: str = "changed", **more: object) -> Change:
    values = {
        "cursor": 7, "event": event, "site": "shop", "id": "1010", "url": "https://shop.example/p/1010", "version": 3,
        "crawl": 12, "at": AT, "changed": ("price",), "before_json": '{"price": 9.90}',
        "data_json": '{"name": "Pan", "price": 8.50}',
    }  # fmt: skip
    return Change(**{**values, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0", 0),
        ("41872", 41872),
        ("oldest", "oldest"),
        ("now", "now"),
        ("2025-11-21", datetime(2025, 11, 21, tzinfo=UTC)),
        ("2025-11-21T06:00Z", datetime(2025, 11, 21, 6, tzinfo=UTC)),
        ("2025-11-21T06:00+02:00", datetime(2025, 11, 21, 4, tzinfo=UTC)),
    ],
)
def test_since(text: str, meant: object) -> None:
    assert parse_since(text) == meant


def test_so_long_ago() -> None:
    before = datetime.now(UTC)
    found = parse_since("2h")
    assert isinstance(found, datetime)
    assert before - timedelta(hours=2) <= found <= datetime.now(UTC) - timedelta(hours=2)


@pytest.mark.parametrize("text", ["", "soon", "-1", "12 apples", "2025-13-01", "9" * 30, "1.5.2"])
def test_an_invalid_position_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match="neither a cursor nor a time"):
        parse_since(text)


def priced(before: str, after: str, **more: object) -> Change:
    return a_change(
        before_json=f'{{"price": {before}}}',
        data_json=f'{{"name": "Pan", "price": {after}, "price_currency": "EUR"}}',
        **more,
    )


def test_a_line_for_people() -> None:
    fell = describe_change(priced("9.90", "8.50"))
    assert fell.endswith("  shop  changed   1010  Pan  price: 9.90 -> 8.50 EUR (-14.1%)")
    zone = AT.astimezone().tzname()
    assert zone is not None and f" {zone}  shop" in fell
    plain = describe_change(a_change())
    assert plain.endswith("  shop  changed   1010  Pan  price: 9.90 -> 8.50")
    free = describe_change(priced("0", "8.50"))
    assert free.endswith("price: 0 -> 8.50 EUR"), "no percent of nothing"
    new = describe_change(priced("1", "8.50", event="new", changed=()))
    assert new.endswith("  shop  new       1010  Pan  price: 8.50 EUR")
    gone = describe_change(a_change("delisted", changed=(), before_json="{}"))
    assert gone.endswith("  delisted  1010  Pan  https://shop.example/p/1010")
    many = describe_change(a_change(changed=("a", "b", "c", "d", "e", "f"), before_json="{}"))
    assert many.endswith("a:  -> , b:  -> , c:  -> , d:  -> , 2 more")
    evil = describe_change(a_change(data_json='{"price": "\\u001b[2J\\u202e8"}'))
    assert "\x1b" not in evil and "\u202e" not in evil


@pytest.mark.parametrize(
    ("events", "least", "shown"),
    [
        ((), None, True),
        (("changed",), None, True),
        (("new",), None, False),
        (("price-drop",), None, True),
        (("price-rise",), None, False),
        ((), "10%", True),
        ((), "10.01%", False),
        (("price-drop",), "10%", True),
        (("price-drop",), "10.01", False),
        (("price-rise", "price-drop"), "5%", True),
        (("new", "price-drop"), "50%", False),
    ],
)
def test_what_is_shown(events: tuple[str, ...], least: str | None, shown: bool) -> None:
    assert Wanted.parse(events, least).matches(priced("10.00", "9.00")) == shown


def test_a_least_alone_is_about_prices() -> None:
    wanted = Wanted.parse((), "5%")
    assert wanted.matches(priced("9.00", "10.00"))
    assert not wanted.matches(priced("10.00", "10.00", event="new"))


def test_a_price_that_was_0_has_risen_by_no_percentage() -> None:
    change = priced("0", "5.00")
    assert Wanted.parse(("price-rise",), None).matches(change)
    assert not Wanted.parse(("price-drop",), None).matches(change)
    assert not Wanted.parse(("price-rise",), "5%").matches(change)


def test_a_price_in_another_currency_did_not_drop() -> None:
    change = priced("10.00", "9.00", changed=("price", "price_currency"))
    assert not Wanted.parse(("price-drop",), None).matches(change)
    assert "%" not in describe_change(change)


def test_a_reverted_price_does_not_count_as_a_drop() -> None:
    change = priced("10.00", "9.00", event="reverted")
    assert not Wanted.parse(("price-drop",), None).matches(change)
    assert Wanted.parse(("reverted",), None).matches(change)


@pytest.mark.parametrize("least", ["", "five", "-1%", "5%%", "nan", "1e9"])
def test_a_minimum_that_is_not_a_percentage(least: str) -> None:
    with pytest.raises(ConfigError, match="percentage"):
        Wanted.parse(("price-drop",), least)


def test_a_least_without_prices() -> None:
    with pytest.raises(ConfigError, match="goes with"):
        Wanted.parse(("new",), "5%")


@given(st.lists(st.decimals(0, 10**9, places=2), min_size=1, max_size=40))
def test_a_line_of_bars_has_one_for_each(values: list[Decimal]) -> None:
    line = draw_sparkline(values)
    assert len(line) == len(values) and line[values.index(min(values))] == "▁"
    if max(values) > min(values):
        assert line[values.index(max(values))] == "█"


def test_a_line_for_programs_keeps_every_digit() -> None:
    line = a_change().json()
    assert (
        '"before":{"price": 9.90},"data":{"name": "Pan", "price": 8.50}' in line
        and "\n" not in line
    )
