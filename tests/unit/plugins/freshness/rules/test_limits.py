"""What limits of bytes and money allow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Fetched
from scraper.plugins.freshness.keys import PlanBudget, bytes_a_day, money_a_day, price_of_proxies
from scraper.plugins.freshness.rules.limits import (
    FIRST_BYTES,
    HEADER_BYTES,
    Limit,
    Used,
    budget_of,
    find_tightest,
)
from scraper.plugins.freshness.worker_part import _read_size

amounts = st.floats(0.001, 1e9)


@given(amounts, amounts, amounts)
def test_visits_and_other_requests_stay_within_a_limit_that_has_room(
    most: float, visit: float, others: float
) -> None:
    limit = Limit(most, visit, others)
    if others <= most / 2:
        assert limit.visits * visit + others == pytest.approx(most)
    else:
        assert limit.visits * visit == pytest.approx(most / 2)


def test_the_tightest_limit_binds() -> None:
    limits = {
        "requests": Limit(1000, 1, 100),
        "bytes": Limit(1e6, 5000, 0),
        "proxy": Limit(1, 0, 0),
    }
    assert find_tightest(limits) == "bytes"
    assert budget_of(limits, 100) == 300
    assert math.isinf(limits["proxy"].visits)
    assert budget_of({"requests": limits["requests"]}, 100) == 1000
    assert budget_of({}, 100) is None


def test_requests_without_a_size_count_as_the_others_do() -> None:
    assert Used(10, 5, 5000).traffic == 10 * (1000 + HEADER_BYTES)
    assert Used(2).traffic == 2 * (FIRST_BYTES + HEADER_BYTES)
    assert Used().traffic == 0
    # Only what goes through proxies costs money.
    assert Used(100, 100, 1e9).money(1, 1) == 0


def test_money_is_by_gigabyte_or_by_request() -> None:
    used = Used(1000, 1000, 1e9, 500, 500, 5e8 - 500 * HEADER_BYTES)
    by_size = PlanBudget(proxy="3 USD/d", proxy_price="4 USD/GB")
    by_request = PlanBudget(proxy="3USD/day", proxy_price="0.01 USD/request")
    assert by_size.price(used) == pytest.approx(2)
    assert by_request.price(used) == pytest.approx(5)
    assert by_size.proxy_a_day == by_request.proxy_a_day == 3
    assert PlanBudget(bytes="1 GB/d").price(used) == 0


def test_units_are_those_of_proxy_sellers() -> None:
    assert bytes_a_day("5GB/d") == 5e9 and bytes_a_day("1.5 MB / day") == 1.5e6
    assert money_a_day("3 USD/d") == (3, "USD")
    assert price_of_proxies("0.001 EUR/request") == (0.001, "EUR", "request")


@pytest.mark.parametrize(
    ("status", "length", "body", "same", "size"),
    [
        (200, "1234", b"unpacked", False, 1234),
        (200, None, b"unpacked", False, 8),
        (200, "-5", b"unpacked", False, 8),
        (200, "9" * 400, b"unpacked", False, 8),
        (200, None, b"", True, None),
        (200, "1234", b"", True, 1234),
        (304, "1234", b"", False, 0),
    ],
)
def test_a_size_is_that_of_the_body_as_it_came(
    status: int, length: str | None, body: bytes, same: bool, size: int | None
) -> None:
    headers = {} if length is None else {"content-length": length}
    fetched = Fetched("https://shop.example/", status, headers, body, same=same)
    assert _read_size(fetched) == size
    assert _read_size(replace(fetched, wire_bytes=70_000)) == 70_000
