"""What the adapters of platforms share. Pure."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qs, urlsplit

from scraper.domain import Fetched
from scraper.rules.decoding import clean_text, parse_html

# Where one begins or ends there is space; within a line there is none.
_BLOCK = re.compile(r"(?=</?(?:p|div|br|li|[uod]l|d[td]|h[1-6r]|t[rdh]|table|section)\b)", re.I)


def parsed(page: Fetched) -> Any:
    """The page's JSON, numbers with a fraction as Decimal. Raises ValueError."""
    if not page.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        raise ValueError("the answer is no JSON")
    try:
        return json.loads(page.body, parse_float=Decimal)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"the JSON is broken or cut off: {error}") from None


def param(url: str, name: str, default: str = "") -> str:
    return parse_qs(urlsplit(url).query).get(name, [default])[0]


def amount(given: Any, shift: int = 0) -> Decimal | None:
    """A price as it is written; `shift`: in units of so many decimal places."""
    if given is None or given == "":
        return None
    try:
        return Decimal(str(given)).scaleb(-shift)
    except InvalidOperation:
        raise ValueError(f"{str(given)[:60]!r} is no price") from None


def prices(price: Decimal | None, usual: Decimal | None, currency: str | None) -> dict[str, Any]:
    """`price` and, where it is reduced, `list_price`, as price fields store them."""
    row: dict[str, Any] = {"price": price, "price_currency": currency}
    if price is not None and usual is not None and usual > price:
        row |= {"list_price": usual, "list_price_currency": currency}
    return row


def text(html: Any) -> str | None:
    """The words of a piece of HTML; None where there are none."""
    if not isinstance(html, str) or not html.strip():
        return None
    if "<" not in html and "&" not in html:
        return clean_text(html)
    root = parse_html(f"<body>{_BLOCK.sub(' ', html)}".encode("utf-8", "replace"))
    return clean_text("".join(map(str, root.itertext()))) or None


def filled(row: dict[str, Any]) -> dict[str, Any]:
    """The row without what is not given."""
    return {key: value for key, value in row.items() if value is not None and value != ""}
