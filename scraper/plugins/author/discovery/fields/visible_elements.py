"""The elements of a product page that may show a field, by their words, their form and their place.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode

from scraper.extract.heuristics.amounts import (
    FORMER_WORD,
    PRICE_WORD,
    Amount,
    current_amounts,
    find_amounts,
    is_hidden,
    is_named_former,
    is_unshown,
    naming_words,
    read_price,
    walk_visible,
)
from scraper.extract.text import whole_text
from scraper.extract.values import Mistyped, to_bool
from scraper.plugins.author.discovery.addresses import split_address
from scraper.plugins.author.discovery.css_paths import ancestors, element_before
from scraper.plugins.author.discovery.fields.samples import ProductSample, plain_text
from scraper.rules.decoding import clean_text

# What classes and ids call an element that holds the field, in the languages of shops.
WORDS_OF_FIELDS = {
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
_BREADCRUMB = re.compile(r"crumb|brotkrumen|ariane|migas|kruimel", re.I)
TITLE_CHARS_MAX = 300
# A text of a few words about stock. Shorter ones are codes, longer ones are paragraphs.
STOCK_TEXT_CHARS = range(5, 81)
NAMED_TEXT_CHARS_MAX = 80
DESCRIPTION_CHARS_MIN = 40
BREADCRUMB_CHARS_MAX = 400
_SILENT = frozenset({"script", "style", "template"})
# A list with this number of links is a menu; a product is in fewer categories.
MENU_LEVELS, MENU_LINKS_MIN = 4, 3


def find_titles(sample: ProductSample) -> Iterator[LexborNode]:
    heading = plain_text(sample.heading)
    card = plain_text(sample.card.title) if sample.card is not None else ""
    for element in sample.elements:
        text = sample.text(element)
        text = plain_text(text) if len(text) < TITLE_CHARS_MAX else ""
        if len(text) > 1 and (element.tag == "h1" or text == card or text in heading):
            yield element


def find_prices(sample: ProductSample) -> Iterator[LexborNode]:
    """Yields each current amount, and the elements around it that hold no other amount."""
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
            price = read_price(ancestor) if ancestor.css_first("h1") is None else None
            if price is None or price[0] != amount.value:
                break
            yield ancestor


def find_former_prices(sample: ProductSample) -> Iterator[LexborNode]:
    """Yields struck amounts near one that is not struck."""
    root = sample.document.dom.root
    if root is None:
        return
    listed = find_amounts(root, sample.others)
    around_current = {
        ancestor.mem_id
        for amount in listed
        if not amount.struck
        for ancestor in ancestors(amount.element, 5)
    }
    for amount in listed:
        if amount.struck and (
            _stands_in_price(amount)
            or any(ancestor.mem_id in around_current for ancestor in ancestors(amount.element, 5))
        ):
            yield amount.element
            for ancestor in ancestors(amount.element, 4):
                if is_named_former(ancestor, itself=False):
                    yield ancestor


def _stands_in_price(amount: Amount) -> bool:
    """Returns whether the text around the amount has a lower price, without an element of its own:
    `<div>$9 <span class="original-price">$12</span></div>`."""
    around = [read_price(ancestor) for ancestor in ancestors(amount.element, 2)]
    return any(price is not None and price[0] < amount.value for price in around)


def find_availabilities(sample: ProductSample) -> list[LexborNode]:
    """Returns the elements that say only whether the product is available."""
    stating: list[LexborNode] = []
    # Elements whose text goes on after the statement.
    longer: set[int] = set()
    for element in sample.elements:
        text = sample.text(element)
        if len(text) not in STOCK_TEXT_CHARS or text.isdigit() or element.tag == "body":
            continue
        if reads_as_bool(text) is None or not shows_availability(element):
            continue
        stating.append(element)
        longer |= {up.mem_id for up in ancestors(element, 4) if sample.text(up) != text}
    return [element for element in stating if element.mem_id not in longer]


def shows_availability(element: LexborNode) -> bool:
    """Returns whether what is shown of the element says what all its text says: shops hide such
    words as "Last items in stock!", and a script shows them for another variant."""
    if is_hidden(element):
        return False
    stated = reads_as_bool(clean_text(whole_text(element)))
    return stated is None or stated is reads_as_bool(_read_shown(element))


def reads_as_bool(text: str) -> bool | None:
    try:
        return to_bool(text)
    except Mistyped:
        return None


def _read_shown(element: LexborNode) -> str:
    parts: list[str] = []
    stack = [element.iter(include_text=True)]
    while stack:
        for child in stack[-1]:
            if child.is_text_node:
                parts.append(child.text_content or "")
            elif child.is_element_node and child.tag not in _SILENT and not is_unshown(child):
                parts.append(" ")
                stack.append(child.iter(include_text=True))
                break
        else:
            stack.pop()
            parts.append(" ")
    return clean_text("".join(parts))


def find_named_elements(sample: ProductSample, name: str) -> Iterator[LexborNode]:
    """Yields elements with a short text whose class or id names the field, and their parts."""
    word = WORDS_OF_FIELDS[name]
    for element in sample.elements:
        text = sample.text(element)
        if 0 < len(text) <= NAMED_TEXT_CHARS_MAX and word.search(naming_words(element)):
            for part in (element, *walk_visible(element)):
                if sample.text(part) and not (name == "category" and _is_of_menu(part)):
                    yield part


def _is_of_menu(element: LexborNode) -> bool:
    """Returns whether the element holds several links, or is in a list of the shop's categories,
    which is on each page."""
    if len(element.css("a[href]")) > 1:
        return True
    for above in (element, *ancestors(element, MENU_LEVELS)):
        lists = above.parent if above.tag == "li" else None
        if above.tag == "aside":
            return True
        if lists is not None and len(lists.css("li a")) >= MENU_LINKS_MIN:
            return True
    return False


def find_descriptions(sample: ProductSample) -> Iterator[LexborNode]:
    """Yields long texts that have the name, that follow such a heading, or that begin as the meta
    tag does."""
    tag = sample.document.dom.css_first('meta[name=description], meta[property="og:description"]')
    meta = (tag.attributes.get("content") or "") if tag is not None else ""
    begin = plain_text(meta)[:DESCRIPTION_CHARS_MIN]
    word = WORDS_OF_FIELDS["description"]
    for element in sample.elements:
        text = sample.text(element)
        if len(text) < DESCRIPTION_CHARS_MIN:
            continue
        before = element_before(element)
        headed = before is not None and (
            word.search(naming_words(before))
            or word.search(sample.text(before)[:DESCRIPTION_CHARS_MIN])
        )
        if (
            headed
            or word.search(naming_words(element))
            or (begin and plain_text(text).startswith(begin))
        ):
            yield element


def find_ratings(sample: ProductSample) -> Iterator[LexborNode]:
    """Yields elements whose own class or id, or whose parent's, names a rating."""
    word = WORDS_OF_FIELDS["rating"]
    for element in sample.elements:
        if word.search(naming_words(element)) or any(
            word.search(naming_words(parent)) for parent in ancestors(element, 1)
        ):
            yield element


def find_breadcrumbs(sample: ProductSample) -> Iterator[tuple[LexborNode, list[LexborNode]]]:
    """Yields each breadcrumb trail with its links that have text, and lead to another page."""
    own = split_address(sample.document.url)
    for element in sample.document.dom.css("nav, ol, ul, div, p, section"):
        words = f"{naming_words(element)} {element.attributes.get('aria-label') or ''}"
        if not _BREADCRUMB.search(words):
            continue
        if len(clean_text(whole_text(element))) <= BREADCRUMB_CHARS_MAX:
            links = [link for link in element.css("a") if clean_text(whole_text(link))]
            urls = [sample.document.clean_link(link.attributes.get("href") or "") for link in links]
            yield (
                element,
                [
                    link
                    for link, url in zip(links, urls, strict=True)
                    if url is None or not split_address(url).may_be(own)
                ],
            )
