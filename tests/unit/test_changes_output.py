"""What people type after --since, and the line they read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scraper.cli.data.changes import describe_change, parse_since
from scraper.errors import ConfigError
from scraper.feed.reader import Change

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
def test_what_is_no_place_is_said_so(text: str) -> None:
    with pytest.raises(ConfigError, match="neither a cursor nor a time"):
        parse_since(text)


def test_a_line_for_people() -> None:
    assert describe_change(a_change()).endswith("  shop  changed   1010  price: 9.90 -> 8.50")
    new = describe_change(a_change("new", changed=(), before_json="{}"))
    assert new.endswith("  shop  new       1010  name: Pan, price: 8.50")
    gone = describe_change(a_change("delisted", changed=(), before_json="{}"))
    assert gone.endswith("  delisted  1010  https://shop.example/p/1010")
    many = describe_change(a_change(changed=("a", "b", "c", "d", "e", "f"), before_json="{}"))
    assert many.endswith("a:  -> , b:  -> , c:  -> , d:  -> , 2 more")
    evil = describe_change(a_change(data_json='{"price": "\\u001b[2J\\u202e8"}'))
    assert "\x1b" not in evil and "\u202e" not in evil


def test_a_line_for_programs_keeps_every_digit() -> None:
    line = a_change().json()
    assert (
        '"before":{"price": 9.90},"data":{"name": "Pan", "price": 8.50}' in line
        and "\n" not in line
    )
