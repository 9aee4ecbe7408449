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

from selectolax.lexbor import LexborNode

from scraper.extract import jsonld
from scraper.extract.money import to_price
from scraper.extract.structured.amounts import (
    Amount,
    amounts,
    elements_of,
    short_text,
    words_of,
)
from scraper.extract.structured.codes import labelled_codes
from scraper.extract.structured.stock_words import says_available
from scraper.extract.text import whole_text
from scraper.extract.values import Mistyped, to_bool
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.fields import STRUCTURED
from scraper.sites.grammar.selectors import parse_jsonld

if TYPE_CHECKING:
    from scraper.extract.document import Document

AMOUNTS_MAX = 400
TEXT_MAX = 400_000
_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_FRAME = frozenset({"nav", "footer", "aside"})
_PRICE = re.compile(r"price|preis|prix|precio|prezzo|prijs|cena|pris|cost|amount", re.I)
_CURRENT = re.compile(
    r"current|now|sale|final|special|actual|main|product|offer|our|angebot|neu|nuevo|detail", re.I
)
_ELSE = re.compile(
    r"ship|deliver|versand|liefer|livraison|env[ií]o|spedizione|verzend"
    r"|install?ment|month|monat|mois"
    r"|mes\b|rata|raten|finanz|credit|kredit|saving|save|discount|rabat"
    r"|coupon|voucher|points|cart"
    r"|basket|unit|grundpreis|per-|warranty|insurance|related|recommend"
    r"|similar|upsell|cross|recent"
    r"|carousel|slider|swiper|bundle|accessor|menu|header|footer|nav|filter"
    r"|facet|free|min-order",
    re.I,
)
_BUY = re.compile(
    r"(?:add (?:to|into) (?:your )?(?:cart|basket|bag|trolley|trolly)|buy(?: it)? now|add to order"
    r"|in den (?:warenkorb|einkaufswagen)|(?:jetzt )?kaufen|ajouter au panier|acheter"
    r"|(?:añadir|agregar|adicionar|aggiungi)(?: al?| ao)? (?:carrito|cesta|bolsa|carrello|carrinho)"
    r"|comprar(?: ahora| agora)?|acquista|acquista ora|in winkel(?:wagen|mand)"
    r"|bestellen"
    r"|lägg i (?:varukorg|kundvagn)(?:en)?|köp|læg i kurv|legg i handlekurv"
    r"|lisää ostoskoriin|lisa korvi"
    r"|do koszyka|dodaj do koszyka|kup teraz|do košíku|vložit do košíku"
    r"|do košíka|vložiť do košíka|kúpiť"
    r"|kosárba|adaug[aă] [iî]n co[sș]|cumpăra|dodaj u ko[sš]aricu|u košaricu"
    r"|kupi|lisa ostukorvi"
    r"|ielikt grozā|pirkt|grozā|pievienot grozam|į krepšelį|sepete ekle"
    r"|satın al|в корзину|купить"
    r"|добавить в корзину|구매하기|장바구니|바로구매|구매"
    r"|カートに入れる|加入购物车|立即购买"
    r"|أضف (?:إلى|الى) (?:السلة|الحقيبة)"
    r"|اشتر الآن|place bid|start order|comprar entradas?)",
    re.I,
)
# What stands on a button where there is nothing to buy yet.
_NOTIFY = re.compile(r"notify me(?: when.*)?[.!]?", re.I)
# A template's hole that nothing was put in, or a word for nothing.
_HOLE = re.compile(r"\{\{|\$\{?\w+\}?$|%\w+%$|(?:null|undefined|none|n/a|nan|-+)$", re.I)
# What shops call the button, whatever its text.
_CART = ", ".join(
    f"{tag}[{attribute}*={name} i]"
    for tag in ("button", "input", "a")
    for attribute in ("id", "class", "name")
    for name in (
        "addtocart",
        "add-to-cart",
        "add_to_cart",
        "addtobasket",
        "add-to-basket",
        "buynow",
    )
)
_STOCK = re.compile(r"stock|avail|lager|verf|dispo|voorraad|sklad|stoc|laos", re.I)


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
        shown = self._shown_prices()
        top = shown[0] if shown else None
        visible = {amount.value for amount in self._amounts}
        struck = {amount.value for amount in self._amounts if amount.struck}
        votes: Counter[Decimal] = Counter()
        for origin_values in given.values():
            for value in origin_values[:1]:
                votes[value] += 1
        currency = self._currency()
        if not votes:
            if top is None:
                return None
            score, amount = top
            sure = 0.8 if score >= 8 else 0.65 if score >= 5 else 0.4
            return self._answer_of(amount.value, amount.currency or currency, sure)
        value, origins = votes.most_common(1)[0]
        if top is not None and top[1].value == value:
            sure = 0.97 if origins == 1 else 0.99
            return self._answer_of(value, currency or top[1].currency, sure)
        if top is not None and any(top[1].value in values for values in given.values()):
            return self._answer_of(top[1].value, top[1].currency or currency, 0.85)
        if value in visible - struck:
            return self._answer_of(value, currency, 0.9 if origins > 1 else 0.85)
        if top is not None and top[0] >= 7 and (value in struck or top[1].value < value):
            # What is crossed out, or not to be seen, is a former price.
            return self._answer_of(top[1].value, top[1].currency or currency, 0.6)
        return self._answer_of(value, currency, 0.75 if origins == 1 else 0.85)

    def _answer_of(self, value: Decimal, currency: str | None, confidence: float) -> Answer:
        # With two decimals nobody takes the dot for a separator of thousands.
        return Answer(f"{value:.2f} {currency or ''}".strip(), confidence)

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

    def _shown_prices(self) -> list[tuple[float, Amount]]:
        """What people may take for the price, the likeliest first."""
        listed = self._listed
        order = {amount.element.mem_id: at for at, amount in enumerate(self._amounts)}
        first_behind = self._before_heading
        times = Counter(amount.value for amount in self._amounts)
        scored = []
        for amount in self._amounts:
            if amount.value <= 0:
                continue
            at = order[amount.element.mem_id] - first_behind
            score = 0.0 if at < 0 else max(0.0, 4.0 - at * 0.7)
            words = _words_around(amount.element)
            score += 3 if _PRICE.search(words[0]) else 1.5 if _PRICE.search(words[1]) else 0
            score += 1.5 if _CURRENT.search(words[0]) else 0
            score += 1 if amount.currency is not None else 0
            score += 0.5 if times[amount.value] > 1 else 0
            score -= 5 if amount.struck else 0
            score -= 4 if amount.element.mem_id in listed else 0
            score -= 3 if _ELSE.search(words[0]) else 1.5 if _ELSE.search(words[1]) else 0
            score -= 3 if words[2] else 0
            scored.append((score, amount))
        return sorted(scored, key=lambda pair: -pair[0])

    @cached_property
    def _listed(self) -> set[int]:
        """Amounts of lists: three and more in like places, of different values."""
        places: dict[tuple[str, ...], list[Amount]] = defaultdict(list)
        for amount in self._amounts:
            places[_place(amount.element)].append(amount)
        return {
            amount.element.mem_id
            for group in places.values()
            if len(group) >= 3 and len({amount.value for amount in group}) >= 3
            for amount in group
        }

    @cached_property
    def _before_heading(self) -> int:
        """How many amounts stand before the page's heading."""
        body, heading = self._document.dom.body, self._document.dom.css_first("h1")
        if body is None or heading is None:
            return 0
        waiting = {amount.element.mem_id for amount in self._amounts}
        before = 0
        for element in elements_of(body):
            if element.mem_id == heading.mem_id:
                return before
            before += element.mem_id in waiting
        return 0

    def availability(self) -> Answer | None:
        offered = [_offered(text) for _, text in self._structured("offers.availability")]
        offered += [
            _offered(text) for _, text in self._metas("product:availability", "og:availability")
        ]
        given = [state for state in offered if state is not None]
        buyable, sold = self._buttons()
        shown = self._stock_text()
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
        if any("disabled" not in button.attributes for button in self._document.dom.css(_CART)):
            return _state(True, 0.6)
        return None

    def _buttons(self) -> tuple[bool, bool]:
        """Whether there is something to press that buys, and whether something says that there is
        nothing to buy."""
        buyable = sold = False
        for element in self._document.dom.css("button, a, input, [role=button]"):
            attributes = element.attributes
            text = short_text(element, 40)
            labels = (text, *(attributes.get(key) for key in ("value", "title", "aria-label")))
            for label in labels:
                if label and len(label) <= 40:
                    pressed = "disabled" not in attributes
                    buyable |= bool(_BUY.search(label)) and pressed
                    denied = says_available(label.casefold()) is False
                    sold |= denied or _NOTIFY.fullmatch(label) is not None
        return buyable, sold

    def _stock_text(self) -> bool | None:
        """What elements say that call themselves stock or availability."""
        for element in self._document.dom.css(
            "[class*=stock i], [class*=avail i], [id*=stock i], [id*=avail i], [class*=lager i],"
            " [class*=dispo i], [class*=sklad i]"
        )[:40]:
            text = short_text(element, 60)
            if len(text) <= 3:
                continue
            try:
                return to_bool(text)
            except Mistyped:
                continue
        return None

    def sku(self) -> Answer | None:
        given = [text for _, text in (*self._structured("sku", "offers.sku", "productID"),
                                      *self._metas("product:retailer_item_id"))]  # fmt: skip
        given = [text for text in given if len(text) <= 64]
        address = re.sub(r"\W", "", self._document.page_url).casefold()
        best: tuple[float, str] | None = None
        for at, code in enumerate(labelled_codes(self._text)):
            score = (3 if code.strong else 1) - min(at, 10) * 0.1
            score += 2 if re.sub(r"\W", "", code.text).casefold() in address else 0
            score += 3 if code.text in given else 0
            if best is None or score > best[0]:
                best = score, code.text
        if best is not None and best[0] >= 2.5:
            return Answer(best[1], 0.97 if best[1] in given else 0.85 if best[0] > 4 else 0.7)
        if given:
            return Answer(given[0], 0.6)
        if best is not None:
            return Answer(best[1], 0.4)
        return None

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


def is_gtin(text: str) -> bool:
    """Whether the check digit is right (GS1 General Specifications, 7.9)."""
    digits = re.sub(r"[\s-]", "", text)
    if re.fullmatch(r"\d{8}|\d{12,14}", digits) is None:
        return False
    total = sum(
        int(digit) * (3 if at % 2 == 0 else 1) for at, digit in enumerate(reversed(digits[:-1]))
    )
    return (10 - total % 10) % 10 == int(digits[-1])


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


def _words_around(element: LexborNode) -> tuple[str, str, bool]:
    """What the element says of itself, what those around it say, and whether it is in the page's
    frame."""
    near, far, framed = words_of(element), "", False
    at, level = element.parent, 0
    while at is not None and level < 8:
        if level < 2:
            near += " " + words_of(at)
        elif level < 5:
            far += " " + words_of(at)
        framed = framed or at.tag in _FRAME
        at, level = at.parent, level + 1
    return near, far, framed


def _place(element: LexborNode) -> tuple[str, ...]:
    names = []
    at: LexborNode | None = element
    for _ in range(6):
        if at is None:
            break
        names.append(f"{at.tag}.{(at.attributes.get('class') or '').partition(' ')[0]}")
        at = at.parent
    return tuple(names)
