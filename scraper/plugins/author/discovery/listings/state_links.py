"""Lists of products in script state, the JSON that a page's scripts start from. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import Amount
from scraper.extract.heuristics.state_fields import (
    find_next_page_addresses,
    find_object_lists,
    is_address_key,
    read_texts,
)
from scraper.extract.values import Mistyped, to_decimal
from scraper.plugins.author.discovery.listings.cards import GROUP_MIN, Card, LinkGroup

# Entries of a list that lead to pages of the site, for the list to be one of pages.
LINKED_SHARE = 0.9


def find_state_groups(document: Document, owns: Callable[[str], bool]) -> list[LinkGroup]:
    """Returns the lists of products that have addresses on the site, the longest first."""
    body = document.dom.body
    if body is None:
        return []
    groups = [
        LinkGroup(cards, False, state=f"{path}.{key}")
        for path, entries in find_object_lists(document.state)
        if len(entries) >= GROUP_MIN
        for key in entries[0]
        if is_address_key(key)
        and _are_products(cards := _make_cards(entries, key, document, body, owns), len(entries))
    ]
    return sorted(groups, key=lambda group: -len(group.cards))


def _make_cards(
    entries: list[dict[str, Any]],
    key: str,
    document: Document,
    body: LexborNode,
    owns: Callable[[str], bool],
) -> list[Card]:
    """Returns a card for each entry whose `key` is an address on the site."""
    cards = []
    for entry in entries:
        text = entry.get(key)
        url = document.clean_link(text) if isinstance(text, str) else None
        if url is not None and "/" in str(text) and owns(url) and url != document.url:
            cards.append(_make_card(url, entry, body))
    return cards


def _are_products(cards: list[Card], entries: int) -> bool:
    addresses = {card.url for card in cards}
    likely = sum(bool(card.title and (card.amounts or card.image)) for card in cards)
    return len(addresses) >= max(GROUP_MIN, LINKED_SHARE * entries) and likely * 2 > len(cards)


def _make_card(url: str, entry: dict[str, Any], body: LexborNode) -> Card:
    texts = read_texts(entry, "title", "price", "image")
    try:
        price = to_decimal(texts.get("price", ""), ".")
        amounts = [Amount(body, price, None, False)]
    except Mistyped:
        amounts = []
    return Card(url, texts.get("title", ""), texts.get("image"), amounts, body, body, in_state=True)


def find_next_in_state(document: Document) -> tuple[dict[str, str], str] | None:
    """Returns the path of the next page's address, as a definition writes it, and its URL."""
    for path, text in find_next_page_addresses(document.state):
        url = document.clean_link(text)
        if url is not None and url != document.url:
            return {"state": path}, url
    return None
