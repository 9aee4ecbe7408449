"""Retry-After in both its forms."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.rules.verdict import retry_after_s

NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("7, 30", 7),
        ("99999999", 86_400),
        ("9" * 500, 86_400),
        ("Wed, 21 Oct 2026 07:30:00 GMT", 120),
        ("Wed, 21 Oct 2026 09:30:00 +0200", 120),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 86_400),
        ("Wed, 21 Oct 2026 07:30:00 -0000", 120),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("Wed, 99 Oct 2026 07:30:00 GMT", None),
    ],
)
def test_both_forms(value: str, wait_s: float | None) -> None:
    assert retry_after_s({"retry-after": value}, NOW) == wait_s


@pytest.mark.parametrize(
    ("date", "wait_s"),
    [
        ("Wed, 21 Oct 2026 07:29:00 GMT", 60),
        ("Wed, 21 Oct 2026 08:00:00 GMT", 0),
        ("Wed, 21 Oct 2026 07:00:00", 1800),
        ("yesterday", 120),
        ("", 120),
    ],
)
def test_a_date_is_of_the_clock_of_the_server(date: str, wait_s: float) -> None:
    headers = {"retry-after": "Wed, 21 Oct 2026 07:30:00 GMT", "date": date}
    assert retry_after_s(headers, NOW) == wait_s


def test_without_a_header_the_delay_is_none() -> None:
    assert retry_after_s({}, NOW) is None


@given(st.text(max_size=60))
def test_any_text_is_bounded_or_nothing(value: str) -> None:
    wait_s = retry_after_s({"retry-after": value}, NOW)
    assert wait_s is None or 0 <= wait_s <= 86_400
