"""The values on a listing's cards: what a shop says of a product without its page. Pure."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import NamedTuple

from selectolax.lexbor import LexborNode

from scraper.extract.bounds import ReadLimits
from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import current_amounts, find_amounts, short_text
from scraper.extract.heuristics.stock_words import parse_availability
from scraper.rules.urls import UrlRules

LEVELS_MAX = 12
CARDS_MAX = 500
CARD_CHARS_MAX = 600
# The CPU time for the cards of a listing.
LIMITS = ReadLimits(1.0, isolated=False)
# The place of elements that hold links to several products.
_SEVERAL = ""


class CardValues(NamedTuple):
    """What a card says of a product: its current prices, and whether it is in stock; None if the
    card does not say."""

    prices: tuple[Decimal, ...]
    available: bool | None


def read_cards(
    document: Document, products: Collection[str], rules: UrlRules
) -> dict[str, CardValues]:
    """Returns the cards of products, by their URLs. A card is the largest element with links to
    only one product. Raises `ReadElsewhere` and `TooSlow`."""
    holders: dict[int, str] = {}
    links: list[tuple[str, LexborNode]] = []
    for link in document.dom.css("a[href]"):
        url = document.clean_link(link.attributes.get("href") or "", rules)
        if url is None or url not in products:
            continue
        links.append((url, link))
        for element in _with_ancestors(link):
            if holders.setdefault(element.mem_id, url) != url:
                holders[element.mem_id] = _SEVERAL
    cards: dict[str, CardValues] = {}
    for url, link in links:
        if url in cards or len(cards) >= CARDS_MAX:
            continue
        inside = [item for item in _with_ancestors(link) if holders[item.mem_id] == url]
        if not inside:
            # The link holds that of another product.
            continue
        card = _read_card(inside[-1])
        document.budget.check("cards")
        if card.prices or card.available is not None:
            cards[url] = card
    return cards


def _with_ancestors(link: LexborNode) -> list[LexborNode]:
    elements = [link]
    while len(elements) < LEVELS_MAX and (parent := elements[-1].parent) is not None:
        if parent.tag in ("body", "main", "html"):
            break
        elements.append(parent)
    return elements


def _read_card(element: LexborNode) -> CardValues:
    prices = {amount.value for amount in current_amounts(find_amounts(element))}
    return CardValues(
        tuple(sorted(prices)), parse_availability(short_text(element, CARD_CHARS_MAX))
    )
