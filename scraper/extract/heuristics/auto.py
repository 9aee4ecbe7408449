"""The source `auto`: reads the usual fields of a product page by comparing its independent sources:
JSON-LD, microdata, meta tags, and the visible text. Each value has a confidence. Pure, and linear
in the page.

`auto` knows nothing about the shop, so selectors in a definition are more reliable.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from scraper.extract.heuristics.amounts import Amount, find_amounts
from scraper.extract.heuristics.buying import (
    find_buttons,
    find_stated_availability,
    has_cart_button,
    read_stock_text,
)
from scraper.extract.heuristics.codes import (
    GTIN_PATHS,
    find_form_code,
    find_labelled_codes,
    find_named_codes,
    read_gtin,
)
from scraper.extract.heuristics.shown_price import rank_shown_prices
from scraper.extract.heuristics.state_fields import find_currencies, find_field_paths
from scraper.extract.prices.currencies import THOUSANDTHS, names_currency
from scraper.extract.prices.money import to_price
from scraper.extract.structured import jsonld
from scraper.extract.text import unescape_twice, whole_text
from scraper.extract.values import Mistyped, to_bool
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.selectors import parse_json, parse_jsonld
from scraper.sites.grammar.sources import STRUCTURED

if TYPE_CHECKING:
    from scraper.extract.document import Document

AMOUNTS_MAX = 400
TEXT_MAX = 400_000
CODE_MAX = 64
# Below WEAK a shown amount is hardly the price; below SURE it may belong to something else.
WEAK, SURE = 2.0, 5.0
_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head"})
# A template's unfilled placeholder, or a word for "no value".
_HOLE = re.compile(r"\{\{|\$\{?\w+\}?$|%\w+%$|(?:null|undefined|none|n/a|nan|-+)$", re.I)


class AutoValue(NamedTuple):
    """A text that the field's type can read, and its confidence, from 0 to 1."""

    text: str
    confidence: float


class AutoReader:
    """Reads the fields of one page on demand."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values: dict[str, AutoValue | None] = {}

    def read(self, field: str) -> AutoValue | None:
        if field not in self._values:
            self._values[field] = READERS[field](self)
            self._document.budget.check(f"auto: {field}")
        return self._values[field]

    def _structured_texts(self, *paths: str) -> Iterator[tuple[str, str]]:
        """Yields (origin, text) at these paths of JSON-LD, microdata and RDFa."""
        for path in paths:
            parsed = parse_jsonld(path)
            for origin in STRUCTURED:
                nodes = getattr(self._document, origin)
                for text in jsonld.find_texts(nodes, parsed, False):
                    clean = unescape_twice(clean_text(text))
                    if clean and not _HOLE.match(clean):
                        yield origin, clean

    def _meta_texts(self, *names: str) -> Iterator[tuple[str, str]]:
        for name in names:
            for text in self._document.metas.get(name, ())[:1]:
                if clean := unescape_twice(clean_text(text)):
                    yield "meta", clean

    @cached_property
    def _visible_text(self) -> str:
        """The text that people see, one line for each text node."""
        parts: list[str] = []
        size = 0
        body = self._document.dom.body
        stack = [body.iter(include_text=True)] if body is not None else []
        while stack and size < TEXT_MAX:
            for child in stack[-1]:
                if child.is_text_node:
                    text = (child.text_content or "").strip()
                    if text:
                        parts.append(text)
                        size += len(text)
                elif child.tag not in _SKIPPED and child.first_child is not None:
                    stack.append(child.iter(include_text=True))
                    break
            else:
                stack.pop()
        return "\n".join(parts)

    @cached_property
    def _amounts(self) -> list[Amount]:
        body = self._document.dom.body
        return find_amounts(body)[:AMOUNTS_MAX] if body is not None else []

    def restore_thousands(self, value: Decimal, currency: str | None) -> Decimal:
        """Returns 1299 for a stated "1.299" if the page shows 1.299 € and not a third decimal."""
        if value.as_tuple().exponent != -3 or currency in THOUSANDTHS:
            return value
        shown = {amount.value for amount in self._amounts}
        if value in shown:
            return value
        whole, _, thousandths = str(value).partition(".")
        number = re.compile(
            rf"(?<![\d.,]){whole}[.,'’ \u00a0\u202f]?{thousandths}(?![\d]|[.,]\d{{3}})"
        )
        body = self._document.dom.body
        text = body.text() if body is not None and value * 1000 not in shown else ""
        beside = (text[max(0, at.start() - 4) : at.end() + 4] for at in number.finditer(text))
        seen = value * 1000 in shown or any(map(names_currency, beside))
        return (value * 1000).to_integral_value() if seen else value

    def read_price(self) -> AutoValue | None:
        given = self._stated_prices()
        shown = rank_shown_prices(self._document.dom, self._amounts)
        score, top = shown[0] if shown else (0.0, None)
        visible = {amount.value for amount in self._amounts}
        struck = {amount.value for amount in self._amounts if amount.struck}
        votes: Counter[Decimal] = Counter()
        for origin_values in given.values():
            for value in origin_values[:1]:
                votes[value] += 1
        currency = self._stated_currency()
        if not votes:
            if score < SURE and (of_state := self._read_state_price()) is not None:
                return of_state
            if top is None or score < WEAK:
                return None
            sure = 0.8 if score >= 8 else 0.65 if score >= SURE else 0.4
            return self._price_value(top.value, top.currency or currency, sure)
        value, origins = votes.most_common(1)[0]
        value = self.restore_thousands(value, currency)
        if top is not None and top.value == value:
            sure = 0.97 if origins == 1 else 0.99
            return self._price_value(value, currency or top.currency, sure)
        if top is not None and any(top.value in values for values in given.values()):
            return self._price_value(top.value, top.currency or currency, 0.85)
        if value in visible - struck:
            return self._price_value(value, currency, 0.9 if origins > 1 else 0.85)
        former = value in struck and top is not None and top.value < value and score >= WEAK
        if top is not None and (former or (score >= 7 and top.value < value)):
            # A stated price that is crossed out or not visible is a former price.
            return self._price_value(top.value, top.currency or currency, 0.6)
        return self._price_value(value, currency, 0.75 if origins == 1 else 0.85)

    def _read_state_price(self) -> AutoValue | None:
        for text in self._state_texts("price"):
            value = _parse_amount(text)
            if value is not None and value > 0:
                currency = next(find_currencies(self._document.state), None)
                # Whole numbers may be cents.
                return self._price_value(value, currency, 0.6 if "." in text else 0.3)
        return None

    def _state_texts(self, field: str) -> Iterator[str]:
        """Yields the field's texts in the JSON of the page's scripts, the likeliest first."""
        documents = self._document.state
        for path in sorted(find_field_paths(field, documents), key=lambda path: path.rank):
            for text in jsonld.find_texts_in_documents(documents, parse_json(path.path)):
                if (clean := clean_text(text)) and not _HOLE.match(clean):
                    yield clean

    def _price_value(self, value: Decimal, currency: str | None, confidence: float) -> AutoValue:
        # With two decimals the dot cannot be read as a separator of thousands.
        digits = 3 if currency in THOUSANDTHS else 2
        exponent = value.normalize().as_tuple().exponent
        if isinstance(exponent, int) and -exponent > digits:
            digits = max(4, -exponent)
        return AutoValue(f"{value:.{digits}f} {currency or ''}".strip(), confidence)

    def _stated_prices(self) -> dict[str, list[Decimal]]:
        """Returns the prices in structured data, by origin."""
        given: dict[str, list[Decimal]] = defaultdict(list)
        for origin, text in (
            *self._structured_texts("offers.price", "offers.lowPrice"),
            *self._meta_texts(
                "product:sale_price:amount", "product:price:amount", "og:price:amount", "price"
            ),
        ):
            value = _parse_amount(text)
            if value is not None and value > 0:
                given[origin].append(value)
        return given

    def _stated_currency(self) -> str | None:
        for _, text in (
            *self._structured_texts("offers.priceCurrency"),
            *self._meta_texts("product:price:currency", "og:price:currency"),
        ):
            if re.fullmatch(r"[A-Za-z]{3}", text):
                return text.upper()
        return None

    def read_availability(self) -> AutoValue | None:
        offered = [
            _parse_availability(text) for _, text in self._structured_texts("offers.availability")
        ]
        offered += [
            _parse_availability(text)
            for _, text in self._meta_texts("product:availability", "og:availability")
        ]
        given = [state for state in offered if state is not None]
        buyable, dead, sold = find_buttons(self._document.dom)
        shown = read_stock_text(self._document.dom)
        if given:
            # One available offer is enough.
            state = any(given)
            if shown is not None and shown != state:
                return _availability_value(state or buyable, 0.6)
            # A button to buy may be that of another product where the page says "sold out".
            if not state and buyable and not sold and shown is None:
                return _availability_value(True, 0.6)
            return _availability_value(state, 0.97 if buyable == state or shown == state else 0.9)
        if shown is not None:
            return _availability_value(shown, 0.9 if buyable == shown else 0.75)
        if sold and not buyable:
            return _availability_value(False, 0.7)
        if buyable:
            return _availability_value(True, 0.8)
        if (stated := find_stated_availability(self._visible_text)) is not None:
            return _availability_value(stated, 0.6)
        if dead:
            return _availability_value(False, 0.5)
        if has_cart_button(self._document.dom):
            return _availability_value(True, 0.6)
        states = map(_parse_availability, self._state_texts("availability"))
        stated = next((state for state in states if state is not None), None)
        return _availability_value(stated, 0.6) if stated is not None else None

    def read_sku(self) -> AutoValue | None:
        given = [text for _, text in (*self._structured_texts("sku", "offers.sku", "productID"),
                                      *self._meta_texts("product:retailer_item_id"))]  # fmt: skip
        given = [text for text in given if len(text) <= CODE_MAX]
        best: tuple[float, str] | None = None
        codes = find_labelled_codes(self._visible_text), find_named_codes(self._document.dom)
        for at, code in (pair for listed in codes for pair in enumerate(listed)):
            score = (3 if code.strong else 1) - min(at, 10) * 0.1
            score += 2 if _strip_marks(code.text) in self._page_addresses else 0
            score += 3 if code.text in given else 0
            if best is None or score > best[0]:
                best = score, code.text
        if best is not None and best[0] >= 2.5:
            return AutoValue(best[1], 0.97 if best[1] in given else 0.85 if best[0] > 4 else 0.7)
        if given:
            return AutoValue(given[0], 0.6)
        if best is not None:
            return AutoValue(best[1], 0.4)
        sent = find_form_code(self._document.dom) or next(self._state_texts("sku"), None)
        return AutoValue(sent, 0.4) if sent is not None and len(sent) <= CODE_MAX else None

    @cached_property
    def _page_addresses(self) -> str:
        """The page's URL and the canonical URLs that it names, without punctuation."""
        link = self._document.dom.css_first("link[rel=canonical]")
        canonical = link.attributes.get("href") if link is not None else None
        metas = (text for _, text in self._meta_texts("og:url"))
        return " ".join(map(_strip_marks, (self._document.page_url, canonical or "", *metas)))

    def read_gtin(self) -> AutoValue | None:
        stated = (*self._structured_texts(*GTIN_PATHS), *self._meta_texts("product:ean"))
        for digits in (read_gtin(text) for _, text in stated):
            if digits is not None:
                return AutoValue(digits, 0.95)
        match = _GTIN.search(self._visible_text)
        shown = read_gtin(match[1]) if match is not None else None
        return AutoValue(shown, 0.8) if shown is not None else None

    def read_brand(self) -> AutoValue | None:
        return (
            self._first_text(
                self._structured_texts("brand.name", "manufacturer.name"),
                self._meta_texts("product:brand", "og:brand"),
            )
            or self._read_labelled_brand()
        )

    def _read_labelled_brand(self) -> AutoValue | None:
        match = _BRAND.search(self._visible_text)
        return AutoValue(clean_text(match[1]), 0.5) if match is not None else None

    def read_title(self) -> AutoValue | None:
        heading = self._document.dom.css_first("h1")
        seen = clean_text(whole_text(heading)) if heading is not None else ""
        given = [
            text for _, text in (*self._structured_texts("name"), *self._meta_texts("og:title"))
        ]
        for text in given:
            if seen and (text.casefold() == seen.casefold()):
                return AutoValue(seen, 0.97)
        if given:
            return AutoValue(given[0], 0.8)
        if seen:
            return AutoValue(seen, 0.7)
        element = self._document.dom.css_first("title")
        named = clean_text(whole_text(element)) if element is not None else ""
        # The shop's name follows a bar or a dash.
        first = re.split(r"\s+[|–—•·-]\s+", named)[0]
        return AutoValue(first, 0.4) if first else None

    def read_image(self) -> AutoValue | None:
        return self._first_text(
            self._structured_texts("image"), self._meta_texts("og:image", "twitter:image")
        )

    def read_description(self) -> AutoValue | None:
        return self._first_text(
            self._structured_texts("description"), self._meta_texts("og:description", "description")
        )

    def read_category(self) -> AutoValue | None:
        crumb = "BreadcrumbList.itemListElement"
        title = self.read_title()
        for at in (-1, -2):
            for _, text in self._structured_texts(
                f"{crumb}[{at}].name", f"{crumb}[{at}].item.name"
            ):
                if title is None or text.casefold() != title.text.casefold():
                    return AutoValue(text, 0.8)
        return self._first_text(
            self._structured_texts("category"), self._meta_texts("product:category")
        )

    def read_rating(self) -> AutoValue | None:
        for _, text in self._structured_texts("aggregateRating.ratingValue"):
            if _parse_amount(text) is not None:
                return AutoValue(text, 0.9)
        return None

    @staticmethod
    def _first_text(*sources: Iterable[tuple[str, str]]) -> AutoValue | None:
        texts = [pair for source in sources for pair in source]
        if not texts:
            return None
        origin, text = texts[0]
        agree = any(
            other != origin and again.casefold() == text.casefold() for other, again in texts
        )
        return AutoValue(text, 0.95 if agree else 0.8)


_GTIN = re.compile(r"\b(?:EAN|GTIN|UPC|ISBN)(?:-?1[0-4])?\b[\s:.#-]{0,6}(\d{8,14})\b")
_BRAND = re.compile(
    r"(?:^|\n)(?:brand|marke|marque|marca|merk|varumärke|mærke|značka|marka|kaubamärk|бренд)"
    r"\s*[:\n]\s*([^\n:]{2,40})(?:\n|$)",
    re.I,
)
READERS: dict[str, Callable[[AutoReader], AutoValue | None]] = {
    "title": AutoReader.read_title,
    "price": AutoReader.read_price,
    "availability": AutoReader.read_availability,
    "sku": AutoReader.read_sku,
    "gtin": AutoReader.read_gtin,
    "brand": AutoReader.read_brand,
    "category": AutoReader.read_category,
    "image": AutoReader.read_image,
    "description": AutoReader.read_description,
    "rating": AutoReader.read_rating,
}


def _strip_marks(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()


def _parse_amount(text: str) -> Decimal | None:
    """Returns an amount written for machines, with a dot, or for people; else None."""
    if re.fullmatch(r"\d{1,12}(?:\.\d{1,4})?", text):
        try:
            return Decimal(text)
        except InvalidOperation:
            return None
    try:
        return to_price(text)[0]
    except Mistyped:
        return None


def _parse_availability(text: str) -> bool | None:
    try:
        return to_bool(text)
    except Mistyped:
        return None


def _availability_value(available: bool, confidence: float) -> AutoValue:
    return AutoValue("InStock" if available else "OutOfStock", confidence)
