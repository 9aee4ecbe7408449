"""Ranks a page's amounts of money by how likely people take them for the price: by position, names
and neighbours. Pure, and linear in the page."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.extract.heuristics.amounts import Amount, naming_words, walk_visible

_FRAME = frozenset({"nav", "footer", "aside"})
_PRICE = re.compile(r"price|preis|prix|precio|prezzo|prijs|cena|pris|cost|amount", re.I)
_CURRENT = re.compile(
    r"current|now|sale|final|special|actual|main|product|offer|our|angebot|neu|nuevo|detail", re.I
)
_ELSE = re.compile(
    r"ship|deliver|versand|liefer|livraison|env[ií]o|spedizione|verzend|install?ment|month|monat|mois"
    r"|mes\b|rata|raten|finanz|credit|kredit|saving|save|discount|rabat|coupon|voucher|points|cart"
    r"|basket|unit|grundpreis|per-|warranty|insurance|related|recommend|similar|upsell|cross|recent"
    r"|carousel|slider|swiper|bundle|accessor|menu|header|footer|nav|filter|facet|free|min-order",
    re.I,
)


def rank_shown_prices(
    dom: LexborHTMLParser, listed: Sequence[Amount]
) -> list[tuple[float, Amount]]:
    """Returns the page's amounts with their scores, the likeliest first."""
    in_lists = _find_list_amounts(listed)
    before = _count_before_heading(dom, listed)
    times = Counter(amount.value for amount in listed)
    scored = []
    for number, amount in enumerate(listed):
        if amount.value <= 0:
            continue
        at = number - before
        score = 0.0 if at < 0 else max(0.0, 4.0 - at * 0.7)
        near, far, framed = _read_words_around(amount.element)
        score += 3 if _PRICE.search(near) else 1.5 if _PRICE.search(far) else 0
        score += 1.5 if _CURRENT.search(near) else 0
        score += 1 if amount.currency is not None else 0
        score += 0.5 if times[amount.value] > 1 else 0
        score -= 5 if amount.struck else 0
        score -= 4 if amount.element.mem_id in in_lists else 0
        score -= 3 if _ELSE.search(near) else 1.5 if _ELSE.search(far) else 0
        # The price of a shop for companies may be without tax.
        near_by = (other.value for other in listed[max(0, number - 2) : number + 3])
        taxed = amount.net and any(1.02 < other / amount.value < 1.28 for other in near_by)
        score -= 2 if taxed or (amount.aside and not amount.net) else 0.5 if amount.net else 0
        score -= 3 if framed else 0
        scored.append((score, amount))
    return sorted(scored, key=lambda pair: -pair[0])


def _find_list_amounts(listed: Sequence[Amount]) -> set[int]:
    """Returns the amounts of lists: at least three different values in similar positions."""
    places: dict[tuple[str, ...], list[Amount]] = defaultdict(list)
    for amount in listed:
        places[_position_key(amount.element)].append(amount)
    return {
        amount.element.mem_id
        for group in places.values()
        if len(group) >= 3 and len({amount.value for amount in group}) >= 3
        for amount in group
    }


def _count_before_heading(dom: LexborHTMLParser, listed: Sequence[Amount]) -> int:
    """Returns how many amounts come before the page's heading."""
    body, heading = dom.body, dom.css_first("h1")
    if body is None or heading is None:
        return 0
    waiting = {amount.element.mem_id for amount in listed}
    before = 0
    for element in walk_visible(body):
        if element.mem_id == heading.mem_id:
            return before
        before += element.mem_id in waiting
    return 0


def _read_words_around(element: LexborNode) -> tuple[str, str, bool]:
    """Returns the names of the element and its nearest ancestors, the names of the ancestors above,
    and whether the element is in the page's frame."""
    near, far, framed = naming_words(element), "", False
    at, level = element.parent, 0
    while at is not None and level < 8:
        if level < 2:
            near += " " + naming_words(at)
        elif level < 5:
            far += " " + naming_words(at)
        framed = framed or at.tag in _FRAME
        at, level = at.parent, level + 1
    return near, far, framed


def _position_key(element: LexborNode) -> tuple[str, ...]:
    names = []
    at: LexborNode | None = element
    for _ in range(6):
        if at is None:
            break
        names.append(f"{at.tag}.{(at.attributes.get('class') or '').partition(' ')[0]}")
        at = at.parent
    return tuple(names)
