"""What an adapter is, and what adapters share. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from scraper.domain import Fetched
from scraper.rules.decoding import clean_text, parse_html

# Where one begins or ends there is space; within a line there is none.
_BLOCK = re.compile(r"(?=</?(?:p|div|br|li|[uod]l|d[td]|h[1-6r]|t[rdh]|table|section)\b)", re.I)


class Next(NamedTuple):
    """A further page of the interface, by its path and query."""

    path: str


class Adapter:
    """`first` is the path and query of the interface's first page, `paths` are those of all its
    pages, `signs` texts of a shop's HTML, in any case, that hint at the platform."""

    first: str
    paths: tuple[str, ...]
    signs: tuple[bytes, ...]

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | Next]:
        """The rows of a page, each with its `id`, and the pages behind it. `asked` is the URL that
        was asked for. Raises ValueError (KeyError, TypeError …) where it is not as documented."""
        raise NotImplementedError

    def without(self, asked: str) -> Next | None:
        """Where the interface goes on without that page, if it can."""
        return None


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


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


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
