"""`auto` as a source: the usual fields of a product page, by what its independent sources agree
on: JSON-LD, microdata, meta tags, and what people see. Each answer has a confidence. Pure, and
linear in the page.

It knows nothing of the shop. What a definition says of its own page is surer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from scraper.extract.heuristics.amounts import Amount, amounts
from scraper.extract.heuristics.buying import (
    buttons_of,
    has_cart_button,
    said_in,
    stock_text,
)
from scraper.extract.heuristics.codes import (
    is_gtin,
    labelled_codes,
    named_codes,
    sent_code,
)
from scraper.extract.heuristics.shown_price import shown_prices
from scraper.extract.heuristics.state_fields import currencies, field_paths
from scraper.extract.money import THOUSANDTHS, to_price
from scraper.extract.structured import jsonld
from scraper.extract.text import whole_text
from scraper.extract.values import Mistyped, to_bool
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.selectors import parse_json, parse_jsonld
from scraper.sites.grammar.sources import STRUCTURED

if TYPE_CHECKING:
    from scraper.extract.document import Document

AMOUNTS_MAX = 400
TEXT_MAX = 400_000
CODE_MAX = 64
# With a lower score what is shown is hardly the price, or may be another's.
WEAK, SURE = 2.0, 5.0
_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head"})
# A template's hole that nothing was put in, or a word for nothing.
_HOLE = re.compile(r"\{\{|\$\{?\w+\}?$|%\w+%$|(?:null|undefined|none|n/a|nan|-+)$", re.I)


class Answer(NamedTuple):
    """A text that a field's type can read, and how sure it is, from 0 to 1."""

    text: str
    confidence: float


class AutoReader:
    """Reads one page, each field when it is asked for."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._answers: dict[str, Answer | None] = {}

    def read(self, field: str) -> Answer | None:
        if field not in self._answers:
            self._answers[field] = READERS[field](self)
            self._document.patience.check(f"auto: {field}")
        return self._answers[field]

    def _structured(self, *paths: str) -> Iterator[tuple[str, str]]:
        """(origin, text) at these paths of JSON-LD, microdata and RDFa."""
        for path in paths:
            parsed = parse_jsonld(path)
            for origin in STRUCTURED:
                nodes = getattr(self._document, origin)
                for text in jsonld.values(nodes, parsed, False):
                    clean = clean_text(text)
                    if clean and not _HOLE.match(clean):
                        yield origin, clean

    def _metas(self, *names: str) -> Iterator[tuple[str, str]]:
        for name in names:
            for text in self._document.metas.get(name, ())[:1]:
                if clean := clean_text(text):
                    yield "meta", clean

    @cached_property
    def _text(self) -> str:
        """What people see, a line for each text."""
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
        return amounts(body)[:AMOUNTS_MAX] if body is not None else []

    def price(self) -> Answer | None:
        given = self._given_prices()
        shown = shown_prices(self._document.dom, self._amounts)
        score, top = shown[0] if shown else (0.0, None)
        visible = {amount.value for amount in self._amounts}
        struck = {amount.value for amount in self._amounts if amount.struck}
        votes: Counter[Decimal] = Counter()
        for origin_values in given.values():
            for value in origin_values[:1]:
                votes[value] += 1
        currency = self._currency()
        if not votes:
            if score < SURE and (of_state := self._price_of_state()) is not None:
                return of_state
            if top is None or score < WEAK:
                return None
            sure = 0.8 if score >= 8 else 0.65 if score >= SURE else 0.4
            return self._answer_of(top.value, top.currency or currency, sure)
        value, origins = votes.most_common(1)[0]
        if top is not None and top.value == value:
            sure = 0.97 if origins == 1 else 0.99
            return self._answer_of(value, currency or top.currency, sure)
        if top is not None and any(top.value in values for values in given.values()):
            return self._answer_of(top.value, top.currency or currency, 0.85)
        if value in visible - struck:
            return self._answer_of(value, currency, 0.9 if origins > 1 else 0.85)
        former = value in struck and top is not None and top.value < value and score >= WEAK
        if top is not None and (former or (score >= 7 and top.value < value)):
            # What is crossed out, or not to be seen, is a former price.
            return self._answer_of(top.value, top.currency or currency, 0.6)
        return self._answer_of(value, currency, 0.75 if origins == 1 else 0.85)

    def _price_of_state(self) -> Answer | None:
        for text in self._state("price"):
            value = _number(text)
            if value is not None and value > 0:
                currency = next(currencies(self._document.state), None)
                # Whole numbers may be cents.
                return self._answer_of(value, currency, 0.6 if "." in text else 0.3)
        return None

    def _state(self, field: str) -> Iterator[str]:
        """What the JSON that scripts start from has of the field, the likeliest first."""
        documents = self._document.state
        for path in sorted(field_paths(field, documents), key=lambda path: path.rank):
            for text in jsonld.within(documents, parse_json(path.path)):
                if (clean := clean_text(text)) and not _HOLE.match(clean):
                    yield clean

    def _answer_of(self, value: Decimal, currency: str | None, confidence: float) -> Answer:
        # With two decimals nobody takes the dot for a separator of thousands.
        digits = 3 if currency in THOUSANDTHS else 2
        return Answer(f"{value:.{digits}f} {currency or ''}".strip(), confidence)

    def _given_prices(self) -> dict[str, list[Decimal]]:
        """By origin, as they are written for machines."""
        given: dict[str, list[Decimal]] = defaultdict(list)
        for origin, text in (
            *self._structured("offers.price", "offers.lowPrice"),
            *self._metas(
                "product:sale_price:amount", "product:price:amount", "og:price:amount", "price"
            ),
        ):
            value = _number(text)
            if value is not None and value > 0:
                given[origin].append(value)
        return given

    def _currency(self) -> str | None:
        for _, text in (
            *self._structured("offers.priceCurrency"),
            *self._metas("product:price:currency", "og:price:currency"),
        ):
            if re.fullmatch(r"[A-Za-z]{3}", text):
                return text.upper()
        return None

    def availability(self) -> Answer | None:
        offered = [_offered(text) for _, text in self._structured("offers.availability")]
        offered += [
            _offered(text) for _, text in self._metas("product:availability", "og:availability")
        ]
        given = [state for state in offered if state is not None]
        buyable, dead, sold = buttons_of(self._document.dom)
        shown = stock_text(self._document.dom)
        if given:
            # Of several offers one is enough.
            state = any(given)
            if shown is not None and shown != state:
                return _state(state or buyable, 0.6)
            if not state and buyable and not sold:
                return _state(True, 0.6)
            return _state(state, 0.97 if buyable == state or shown == state else 0.9)
        if shown is not None:
            return _state(shown, 0.9 if buyable == shown else 0.75)
        if sold and not buyable:
            return _state(False, 0.7)
        if buyable:
            return _state(True, 0.8)
        if (stated := said_in(self._text)) is not None:
            return _state(stated, 0.6)
        if dead:
            return _state(False, 0.5)
        if has_cart_button(self._document.dom):
            return _state(True, 0.6)
        states = map(_offered, self._state("availability"))
        stated = next((state for state in states if state is not None), None)
        return _state(stated, 0.6) if stated is not None else None

    def sku(self) -> Answer | None:
        given = [text for _, text in (*self._structured("sku", "offers.sku", "productID"),
                                      *self._metas("product:retailer_item_id"))]  # fmt: skip
        given = [text for text in given if len(text) <= CODE_MAX]
        best: tuple[float, str] | None = None
        codes = labelled_codes(self._text), named_codes(self._document.dom)
        for at, code in (pair for listed in codes for pair in enumerate(listed)):
            score = (3 if code.strong else 1) - min(at, 10) * 0.1
            score += 2 if _bare(code.text) in self._address else 0
            score += 3 if code.text in given else 0
            if best is None or score > best[0]:
                best = score, code.text
        if best is not None and best[0] >= 2.5:
            return Answer(best[1], 0.97 if best[1] in given else 0.85 if best[0] > 4 else 0.7)
        if given:
            return Answer(given[0], 0.6)
        if best is not None:
            return Answer(best[1], 0.4)
        sent = sent_code(self._document.dom) or next(self._state("sku"), None)
        return Answer(sent, 0.4) if sent is not None and len(sent) <= CODE_MAX else None

    @cached_property
    def _address(self) -> str:
        """The page's own, and what it says that it is."""
        link = self._document.dom.css_first("link[rel=canonical]")
        canonical = link.attributes.get("href") if link is not None else None
        metas = (text for _, text in self._metas("og:url"))
        return " ".join(map(_bare, (self._document.page_url, canonical or "", *metas)))

    def gtin(self) -> Answer | None:
        names = ("gtin13", "gtin", "gtin14", "gtin12", "gtin8", "ean", "isbn")
        paths = (*names, *(f"offers.{name}" for name in names))
        given = [text for _, text in (*self._structured(*paths), *self._metas("product:ean"))]
        for text in given:
            if is_gtin(text):
                return Answer(re.sub(r"\D", "", text), 0.95)
        match = _GTIN.search(self._text)
        if match is not None and is_gtin(match[1]):
            return Answer(match[1], 0.8)
        return None

    def brand(self) -> Answer | None:
        return (
            self._first(
                self._structured("brand.name", "manufacturer.name"),
                self._metas("product:brand", "og:brand"),
            )
            or self._labelled_brand()
        )

    def _labelled_brand(self) -> Answer | None:
        match = _BRAND.search(self._text)
        return Answer(clean_text(match[1]), 0.5) if match is not None else None

    def title(self) -> Answer | None:
        heading = self._document.dom.css_first("h1")
        seen = clean_text(whole_text(heading)) if heading is not None else ""
        given = [text for _, text in (*self._structured("name"), *self._metas("og:title"))]
        for text in given:
            if seen and (text.casefold() == seen.casefold()):
                return Answer(seen, 0.97)
        if given:
            return Answer(given[0], 0.8)
        if seen:
            return Answer(seen, 0.7)
        element = self._document.dom.css_first("title")
        named = clean_text(whole_text(element)) if element is not None else ""
        # A shop's own name stands behind a bar or a dash.
        first = re.split(r"\s+[|–—•·-]\s+", named)[0]
        return Answer(first, 0.4) if first else None

    def image(self) -> Answer | None:
        return self._first(self._structured("image"), self._metas("og:image", "twitter:image"))

    def description(self) -> Answer | None:
        return self._first(
            self._structured("description"), self._metas("og:description", "description")
        )

    def category(self) -> Answer | None:
        crumb = "BreadcrumbList.itemListElement"
        title = self.title()
        for at in (-1, -2):
            for _, text in self._structured(f"{crumb}[{at}].name", f"{crumb}[{at}].item.name"):
                if title is None or text.casefold() != title.text.casefold():
                    return Answer(text, 0.8)
        return self._first(self._structured("category"), self._metas("product:category"))

    def rating(self) -> Answer | None:
        for _, text in self._structured("aggregateRating.ratingValue"):
            if _number(text) is not None:
                return Answer(text, 0.9)
        return None

    @staticmethod
    def _first(*sources: Iterable[tuple[str, str]]) -> Answer | None:
        texts = [pair for source in sources for pair in source]
        if not texts:
            return None
        origin, text = texts[0]
        agree = any(
            other != origin and again.casefold() == text.casefold() for other, again in texts
        )
        return Answer(text, 0.95 if agree else 0.8)


_GTIN = re.compile(r"\b(?:EAN|GTIN|UPC|ISBN)(?:-?1[0-4])?\b[\s:.#-]{0,6}(\d{8,14})\b")
_BRAND = re.compile(
    r"(?:^|\n)(?:brand|marke|marque|marca|merk|varumärke|mærke|značka|marka|kaubamärk|бренд)"
    r"\s*[:\n]\s*([^\n:]{2,40})(?:\n|$)",
    re.I,
)
READERS: dict[str, Callable[[AutoReader], Answer | None]] = {
    "title": AutoReader.title,
    "price": AutoReader.price,
    "availability": AutoReader.availability,
    "sku": AutoReader.sku,
    "gtin": AutoReader.gtin,
    "brand": AutoReader.brand,
    "category": AutoReader.category,
    "image": AutoReader.image,
    "description": AutoReader.description,
    "rating": AutoReader.rating,
}


def _bare(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()


def _number(text: str) -> Decimal | None:
    """An amount that machines read: with a dot, or as people write it."""
    if re.fullmatch(r"\d{1,12}(?:\.\d{1,4})?", text):
        try:
            return Decimal(text)
        except InvalidOperation:
            return None
    try:
        return to_price(text)[0]
    except Mistyped:
        return None


def _offered(text: str) -> bool | None:
    try:
        return to_bool(text)
    except Mistyped:
        return None


def _state(available: bool, confidence: float) -> Answer:
    return Answer("InStock" if available else "OutOfStock", confidence)
