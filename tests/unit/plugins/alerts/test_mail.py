"""Mail of alerts: its subject counts, its table holds nothing that a shop could make a page do."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scraper.plugins.alerts.mail import flatten_text, write_crawl, write_prices
from scraper.plugins.alerts.settings import AlertsSettings

PLAIN = {"name": "Lamp", "site": "berg2", "url": "https://berg2.example/1", "currency": "EUR"}


def alert(before: object, after: object, **more: object) -> dict[str, Any]:
    return PLAIN | {"before": before, "after": after} | more


@pytest.mark.parametrize(
    ("when", "alerts", "subject"),
    [
        ("fell 5%", [alert(10, 9)] * 7 + [alert(20, 12)], "berg2: 8 prices fell, up to 40 %"),
        ("fell", [alert(20, Decimal("19.99"))], "berg2: 1 price fell 0.1 %: Lamp"),
        ("changed", [alert(10, 9), alert(10, 12)], "berg2: 1 price fell 10 %, 1 price rose 20 %"),
        ("fell", [alert(9, 3, currency=None)], "berg2: 1 value fell 66 %: Lamp"),
        ("changed", [alert("red", "blue")], "berg2: 1 product changed: Lamp"),
        ("changed", [alert(0, 5), alert(None, 5)], "berg2: 2 products changed"),
        ("fell", [alert(10, 9), alert(10, 9, site="x")], "drops: 2 prices fell, up to 10 %"),
        ("new", [alert(None, 9)] * 2, "berg2: 2 new products"),
        ("below 10 EUR", [alert(11, 9)], "berg2: 1 product below 10 EUR: Lamp"),
        ("sold out", [alert(True, False, name="", product="7")], "berg2: 1 product sold out: 7"),
    ],
)
def test_subjects(when: str, alerts: list[dict[str, Any]], subject: str) -> None:
    assert write_prices("drops", when, alerts, "").subject == subject


@given(
    st.text() | st.text("<>/!abscript \"'&;=\r\n\u202e", max_size=60),
    st.sampled_from(["name", "site", "currency", "url", "event", "before", "after"]),
)
def test_no_text_of_a_shop_becomes_markup(text: str, key: str) -> None:
    mail = write_prices("drops", "fell", [alert(2, 1) | {key: text}], "")
    tags = set(re.findall(r"<[^>]*>", mail.html))
    links = {tag for tag in tags if tag.startswith("<a ")}
    assert {re.split(r"[ >]", tag)[0].strip("</>") for tag in tags} <= {
        *("p", "table", "thead", "tbody", "tr", "th", "td", "a"),
    }
    assert all(re.match(r'<a href="https?://[^"<>]*" rel="noreferrer">', tag) for tag in links)
    assert mail.subject.isprintable() and "\u202e" not in mail.html and "\r" not in mail.html


def test_stock_is_shown_as_yes_or_no() -> None:
    html = write_prices("drops", "sold out", [alert(True, False)], "").html
    assert "<td>yes</td><td>no</td>" in html
    assert "<td>3 EUR</td><td>0 EUR</td>" in write_prices("x", "fell", [alert(3, 0)], "").html


def test_a_deep_heap_of_tags_is_taken_out_at_once() -> None:
    assert flatten_text("<b" * 5000 + ">" * 5000 + "x").replace("<b", "") == "<…"
    assert len(flatten_text("x" * 10_000)) == 300


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "https://", "//x", "http://[", None, "ftp://x/"],
)
def test_only_web_addresses_are_links(url: str | None) -> None:
    assert "<a " not in write_prices("drops", "fell", [alert(2, 1, url=url)], "").html


def test_links_to_the_tab_only_with_its_address() -> None:
    lines = ["Crawl 7 of berg2 is suspect: 3 products.", "- price: <b>no</b>", "  read by css '.p'"]
    assert "<a " not in write_crawl("berg2: crawl 7 is suspect", lines, 7, "").html
    html = write_crawl("berg2: crawl 7 is suspect", lines, 7, "https://tab.example/f/").html
    assert html.count('href="https://tab.example/f/crawls/7"') == 1 and "Accept" in html
    assert "&nbsp;&nbsp;read by css &#x27;.p&#x27;" in html and "<b>" not in html


@pytest.mark.parametrize(
    "address", ["javascript:x", "tab.example", 'https://x"onload=', "http://a b"]
)
def test_the_address_of_the_tab_is_a_web_address(address: str) -> None:
    with pytest.raises(ValidationError):
        AlertsSettings(alert_tab=address)
