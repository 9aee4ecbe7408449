"""Where amounts of money stand on a page. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from selectolax.lexbor import LexborNode

from scraper.extract.money import (
    is_said_to_be_former,
    is_split,
    names_currency,
    to_price,
)
from scraper.extract.text import BLOCKS, is_two_digits, price_text
from scraper.extract.values import Mistyped
from scraper.rules.decoding import clean_text

TEXT_MAX = 60
NODES_MAX = 80
FORMER_LEVELS = 5
PRICE_WORD = re.compile(
    r"price|preis|prix|precio|prezzo|prijs|pris|cena|amount|betrag|kosten", re.I
)
# "Regular" and "list" alone say nothing: where nothing is reduced the price is a regular one.
FORMER_WORD = re.compile(
    r"(?i:(?:regular|list|original|retail|initial)[-_]?price)|(?:^|[\s_-])"
    r"(?i:old|was|rrp|uvp|msrp|before|former|previous|compared?|compare-?at|crossed|cross|strike"
    r"|struck|streich\w*|statt|vorher|avant|barred?|barrato|ancien|antes|anterior|tachado|van"
    r"|oud|før)"
    r"(?=$|[\s_-]|(?i:pr)|[A-Z])"
)
_DASHED = re.compile(r"\d{1,3}(?:[.,'’\s]?\d{3})*[.,:] ?[-–—]{1,2}").fullmatch
_STRUCK = frozenset({"del", "s", "strike"})
_SKIPPED = frozenset({"script", "style", "noscript", "template", "select", "option", "svg", "head"})


# What stands behind or before an amount that is not the product's price: without tax, for a unit,
# for a month, one of several payments, of the delivery, for members.
_NET = re.compile(
    r"\b(?:ex(?:cl|kl|clusive|klusive|cluding)?|zzgl|without|ohne|hors|sin|sem|senza"
    r"|eks(?:kl)?|bez|без"
    r"|exc)\.?:? ?(?:de )?(?:vat|tax(?:e?s)?|gst|mwst|ust|tva|iva|i\.v\.a|btw|moms|mva|alv|dph"
    r"|pdv|ddv|ндс)"
    r"|\b(?:netto|net price|prix ht|ht|alv ?0 ?%|hors taxes)\b|\+ ?(?:vat|gst|mwst|moms|btw"
    r"|iva)\b",
    re.I,
)
_ASIDE = re.compile(
    r"(?:/|\b(?:per|pro|je|par|al|por|a|à|le|/)) ?\d{0,4} ?(?:[kmcd]?g|kilo(?:gram+e?)?"
    r"|[mcd]?l|lit(?:re|er"
    r"|ro|r)s?|m[²³23]?|met(?:er|re)|(?:fl\.? ?)?oz|ounce|lb|pound|unit|count|piece|sheet"
    r"|stück|stk)\b"
    r"|(?:/|\b(?:per|pro|im|par|al|por|na|i|a|в)) ?(?:mo|month|monat|mois|mes|mês|mese|maand"
    r"|mån(?:ad)?|md"
    r"|mnd|måned|kk|mies|měs|месяц|мес)\b|\b\d+ ?(?:x|×|fois|mal|rate[ni]?|times|vezes|cuotas"
    r"|payments?"
    r"|instal+ments?) (?:de|of|à|von|di|da|zu|a|i)?\b"
    r"|\b(?:shipping|delivery|postage|versand(?:kosten)?|lieferung|livraison|env[ií]o"
    r"|spedizione|verzending"
    r"|frakt|fragt|wysyłka|dostawa|доставка|frete|versandkostenfrei"
    r"|members?|club|kundenkarte|loyalty|subscribe|subscription|abonn?ement|klarna|afterpay)\b",
    re.I,
)
_ASIDE_WORD = re.compile(
    r"(?:^|[\s_-])(?:unit|per|base|basis|grund|net|netto|excl?|ex-?(?:vat|tax)|without-?tax"
    r"|withouttax"
    r"|install?ments?|monthly|rate|shipping|delivery|bonus|points?|members?|club)(?:$|[\s_-]|(?i:pr))",
    re.I,
)
ASIDE_TEXT_MAX = 90


class Amount(NamedTuple):
    """`struck`: a former price. `aside`: beside the price, such as one for a kilogram; `net`: that
    is since it is without tax."""

    element: LexborNode
    value: Decimal
    currency: str | None
    struck: bool
    aside: bool = False
    net: bool = False


def words_of(element: LexborNode) -> str:
    """What the element says of itself: class, id, itemprop and the like."""
    attributes = element.attributes
    return " ".join(
        value
        for key in (
            "class",
            "id",
            "itemprop",
            "data-testid",
            "data-test",
            "data-qa",
            "data-qa-qualifier",
            "data-hook",
        )
        if (value := attributes.get(key))
    )


def elements_of(root: LexborNode, without: Collection[int] = ()) -> Iterator[LexborNode]:
    """The elements below `root` that people see, in the order of the document, without those whose
    ids are in `without` and all within them."""
    stack = [root.iter(include_text=False)]
    while stack:
        for child in stack[-1]:
            if child.tag in _SKIPPED or child.mem_id in without or not child.is_element_node:
                continue
            yield child
            stack.append(child.iter(include_text=False))
            break
        else:
            stack.pop()


def short_text(element: LexborNode, most: int) -> str:
    """The element's text as people see it, where it has no more characters; else nothing. So many
    nodes are looked at and no more: of elements within each other each is asked."""
    parts: list[str] = []
    size = nodes = 0
    stack = [element.iter(include_text=True)]
    while stack:
        for child in stack[-1]:
            nodes += 1
            if nodes > NODES_MAX:
                return ""
            if child.is_text_node:
                text = child.text_content or ""
                size += len(text.strip())
                if size > most:
                    return ""
                parts.append(text)
            elif child.tag not in _SKIPPED:
                if child.tag in BLOCKS or _are_cents(child, parts):
                    parts.append(" ")
                stack.append(child.iter(include_text=True))
                break
        else:
            stack.pop()
            if stack:
                parts.append(" ")
    text = clean_text("".join(parts))
    return text if len(text) <= most else ""


def _are_cents(child: LexborNode, before: Sequence[str]) -> bool:
    """Whether it holds two digits and nothing else, right behind a digit."""
    first = child.first_child
    text = first.text_content if first is not None and first.is_text_node else None
    return is_two_digits(text) and bool(before) and before[-1][-1:].isdecimal()


def amounts(root: LexborNode, without: Collection[int] = ()) -> list[Amount]:
    """The innermost elements with a price: a currency beside a number, or a number in an element
    that calls itself a price."""
    prices: list[Amount] = []
    split: set[int] = set()
    for element in elements_of(root, without):
        amount = _amount(element, split)
        if amount is not None:
            prices.append(amount)
    inner = {ancestor.mem_id for amount in prices for ancestor in _above(amount.element)}
    innermost = [amount for amount in prices if amount.element.mem_id not in inner]
    holders = Counter(up.mem_id for amount in innermost for up in _above(amount.element))
    return [amount if amount.struck else _placed(amount, holders) for amount in innermost]


def current(listed: Collection[Amount]) -> list[Amount]:
    """Those that may be the price of today; where all stand aside, as in a shop that shows prices
    without tax alone, they."""
    unstruck = [amount for amount in listed if not amount.struck]
    return [amount for amount in unstruck if not amount.aside] or unstruck


def _placed(amount: Amount, holders: Mapping[int, int]) -> Amount:
    """By its own words, and by what stands around it up to where another amount stands. `holders`:
    how many amounts elements hold."""
    at: LexborNode | None = amount.element
    for level in range(3):
        text = short_text(at, ASIDE_TEXT_MAX) if at is not None else ""
        if at is None or holders.get(at.mem_id, 1) > 1 or not text:
            break
        if _NET.search(text):
            return amount._replace(aside=True, net=True)
        if _ASIDE.search(text) or (level < 2 and _ASIDE_WORD.search(words_of(at))):
            return amount._replace(aside=True)
        at = at.parent
    return amount


def price_of(element: LexborNode) -> tuple[Decimal, str | None] | None:
    """The price that a definition's `type: price` reads of the element."""
    text = clean_text(price_text(element))
    if not text or len(text) > 500 or not any(map(str.isdigit, text)):
        return None
    try:
        return to_price(text)
    except Mistyped:
        return None


def _amount(element: LexborNode, split: set[int]) -> Amount | None:
    """`split`: the elements around it whose cents stand apart, to which it is added."""
    text = short_text(element, TEXT_MAX)
    if not any(map(str.isdigit, text)):
        return None
    if is_split(text):
        split.add(element.mem_id)
    elif split and any(up.mem_id in split for up in _above(element)):
        return None
    # A number alone is a price only where the element says so, or a dash stands for the cents.
    named = bool(_DASHED(text) or PRICE_WORD.search(words_of(element)))
    if not (named or names_currency(text)):
        return None
    price = _price_in(text)
    if price is None or (price[1] is None and not named):
        return None
    return Amount(element, *price, is_former(element) or is_said_to_be_former(text))


@lru_cache(maxsize=4096)
def _price_in(text: str) -> tuple[Decimal, str | None] | None:
    """An element, what it stands in, and a card beside it often have one text."""
    try:
        return to_price(text)
    except Mistyped:
        return None


def is_former(element: LexborNode) -> bool:
    """Whether it, or what it stands in, is crossed out or calls itself a former price."""
    at: LexborNode | None = element
    for level in range(FORMER_LEVELS):
        if at is None:
            return False
        if calls_itself_former(at, itself=level == 0):
            return True
        at = at.parent
    return False


def calls_itself_former(element: LexborNode, *, itself: bool) -> bool:
    """`itself`: it holds nothing but the amount, and need not say that it is a price."""
    if element.tag in _STRUCK or "line-through" in (element.attributes.get("style") or ""):
        return True
    words = words_of(element)
    return bool(FORMER_WORD.search(words)) and (itself or bool(PRICE_WORD.search(words)))


def _above(element: LexborNode) -> Iterator[LexborNode]:
    parent = element.parent
    for _ in range(6):
        if parent is None:
            return
        yield parent
        parent = parent.parent
