"""Finds the amounts of money that a page shows. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from selectolax.lexbor import LexborNode

from scraper.extract.prices.currencies import names_currency
from scraper.extract.prices.money import is_former_text, is_split, to_price
from scraper.extract.prices.words import NET, OTHER_PURPOSE, WORDS
from scraper.extract.text import BLOCKS, CENTS, current_price_text, is_two_digits, join_cents
from scraper.extract.values import Mistyped
from scraper.rules.decoding import clean_text

TEXT_MAX = 60
NODES_MAX = 80
FORMER_LEVELS = 5
LABEL_LEVELS = 4
PAIR_LEVELS = 4
ANCESTORS_MAX = 6
# The number of current prices below an element that a regular price is compared to.
NEAR_MAX = 4
PRICE_WORD = re.compile(
    r"price|preis|prix|precio|prezzo|prijs|pris|cena|amount|betrag|kosten", re.I
)
_FORMER = (
    r"(?:^|[\s_-])(?:(?i:old|was|rrp|uvp|msrp|before|former|previous|compared?|compare-?at|crossed"
    r"|cross|strike|struck|streich\w*|statt|vorher|avant|barred?|barrato|ancien|antes|anterior"
    r"|tachado|oud|før)(?=$|[\s_-]|(?i:pr)|[A-Z])|(?i:van[-_]?prij))"
)
FORMER_WORD = re.compile(rf"(?i:(?:regular|list|original|retail|initial)[-_]?price)|{_FORMER}")
# Without a current price near it, a regular or list price is the current one.
_SURELY_FORMER = re.compile(rf"(?i:(?:original|initial)[-_]?price)|{_FORMER}")
_NAMING = (
    *("class", "id", "itemprop"),
    *("data-testid", "data-test", "data-qa", "data-qa-qualifier", "data-hook"),
)
# Names of two prices in one block: the usual one is the former price next to a reduced one, unless
# only some customers pay that.
_USUAL = re.compile(
    rf"(?i)normal|regular|standard|usual|(?:base|list|full|secondary)[-_]?(?:{PRICE_WORD.pattern})"
).search
_REDUCED = re.compile(
    r"(?!.*(?:subscri|member|club|bulk|tier|wholesale|trade|student|loyal|coupon)).*"
    r"(?:special|reduced|promo|discounted|offer|aktion|angebot|sonder"
    rf"|(?:sales?|now|new|final|primary)(?:[-_]?(?:{PRICE_WORD.pattern})|$|\s))",
    re.I,
).match
_OTHER_CARD = "a[href]:not([href^='#']), img, h2, h3, h4, h5, h6"
_CARD = re.compile(r"<(?:a|img|h\d)\b").search
_DASHED = re.compile(r"\d{1,3}(?:[.,'’\s]?\d{3})*[.,:] ?[-–—]{1,2}").fullmatch
_STRUCK = frozenset({"del", "s", "strike"})
_SKIPPED = frozenset({"script", "style", "noscript", "template", "select", "option", "svg", "head"})
# Words next to an amount that is not the product's price: without tax, for a unit, for a month, an
# instalment, for delivery, for members. In lower case: ignoring case takes twice the time.
_ASIDE = re.compile(
    rf"(?:/|\b(?:per|pro|je|par|al|por|a|à|le|za|за|/)) ?\d{{0,4}} ?{WORDS['unit']}\b"
    rf"|(?:/|\b(?:per|pro|im|par|al|por|na|i|a|в)) ?{WORDS['month']}\b|{WORDS['some_pay']}\b"
    r"|\d ?[kmcd]?[gl] ?=|あたり"
    rf"|\b(?:{WORDS['delivery']}|postage|versandkostenfrei|{WORDS['coupon']}"
    rf"|{WORDS['instalment_only']}"
    r"|members?|membre|medlem\w*|mitglied\w*|club\w*|klub\w*|kundenkarte|loyalty|subscribe|subscription|abonn?ement)\b"
    rf"|{WORDS['instalment_unspaced']}|{OTHER_PURPOSE.pattern}"
)
_NET = re.compile(NET.pattern)
_ASIDE_WORD = re.compile(
    r"(?:^|[\s_-])(?:unit|per|base|basis|grund|net|netto|excl?|ex-?(?:vat|tax)|without-?tax"
    r"|withouttax|install?ments?|monthly|rate|shipping|delivery|bonus|points?|members?|club)(?:$|[\s_-]|(?i:pr))",
    re.I,
)
ASIDE_TEXT_MAX = 90
# How far above an element it may be hidden.
HIDING_LEVELS = 2
_UNSHOWN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_UNSHOWN_CLASSES = frozenset({"hidden", "hide", "d-none", "is-hidden", "unvisible", "invisible"})


class Amount(NamedTuple):
    """`struck`: a former price. `aside`: not the product's price, such as a price for a kilogram;
    `net`: aside because it is without tax."""

    element: LexborNode
    value: Decimal
    currency: str | None
    struck: bool
    aside: bool = False
    net: bool = False


def naming_words(element: LexborNode) -> str:
    """Returns the attributes that name the element: class, id, itemprop and the like."""
    attributes = element.attributes
    return " ".join(value for key in _NAMING if (value := attributes.get(key)))


def walk_visible(root: LexborNode, without: Collection[int] = ()) -> Iterator[LexborNode]:
    """Yields the elements below `root` that people see, in document order. Elements whose ids are
    in `without` are skipped with everything inside them."""
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


def is_hidden(element: LexborNode) -> bool:
    """Returns whether the element, or one close above it, is not shown. (A style sheet is not
    looked at.)"""
    return is_unshown(element) or any(map(is_unshown, _ancestors(element, HIDING_LEVELS)))


def is_unshown(element: LexborNode) -> bool:
    """Returns whether the element itself says that it is not shown."""
    attributes = element.attributes
    return bool(
        "hidden" in attributes
        or _UNSHOWN_STYLE.search(attributes.get("style") or "")
        or _UNSHOWN_CLASSES.intersection((attributes.get("class") or "").split())
    )


def short_text(element: LexborNode, most: int, mark: str = " ") -> str:
    """Returns the element's text as people see it, or "" if it is longer than `most`. At most
    NODES_MAX nodes are read, because callers ask for nested elements one by one. With `CENTS` as
    the mark, cents in an element of their own have a decimal mark before them, else a space."""
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
                if child.tag in BLOCKS:
                    parts.append(" ")
                elif _holds_cents(child, parts):
                    parts.append(mark)
                stack.append(child.iter(include_text=True))
                break
        else:
            stack.pop()
            if stack:
                parts.append(" ")
    text = "".join(parts)
    text = clean_text(join_cents(text).replace(CENTS, " ") if CENTS in text else text)
    return text if len(text) <= most else ""


def _holds_cents(child: LexborNode, before: Sequence[str]) -> bool:
    """Returns whether the element holds exactly two digits, right after a digit."""
    first = child.first_child
    text = first.text_content if first is not None and first.is_text_node else None
    return is_two_digits(text) and bool(before) and before[-1][-1:].isdecimal()


def _follows_digit(element: LexborNode) -> bool:
    before = element.prev
    return (
        before is not None and before.is_text_node and (before.text_content or "")[-1:].isdecimal()
    )


def find_amounts(root: LexborNode, without: Collection[int] = ()) -> list[Amount]:
    """Returns the innermost elements with a price of their own: a number next to a currency, or a
    number in an element named as a price."""
    prices: list[Amount] = []
    split: set[int] = set()
    for element in walk_visible(root, without):
        amount = _read_amount(element, split)
        if amount is not None:
            prices.append(amount)
    inner: dict[int, set[Decimal]] = defaultdict(set)
    own = []
    for amount in reversed(prices):
        # An element around other amounts counts if they do not have its value.
        if amount.value not in inner[amount.element.mem_id]:
            own.append(amount)
            for ancestor in _ancestors(amount.element):
                inner[ancestor.mem_id].add(amount.value)
    innermost = own[::-1]
    holders = Counter(up.mem_id for amount in innermost for up in _ancestors(amount.element))
    marked = [amount if amount.struck else _mark_aside(amount, holders) for amount in innermost]
    return _mark_usual(_mark_labels(_unmark_lone(marked)))


def _unmark_lone(listed: list[Amount]) -> list[Amount]:
    """Returns the amounts. One that is former only by the name of a regular price is current if no
    lower current price is near it."""
    if not any(amount.struck for amount in listed):
        return listed
    near, cards = _group_current(listed, ANCESTORS_MAX), dict[int, bool]()
    return [
        amount._replace(struck=False)
        if amount.struck
        and not is_former(amount.element, _SURELY_FORMER)
        and not is_former_text(short_text(amount.element, TEXT_MAX))
        and not _is_reduced(amount, near, cards)
        else amount
        for amount in listed
    ]


def _is_reduced(
    former: Amount, near: Mapping[int, Sequence[Amount]], cards: dict[int, bool]
) -> bool:
    """Returns whether a lower current price is near the amount and not in another product's card.
    `near`: the current prices below each element; `cards`: which branches are cards, filled here,
    because many amounts may be next to one large branch."""
    for up in _ancestors(former.element):
        for amount in near.get(up.mem_id, ())[:NEAR_MAX]:
            if amount.value < former.value:
                *_, branch = _climb_below(amount.element, up.mem_id)
                if branch.mem_id not in cards:
                    cards[branch.mem_id] = branch.css_first(_OTHER_CARD) is not None
                return not cards[branch.mem_id]
    return False


def _mark_usual(listed: list[Amount]) -> list[Amount]:
    """Returns the amounts, where a usual price next to a lower reduced one is a former price."""
    pairs = {
        block: sorted(amounts, key=lambda amount: amount.value)
        for block, amounts in _group_current(listed, PAIR_LEVELS).items()
        if len(amounts) == 2
    }
    usual = {
        high.element.mem_id
        for block, (low, high) in pairs.items()
        if low.value < high.value
        and _USUAL(_names_below(high.element, block))
        and _REDUCED(_names_below(low.element, block))
    }
    return [
        amount._replace(struck=amount.struck or amount.element.mem_id in usual) for amount in listed
    ]


def _names_below(element: LexborNode, block: int) -> str:
    """Returns the names of the element and its ancestors, up to the block that holds it; "" if the
    element is in another product's card within the block."""
    branch = list(_climb_below(element, block))
    return "" if _CARD(branch[-1].html or "") else " ".join(map(naming_words, branch))


def _climb_below(element: LexborNode, block: int) -> Iterator[LexborNode]:
    """Yields the element and its ancestors, up to the one right below the block."""
    at: LexborNode | None = element
    while at is not None and at.mem_id != block:
        yield at
        at = at.parent


def _group_current(listed: Sequence[Amount], levels: int) -> dict[int, list[Amount]]:
    """Returns the current prices below each element, up to that many levels above them."""
    below: dict[int, list[Amount]] = defaultdict(list)
    for amount in listed:
        for up in () if amount.struck or amount.aside else _ancestors(amount.element, levels):
            below[up.mem_id].append(amount)
    return below


def _mark_labels(innermost: list[Amount]) -> list[Amount]:
    """Returns the amounts. One that repeats a crossed-out price next to another is a label for
    screen readers, and a former price as well."""
    values: dict[int, set[Decimal]] = defaultdict(set)
    struck = [amount for amount in innermost if amount.struck]
    for amount in innermost if struck else ():
        for up in () if amount.struck else _ancestors(amount.element):
            values[up.mem_id].add(amount.value)
    former = set()
    for amount in struck:
        ups = (up.mem_id for up in _ancestors(amount.element, LABEL_LEVELS))
        beside = next((up for up in ups if values[up] - {amount.value}), None)
        former.add((beside, amount.value))
    return [
        amount._replace(struck=True)
        if any((up.mem_id, amount.value) in former for up in _ancestors(amount.element) if former)
        else amount
        for amount in innermost
    ]


def current_amounts(listed: Collection[Amount]) -> list[Amount]:
    """Returns the amounts that may be the current price. Amounts that are aside count only without
    any other, as in a shop that shows only prices without tax."""
    unstruck = [amount for amount in listed if not amount.struck]
    return [amount for amount in unstruck if not amount.aside] or unstruck


def _mark_aside(amount: Amount, holders: Mapping[int, int]) -> Amount:
    """Returns the amount, marked as aside if it says so or the text around it does, up to the next
    amount. `holders`: how many amounts each element holds."""
    at: LexborNode | None = amount.element
    for level in range(3):
        text = short_text(at, ASIDE_TEXT_MAX).lower() if at is not None else ""
        if at is None or holders.get(at.mem_id, 0) > (level > 0) or not text:
            break
        if _NET.search(text):
            return amount._replace(aside=True, net=True)
        named = level < 2 and _ASIDE_WORD.search(naming_words(at))
        if named or _ASIDE.search(text):
            return amount._replace(aside=True)
        at = at.parent
    return amount


def read_price(element: LexborNode) -> tuple[Decimal, str | None] | None:
    """Returns the price that a definition's `type: price` reads from the element."""
    text = clean_text(current_price_text(element))
    if not text or len(text) > 500 or not any(map(str.isdigit, text)):
        return None
    try:
        return to_price(text)
    except Mistyped:
        return None


def _read_amount(element: LexborNode, split: set[int]) -> Amount | None:
    """Returns the element's amount, or None. `split` collects the elements whose cents are in an
    element of their own; their children are not amounts."""
    text = short_text(element, TEXT_MAX, CENTS)
    if not any(map(str.isdigit, text)) or (is_two_digits(text) and _follows_digit(element)):
        return None
    if is_split(text):
        split.add(element.mem_id)
    elif split and any(up.mem_id in split for up in _ancestors(element)):
        return None
    # A number alone is a price only if the element's name says so, or a dash replaces the cents.
    named = bool(_DASHED(text) or PRICE_WORD.search(naming_words(element)))
    if not (named or names_currency(text)):
        return None
    price = _parse_price(text)
    if price is None and element.first_child is not None:
        price = _parse_price(_own_text(element))
    if price is None or (price[1] is None and not named):
        return None
    return Amount(element, *price, is_former(element) or is_former_text(text))


def _own_text(element: LexborNode) -> str:
    """Returns the texts right below the element, and their cents in elements of their own."""
    parts: list[str] = []
    for node in element.iter(include_text=True):
        if node.is_text_node:
            parts.append(f" {node.text_content or ''}")
        elif _holds_cents(node, parts) and node.first_child is not None:
            parts.append(f"{CENTS}{node.first_child.text_content}")
    return clean_text(join_cents("".join(parts)).replace(CENTS, " "))


@lru_cache(maxsize=4096)
def _parse_price(text: str) -> tuple[Decimal, str | None] | None:
    """Returns the price in a text. Cached, because an element often shares its text with its parent
    and with neighbouring cards."""
    try:
        return to_price(text)
    except Mistyped:
        return None


def is_former(element: LexborNode, words: re.Pattern[str] = FORMER_WORD) -> bool:
    """Returns whether the element or an ancestor is crossed out or named as a former price."""
    at: LexborNode | None = element
    for level in range(FORMER_LEVELS):
        if at is None:
            return False
        if is_named_former(at, itself=level == 0, words=words):
            return True
        at = at.parent
    return False


def is_named_former(
    element: LexborNode, *, itself: bool, words: re.Pattern[str] = FORMER_WORD
) -> bool:
    """Returns whether the element is crossed out or named as a former price. `itself`: it holds
    only the amount, so its name need not contain a word for price."""
    names = naming_words(element)
    if element.tag in _STRUCK or "line-through" in f"{element.attributes.get('style')} {names}":
        return True
    return bool(words.search(names)) and (itself or bool(PRICE_WORD.search(names)))


def _ancestors(element: LexborNode, most: int = ANCESTORS_MAX) -> Iterator[LexborNode]:
    parent = element.parent
    for _ in range(most):
        if parent is None:
            return
        yield parent
        parent = parent.parent
