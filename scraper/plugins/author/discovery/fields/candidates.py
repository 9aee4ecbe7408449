"""Where a field may stand on product pages: what is written for machines, what scripts hold, and
what people see, told by its form, its words and its place. Pure.

Nothing is decided here: what a candidate gives on many pages decides
(`scraper.plugins.author.discovery.fields.induction`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import (
    FORMER_WORD,
    PRICE_WORD,
    current_amounts,
    find_amounts,
    is_named_former,
    naming_words,
    read_price,
    walk_visible,
)
from scraper.extract.heuristics.buying import read_buying_label
from scraper.extract.heuristics.labels import Labelled, find_labelled
from scraper.extract.heuristics.state_fields import find_field_paths
from scraper.extract.text import whole_text
from scraper.extract.values import Mistyped, to_bool
from scraper.plugins.author.discovery.css_paths import ancestors, paths
from scraper.plugins.author.discovery.fields.standard import SOURCES
from scraper.plugins.author.discovery.listings.cards import Card
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.css import parse_css

PATHS_MAX = 14
ELEMENTS_MAX = 40
# So many elements of a page are looked at: what it sells stands before that.
PAGE_ELEMENTS_MAX = 6000
WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_FRAME = frozenset({"nav", "footer"})
WORD_OF = {
    "price": PRICE_WORD,
    "list_price": FORMER_WORD,
    "title": re.compile(r"title|titel|titre|titulo|titolo|name|nombre|nome", re.I),
    "availability": re.compile(
        r"stock|avail|instock|lager|verf(?:ue|ü)g|dispo|voorraad|liefer|bestand|sklad", re.I
    ),
    "sku": re.compile(
        r"(?:^|[\s_-])(?:sku|artikel-?n(?:umme)?r|item-?(?:no|number|code)|product-?code|art-?n[ro]"
        r"|ref(?:erence)?)(?:$|[\s_-])",
        re.I,
    ),
    "gtin": re.compile(r"(?:^|[\s_-])(?:gtin\d*|ean\d*|upc|isbn|barcode)(?:$|[\s_-])", re.I),
    "mpn": re.compile(r"(?:^|[\s_-])mpn(?:$|[\s_-])", re.I),
    "brand": re.compile(
        r"brand|maker|marke(?!t)|marque|marca|manufacturer|hersteller|vendor|merk|fabri[ck]ant",
        re.I,
    ),
    "category": re.compile(
        r"(?:^|[\s_-])(?:category|posted_in|kategorie|categorie)(?:$|[\s_-])", re.I
    ),
    "description": re.compile(r"desc|beschreibung|opis|omschrijving|beskrivning|popis", re.I),
    "rating": re.compile(
        r"rating|stars?(?:$|[\s_-])|review|bewertung|(?:^|[\s_-])note|valoraci|punteggio|score"
        r"|betyg|avis",
        re.I,
    ),
}
_ORIGINS = {"jsonld": "json-ld", "microdata": "microdata", "rdfa": "rdfa", "meta": "meta"}
_BREADCRUMB = re.compile(r"crumb|brotkrumen|ariane|migas|kruimel", re.I)
_KEYS = {
    "sku": ("sku", "productSku", "itemNumber", "articleNumber"),
    "gtin": ("gtin13", "gtin", "ean", "barcode"),
    "brand": ("brand", "brandName"),
    "price": ("price", "currentPrice", "salePrice", "final_price"),
    "availability": ("availability", "inStock", "in_stock", "isInStock"),
}
# Attributes of any element that say what they hold.
_ATTRIBUTES = {
    "sku": ("data-sku", "data-product-sku", "data-product_sku", "data-article-number"),
    "gtin": ("data-gtin", "data-ean"),
    "brand": ("data-brand", "data-product-brand"),
}
_STOCK_WORD_MIN = 4
_STARS = re.compile(
    r"(?:rating|stars?|note|bewertung|score)[\s_-]+(one|two|three|four|five|[0-5])\b", re.I
)
_OUT_OF = re.compile(
    r"(\d(?:[.,]\d+)?)\s*(?:/|out of|von|of|sur|de|di|av|su|van|z)\s*(?:5|10|cinq)\b", re.I
)
# Not the cents of a price before it.
_IN_STOCK = re.compile(r"(?<![\d.,])(\d+)\s*(\w+(?: \w+)?)")


class Candidate(NamedTuple):
    """A source as a definition writes it. `origin` is independent of other origins; a low `rank`
    lasts."""

    origin: str
    source: dict[str, Any]
    rank: int


@dataclass(slots=True, eq=False)
class ProductSample:
    """A product page, the listing's word about it, and the elements that tell of other products."""

    document: Document
    card: Card | None
    others: frozenset[int] = frozenset()
    cache: dict[str, Any] = field(default_factory=dict)

    @property
    def elements(self) -> list[LexborNode]:
        """What people see of this product, without the page's frame."""
        if "elements" not in self.cache:
            dom = self.document.dom
            # Of a part of a page it is an element.
            root = dom if isinstance(dom, LexborNode) else dom.root
            frame = {element.mem_id for tag in _FRAME for element in dom.css(tag)}
            listed = walk_visible(root, self.others | frame) if root is not None else ()
            self.cache["elements"] = list(islice(listed, PAGE_ELEMENTS_MAX))
        return self.cache["elements"]  # type: ignore[no-any-return]

    def text(self, element: LexborNode) -> str:
        texts = self.cache.setdefault("texts", {})
        text = texts.get(element.mem_id)
        if text is None:
            text = texts[element.mem_id] = clean_text(whole_text(element))
        return text  # type: ignore[no-any-return]

    @property
    def heading(self) -> str:
        """<title>, which begins or ends with the product's."""
        element = self.document.dom.css_first("title")
        return clean_text(whole_text(element)) if element is not None else ""

    def first(self, css: str) -> int | None:
        element = parse_css(css).first(self.document.dom)
        return element.mem_id if element is not None else None


def candidates(name: str, samples: Iterable[ProductSample]) -> list[Candidate]:
    """The field's candidates on all these pages, each once."""
    unique: dict[str, Candidate] = {}
    for at, source in enumerate(SOURCES.get(name, ())):
        (key,) = source
        if key in _ORIGINS:
            unique[str(source)] = Candidate(_ORIGINS[key], source, at // 4)
    for key in _KEYS.get(name, ()):
        quoted = r'"?([\w.-]+)"?' if name != "brand" else r'"([^"\\]{2,60})"'
        source = {"regex": rf'"{key}"\s*:\s*{quoted}'}
        unique[str(source)] = Candidate("script", source, 8)
    for sample in samples:
        for path, rank in find_field_paths(name, sample.document.state):
            unique.setdefault(path, Candidate("state", {"state": path}, rank))
        for candidate in _visible(name, sample):
            kept = unique.get(str(candidate.source))
            if kept is None or candidate.rank < kept.rank:
                unique[str(candidate.source)] = candidate
    return list(unique.values())


def _visible(name: str, sample: ProductSample) -> Iterator[Candidate]:
    if name == "category":
        yield from _breadcrumbs(sample)
    for field_name, source, element in _labels(sample):
        if field_name == name:
            yield Candidate("label", source, 3)
            if element is not None:
                # What holds the label's element holds the label as well, and may come first.
                for candidate in _sources(sample, [element], paths_max=2, regex=source["regex"]):
                    yield candidate._replace(origin="label")
        elif name == "stock" and field_name == "availability":
            yield Candidate("label", {**source, "regex": r"(\d+)"}, 3)
    match name:
        case "title":
            yield from _sources(sample, _titles(sample))
            heading = sample.document.dom.css_first("h1")
            if heading is not None and any(heading.iter(include_text=False)):
                # The brand may stand in it, in an element of its own.
                yield Candidate("page", {"css": "h1::text"}, 3)
        case "price":
            yield from _sources(sample, _prices(sample))
        case "list_price":
            # Where there is none, that of another product must not take its place.
            yield from _sources(sample, _former_prices(sample), paths_max=3 * PATHS_MAX)
        case "availability":
            stating = _availabilities(sample)
            yield from _sources(sample, stating)
            yield from _by_stock_word(sample, stating)
            yield from _by_button(sample)
        case "stock":
            yield from _stocks(sample)
        case "image":
            yield from _images(sample)
        case "description":
            yield from _sources(sample, _descriptions(sample))
        case "rating":
            yield from _ratings(sample)
        case "sku" | "gtin" | "mpn" | "brand" | "category":
            yield from _sources(sample, _named(sample, name, 80))
            for attribute in _ATTRIBUTES.get(name, ()):
                if sample.document.dom.css_first(f"[{attribute}]") is not None:
                    yield Candidate("page", {"css": f"[{attribute}]::attr({attribute})"}, 4)


def _labels(sample: ProductSample) -> list[Labelled]:
    if "labels" not in sample.cache:
        sample.cache["labels"] = list(find_labelled(sample.document, sample.others))
    return sample.cache["labels"]  # type: ignore[no-any-return]


def _sources(
    sample: ProductSample,
    elements: Iterable[LexborNode],
    suffix: str = "",
    paths_max: int = PATHS_MAX,
    **options: Any,
) -> Iterator[Candidate]:
    """Selectors that match these elements first on their page."""
    for number, element in enumerate(elements):
        if number >= ELEMENTS_MAX:
            return
        kept = 0
        for path in paths(element):
            if sample.first(path.css) != element.mem_id:
                continue
            # What matches once is what is meant; the first of several may be another elsewhere.
            rank = path.rank + (len(sample.document.dom.css(path.css)) > 1)
            own = re.split(r"[\s>+~]+", path.css)[-1]
            origin = "microdata" if own.startswith("[itemprop=") else "page"
            yield Candidate(origin, {"css": path.css + suffix, **options}, rank)
            kept += 1
            if kept >= paths_max:
                break


def _titles(sample: ProductSample) -> Iterator[LexborNode]:
    heading = plain_text(sample.heading)
    card = plain_text(sample.card.title) if sample.card is not None else ""
    for element in sample.elements:
        text = plain_text(sample.text(element)) if len(sample.text(element)) < 300 else ""
        if len(text) > 1 and (element.tag == "h1" or text == card or text in heading):
            yield element


def _prices(sample: ProductSample) -> Iterator[LexborNode]:
    root = sample.document.dom.root
    if root is None:
        return
    inside = {element.mem_id for element in sample.elements}
    listed = [
        amount for amount in find_amounts(root, sample.others) if amount.element.mem_id in inside
    ]
    for amount in current_amounts(listed):
        yield amount.element
        for ancestor in ancestors(amount.element, 3):
            price = read_price(ancestor)
            if price is None or price[0] != amount.value:
                break
            yield ancestor


def _former_prices(sample: ProductSample) -> Iterator[LexborNode]:
    """Struck amounts beside one that is not."""
    root = sample.document.dom.root
    if root is None:
        return
    listed = find_amounts(root, sample.others)
    current = [amount.element for amount in listed if not amount.struck]
    beside = {ancestor.mem_id for element in current for ancestor in ancestors(element, 5)}
    for amount in listed:
        if amount.struck and any(up.mem_id in beside for up in ancestors(amount.element, 5)):
            yield amount.element
            for ancestor in ancestors(amount.element, 4):
                if is_named_former(ancestor, itself=False):
                    yield ancestor


def _availabilities(sample: ProductSample) -> list[LexborNode]:
    """Elements that say whether it may be had, and nothing else."""
    saying: list[LexborNode] = []
    more: set[int] = set()
    for element in sample.elements:
        text = sample.text(element)
        if not 4 < len(text) <= 80 or text.isdigit() or element.tag == "body":
            continue
        try:
            to_bool(text)
        except Mistyped:
            continue
        saying.append(element)
        more |= {up.mem_id for up in ancestors(element, 4) if sample.text(up) != text}
    return [element for element in saying if element.mem_id not in more]


def _by_stock_word(sample: ProductSample, stating: Sequence[LexborNode]) -> Iterator[Candidate]:
    """Where nothing but its words marks the place: "lieferbar" is in "nicht lieferbar" as well."""
    for element in stating[:ELEMENTS_MAX]:
        for word in re.findall(r"[^\W\d_]+", sample.text(element)):
            css = f'{element.tag}:contains("{word}")'
            if len(word) >= _STOCK_WORD_MIN and sample.first(css) == element.mem_id:
                yield Candidate("page", {"css": css}, 7)


def _by_button(sample: ProductSample) -> Iterator[Candidate]:
    """A button that says something else where there is nothing to buy."""
    for element in sample.elements:
        label = read_buying_label(element) if element.tag in ("button", "a") else None
        if label is not None:
            for candidate in _sources(
                sample, [element], paths_max=3, when=re.escape(label).replace("\\ ", " ")
            ):
                yield candidate._replace(rank=candidate.rank + 8)


def _stocks(sample: ProductSample) -> Iterator[Candidate]:
    for element in _availabilities(sample):
        text = sample.text(element)
        match = _IN_STOCK.search(text)
        if match is None:
            continue
        before = re.escape(text[: match.start()][-1:]).strip()
        regex = rf"{before}(\d+) {re.escape(match[2].split()[0])}"
        yield from _sources(sample, [element], regex=regex)


def _named(sample: ProductSample, name: str, most: int) -> Iterator[LexborNode]:
    word = WORD_OF[name]
    for element in sample.elements:
        text = sample.text(element)
        if 0 < len(text) <= most and word.search(naming_words(element)):
            yield element
            for inner in walk_visible(element):
                if sample.text(inner):
                    yield inner


def _images(sample: ProductSample) -> Iterator[Candidate]:
    card = plain_text(sample.card.title) if sample.card is not None else ""
    heading = plain_text(sample.heading)
    image_of_card = file_of(sample.card.image) if sample.card and sample.card.image else None
    for element in sample.elements:
        if element.tag != "img":
            continue
        attributes = element.attributes
        text = plain_text(attributes.get("alt") or "")
        for attribute in ("data-zoom-image", "data-large_image", "data-src", "src"):
            source = attributes.get(attribute)
            if not source or source.startswith("data:"):
                continue
            if (len(text) > 2 and (text == card or text in heading)) or (
                image_of_card is not None and file_of(source) == image_of_card
            ):
                yield from _sources(sample, [element], f"::attr({attribute})")
                break


def _descriptions(sample: ProductSample) -> Iterator[LexborNode]:
    """Long texts: those that call themselves so, follow such a heading, or say more of what the
    meta tag begins with."""
    element = sample.document.dom.css_first(
        'meta[name=description], meta[property="og:description"]'
    )
    meta = plain_text((element.attributes.get("content") or "") if element is not None else "")[:40]
    word = WORD_OF["description"]
    for element in sample.elements:
        text = sample.text(element)
        if len(text) < 40:
            continue
        before = element.prev
        while before is not None and before.is_text_node:
            before = before.prev
        headed = (
            before is not None
            and before.is_element_node
            and (word.search(naming_words(before)) or word.search(sample.text(before)[:40]))
        )
        if (
            headed
            or word.search(naming_words(element))
            or (meta and plain_text(text).startswith(meta))
        ):
            yield element


def _ratings(sample: ProductSample) -> Iterator[Candidate]:
    word = WORD_OF["rating"]
    seen = 0
    for element in sample.elements:
        attributes = element.attributes
        if not word.search(naming_words(element)) and not any(
            word.search(naming_words(up)) for up in ancestors(element, 1)
        ):
            continue
        seen += 1
        if seen > ELEMENTS_MAX:
            return
        classes = attributes.get("class") or ""
        match = _STARS.search(classes)
        if match is not None:
            prefix = re.escape(classes[match.start() : match.start(1)]).replace("\\-", "-")
            options: dict[str, Any] = {"regex": rf"{prefix}(\w+)".replace(r"\ ", " ")}
            if not match[1].isdigit():
                spelled = str.lower if match[1].islower() else str.title
                options["map"] = {spelled(name): number for name, number in WORDS.items()}
            yield from _sources(sample, [element], "::attr(class)", **options)
        for attribute in (
            "data-rating",
            "data-score",
            "data-value",
            "aria-label",
            "title",
            "content",
        ):
            text = attributes.get(attribute) or ""
            if re.fullmatch(r"[0-5](?:[.,]\d+)?", text.strip()):
                yield from _sources(sample, [element], f"::attr({attribute})")
            elif _OUT_OF.search(text):
                yield from _sources(sample, [element], f"::attr({attribute})", regex=_out_of(text))
        text = sample.text(element)
        if len(text) <= 60 and (re.fullmatch(r"[0-5][.,]\d+", text) or _OUT_OF.search(text)):
            options = {} if not _OUT_OF.search(text) else {"regex": _out_of(text)}
            yield from _sources(sample, [element], **options)


def _out_of(text: str) -> str:
    match = _OUT_OF.search(text)
    assert match is not None
    behind = text[match.end(1) : match.end()]
    return r"(\d(?:[.,]\d+)?)" + re.escape(behind).replace(r"\ ", r"\s*")


_PLACES_FROM_END = (
    *(f"nth-last-child({number})" for number in (1, 2, 3)),
    *(f"nth-last-of-type({number})" for number in (1, 2)),
)


def _breadcrumbs(sample: ProductSample) -> Iterator[Candidate]:
    """The last link of the way here that is not the page itself."""
    for element in sample.document.dom.css("nav, ol, ul, div, p, section"):
        attributes = element.attributes
        words = f"{naming_words(element)} {attributes.get('aria-label') or ''}"
        if not _BREADCRUMB.search(words) or len(clean_text(whole_text(element))) > 400:
            continue
        links = [link for link in element.css("a") if clean_text(whole_text(link))]
        for link in links[-2:]:
            yield from _sources(sample, [link])
            parent = link.parent
            if parent is None or parent.mem_id == element.mem_id:
                parent = link
            tag = parent.tag
            inner = "" if parent.mem_id == link.mem_id else " a"
            for above in paths(element)[:3]:
                for place in _PLACES_FROM_END:
                    css = f"{above.css} {tag}:{place}{inner}"
                    if sample.first(css) == link.mem_id:
                        yield Candidate("page", {"css": css}, above.rank + 1)


def plain_text(text: str) -> str:
    """Letters and digits alone, for comparing."""
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


def file_of(url: str) -> str:
    """An image's name without its size, which differs from page to page."""
    name = url.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    return re.sub(
        r"[-_]?(?:\d+x\d*|x\d+|thumb(?:nail)?|small|medium|large|zoom)?\.\w+$", "", name
    ).casefold()
