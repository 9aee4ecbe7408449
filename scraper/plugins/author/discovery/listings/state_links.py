"""Lists of products with their addresses in the JSON that a page's scripts start from. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from scraper.rules import urls


def link_groups_of(document: Document, owns: Callable[[str], bool]) -> list[LinkGroup]:
    """Lists of products that have addresses on the site, the longest first."""
    body = document.dom.body
    if body is None:
        return []
    groups = []
    for path, entries in find_object_lists(document.state):
        if len(entries) < GROUP_MIN:
            continue
        for key in entries[0]:
            if not is_address_key(key):
                continue
            cards = []
            for entry in entries:
                text = entry.get(key)
                url = urls.clean(text, document.base) if isinstance(text, str) else None
                if url is not None and "/" in str(text) and owns(url) and url != document.url:
                    cards.append(_card(url, entry, body))
            addresses = {card.url for card in cards}
            likely = sum(bool(card.title and (card.amounts or card.image)) for card in cards)
            if len(addresses) >= max(GROUP_MIN, 0.9 * len(entries)) and likely * 2 > len(cards):
                groups.append(LinkGroup(cards, False, state=f"{path}.{key}"))
    return sorted(groups, key=lambda group: -len(group.cards))


def _card(url: str, entry: dict[str, Any], body: Any) -> Card:
    texts = read_texts(entry, "title", "price", "image")
    try:
        price = to_decimal(texts.get("price", ""), ".")
        amounts = [Amount(body, price, None, False)]
    except Mistyped:
        amounts = []
    return Card(url, texts.get("title", ""), texts.get("image"), amounts, body, body, in_state=True)


def next_in_state(document: Document) -> tuple[dict[str, str], str] | None:
    """The path of the next page's address, as a definition says it, and its URL."""
    for path, text in find_next_page_addresses(document.state):
        url = urls.clean(text, document.base)
        if url is not None and url != document.url:
            return {"state": path}, url
    return None
