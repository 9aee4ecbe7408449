"""Shared functions of the platforms' adapters. Pure."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from scraper.domain import Fetched
from scraper.extract.text import unescape_twice
from scraper.rules.decoding import clean_text, parse_html

# Block elements separate words; inline elements do not.
_BLOCK = re.compile(r"(?=</?(?:p|div|br|li|[uod]l|d[td]|h[1-6r]|t[rdh]|table|section)\b)", re.I)


def parse_json(page: Fetched) -> Any:
    """Returns the page's JSON, with fractions as Decimal. Raises ValueError, also for NaN and
    Infinity, which JSON does not have."""
    if not page.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        raise ValueError("the answer is not JSON")
    try:
        return json.loads(page.body, parse_float=Decimal, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the JSON is broken or cut off: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def read_parameter(url: str, name: str, default: str = "") -> str:
    return parse_qs(urlsplit(url).query).get(name, [default])[0]


def parse_amount(given: Any, shift: int = 0) -> Decimal | None:
    """Returns a price as a number; `shift` is the number of decimal places of its unit."""
    if given is None or given == "":
        return None
    try:
        amount = Decimal(str(given)).scaleb(-shift)
    except ArithmeticError:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise ValueError(f"{str(given)[:60]!r} is not a price")
    return amount


def price_fields(
    price: Decimal | None, usual: Decimal | None, currency: str | None
) -> dict[str, Any]:
    """Returns `price` and, if it is reduced, `list_price`, as price fields store them."""
    row: dict[str, Any] = {"price": price, "price_currency": currency}
    if price is not None and usual is not None and usual > price:
        row |= {"list_price": usual, "list_price_currency": currency}
    return row


def extract_text(html: Any) -> str | None:
    """Returns the text of a piece of HTML, which may be escaped twice; None if it is empty."""
    if not isinstance(html, str) or not html.strip():
        return None
    if "<" not in html and "&" not in html:
        return clean_text(html)
    root = parse_html(f"<body>{_BLOCK.sub(' ', html)}".encode("utf-8", "replace"))
    return clean_text(unescape_twice("".join(map(str, root.itertext())))) or None


def drop_empty(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the row without empty values."""
    return {key: value for key, value in row.items() if value is not None and value != ""}
