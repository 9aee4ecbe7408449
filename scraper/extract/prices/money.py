"""Reads an amount and its currency from a text, with price-parser. Pure.

If a text has several numbers, the price is the number next to a currency. Former prices and savings
do not count, nor do unit prices next to a full price; the lower end of a range counts. If two
numbers remain, the text has no price: nothing is guessed.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from price_parser import Price

from scraper.extract.prices import words
from scraper.extract.prices.currencies import (
    CODES,
    CURRENCIES,
    CURRENCY,
    IN_FRONT,
    THOUSANDTHS,
    code_beside,
    currency_code,
    names_currency,
)
from scraper.extract.values import DIGITS_MAX, Mistyped, ascii_digits, certain_mark

# Longer texts are whole product cards.
TEXT_MAX = 500
# The groups are symbol, whole part, decimal mark, fraction, symbol.
_SIMPLE = re.compile(
    r"([£€$¥₹])? ?(\d{1,15}|\d{1,3}(?:,\d{3}){1,4}(?=\.)|\d{1,3}(?:\.\d{3}){1,4}(?=,))"
    r"([.,])(\d{2})(?: ?([£€$¥₹]))?",
    re.ASCII,
).fullmatch
# Groups of three digits after spaces, or digits with any separators.
_NUMBER = r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d{1,3})?(?!\d)|\d+(?:[.,'\u2019]\d+)*)"
_NUMBERS = re.compile(_NUMBER)
_BEFORE = re.compile(rf"(?P<currency>{CURRENCY})[ \u00a0\u202f]?(?P<number>{_NUMBER})")
_BEHIND = re.compile(
    rf"(?P<number>{_NUMBER})(?:[.,][-\u2013\u2014]+)?[ \u00a0\u202f]?(?:{CURRENCY})"
)
_AMOUNT = re.compile(
    rf"{CURRENCY}[ \u00a0\u202f]?{_NUMBER}|{_NUMBER}(?:[ \u00a0\u202f]?{CURRENCY})?"
)
# The whole text is an amount of cents.
_SUBUNITS = re.compile(r"\W*(\d{1,3})\s?(?:p|¢|cents?)\W*", re.IGNORECASE).fullmatch
# The currency sign replaces the decimal mark, as in France.
_SIGN_AS_MARK = re.compile(rf"(?<![\d.,])(\d{{1,4}})({CURRENCY})(\d\d)(?!\d)")
# A whole text whose cents were in an element of their own.
_SPLIT = re.compile(
    rf"(?:{CURRENCY})?\s?(\d{{1,3}}(?:[.,\s]\d{{3}})+|\d{{1,6}})(?:\s?[.,]\s|\s[.,]?\s?)(\d\d)"
    rf"(?:\s?(?:{CURRENCY}))?"
).fullmatch
# Cents of their own in a longer text: "Now $12 99 each".
_SPACED_CENTS = re.compile(
    rf"(?<![^\W\d_])({'|'.join(map(re.escape, sorted(IN_FRONT | {'€'}, key=len, reverse=True)))})"
    rf"[ \u00a0]?(\d{{1,3}}(?:[.,]\d{{3}})+|\d{{1,6}})[ \u00a0](\d\d)"
    rf"(?=\s*(?:$|[(/]|(?:each|ea|now|{words.WORDS['former']})\b))",
    re.IGNORECASE,
)
# Kronor and öre, as in "99:90 kr".
_ORE = re.compile(r"(?<![\d:])(\d[\d .]{0,15}):(\d\d)(?![\d:])")
_ORE_AND_KRONOR = re.compile(
    rf"\b(?:[Kk]r\.?|SEK) ?{_ORE.pattern}|{_ORE.pattern} ?(?:[Kk]r|SEK)\b"
).search
# An amount below zero is a saving.
_BELOW_ZERO = re.compile(rf"\s*[-\u2212](?:{CURRENCY}\s?)?\d").match
_COLON_INSIDE = re.compile(r"\d:\d{3}(?!\d)").search
_APOSTROPHE = re.compile(r"(?<=\d)['\u2019](?=\d{3}(?!\d))")
# Amounts with all three decimals, in currencies with a thousand subunits.
_THREE_DECIMALS = re.compile(r"(?<![\d.])(?:\d{1,3}(?:,\d{3})+|\d+)\.\d{3}(?![\d.,])")
# Tunisia writes them behind a comma.
_MILLIMES = re.compile(r"(?<![\d.,])\d{1,3}(?:[ .\u00a0\u202f]?\d{3})*,\d{3}(?![\d.,])")
# The whole text is a range whose lower end has no currency of its own.
_BARE_RANGE = re.compile(
    rf"\W*(?:(?:ab|from|von|od|da|de|desde|van|fr[åa]n?|от)\s)?({_NUMBER})\s?"
    rf"(?:[-–—~～]|bis|to|à|do|до|tot)\s?({_NUMBER})\s?(?:{CURRENCY})\W*",
    re.IGNORECASE,
).fullmatch
# A number's whole part, and its cents.
_END = re.compile(r"(.+?)(?:[.,](\d\d?))?").fullmatch


class _AmountSpan(NamedTuple):
    """An amount in a text, and its position."""

    start: int
    end: int
    text: str


def to_price(
    text: str, decimal: str | None = None, currency: str | None = None
) -> tuple[Decimal, str | None]:
    """Returns the price in the text. `currency`: used if the text shows none, or a symbol that
    several countries share.

    >>> to_price("1.299,00 €"), to_price("from $12.99", currency="CAD")
    ((Decimal('1299.00'), 'EUR'), (Decimal('12.99'), 'CAD'))
    """
    simple = _SIMPLE(text)
    if simple is not None:
        before, whole, mark, cents, after = simple.groups()
        if decimal in (None, mark) and not (before and after):
            whole = whole.replace("." if mark == "," else ",", "")
            return Decimal(f"{whole}.{cents}"), currency_code(before or after, text, currency)
    return _to_price_slowly(text, decimal, currency)


def is_split(text: str) -> bool:
    """Returns whether the whole text is an amount with separate cents."""
    return _SPLIT(text) is not None and names_currency(text)


def is_former_text(text: str) -> bool:
    """Returns whether the text's only amount is a former price or a saving: "Was $80"."""
    text = _join_ore(ascii_digits(text))
    numbers = list(_NUMBERS.finditer(text))
    return len(numbers) == 1 and (
        words.FORMER.search(text[: numbers[0].start()]) is not None
        or words.SAVED(text, numbers[0].end()) is not None
    )


def mark_former(text: str, struck: str) -> str:
    """Returns the text with a percentage instead of the amounts that `struck` has, if it has other
    ones: labels for screen readers repeat a crossed-out price."""
    text, former = _join_ore(text), set(_NUMBERS.findall(_join_ore(struck)))
    marked = _AMOUNT.sub(
        lambda amount: " 0% " if former.intersection(_NUMBERS.findall(amount[0])) else amount[0],
        text,
    )
    return marked if set(_NUMBERS.findall(text)) - former else text


def _join_ore(text: str) -> str:
    """Returns the text with a decimal comma for the colon of "99:90 kr"."""
    return _ORE.sub(r"\1,\2", text) if ":" in text and _ORE_AND_KRONOR(text) else text


def _to_price_slowly(
    text: str, decimal: str | None, currency: str | None
) -> tuple[Decimal, str | None]:
    if len(text) > TEXT_MAX:
        raise Mistyped(text, f"price: {len(text):,} characters")
    if ":" in text and _COLON_INSIDE(text):
        raise Mistyped(text, "price")
    text = _APOSTROPHE.sub("", _join_ore(ascii_digits(text)))
    split = _SPLIT(text)
    if split is not None and len(CURRENCIES.findall(text)) == 1:
        whole = re.sub(r"\D", "", split[1])
        return Decimal(f"{whole}.{split[2]}"), currency_code(None, text, currency)
    decimal = decimal or _mark_of_thousandths(text, currency)
    if (subunits := _SUBUNITS(text)) is not None:
        return Decimal(subunits[1]) / 100, currency
    if (bare := _BARE_RANGE(text)) is not None:
        text = bare[1 + _is_falling(text, bare[1], bare[2])] + text[bare.end(2) :]
    elif len(_NUMBERS.findall(text)) > 1:
        text = _SPACED_CENTS.sub(_join_cents, _SIGN_AS_MARK.sub(r"\1.\3 \2", text))
        text = _pick_price(text, currency)
    elif _BELOW_ZERO(text):
        raise Mistyped(text, "price")
    number = _NUMBERS.search(text)
    if number is not None:
        decimal = certain_mark(number[0], decimal)
    try:
        price = Price.fromstring(text, decimal_separator=decimal)
    except (ValueError, ArithmeticError):
        raise Mistyped(text, "price") from None
    amount = price.amount
    if amount is None or not amount.is_finite() or len(amount.as_tuple().digits) > DIGITS_MAX:
        raise Mistyped(text, "price")
    return amount, currency_code(_symbol_beside(text, price.currency), text, currency)


def _mark_of_thousandths(text: str, currency: str | None) -> str | None:
    """Returns the decimal mark of an amount with three decimals; None if its currency has two."""
    mark = "." if _THREE_DECIMALS.search(text) else "," if _MILLIMES.search(text) else None
    if mark is None:
        return None
    sign = CURRENCIES.search(text)
    code = currency_code(sign[0] if sign is not None else None, text, currency)
    return mark if code in (THOUSANDTHS if mark == "." else ("TND",)) else None


def _pick_price(text: str, currency: str | None) -> str:
    """Returns the part that is the price, from a text with several numbers. Raises `Mistyped`."""
    amounts = _amounts_with_currency(text) or [
        _AmountSpan(match.start(), match.end(), match[0])
        for match in _NUMBERS.finditer(text)
        if not words.OTHER(text, match.end())
    ]
    between = text[amounts[0].end : amounts[1].start] if len(amounts) == 2 else ""
    if between.strip().isalpha() and words.RANGE(between):
        return _lower_end(text, amounts)
    starts = [0, *(amount.end for amount in amounts)][: len(amounts)]
    prices = [
        amount
        for amount, start in zip(amounts, starts, strict=True)
        if not words.FORMER.search(text[start : amount.start]) and not words.SAVED(text, amount.end)
    ]
    whole = [
        amount
        for amount in prices
        if not words.PER_UNIT(text, amount.end)
        and not words.PER_QUANTITY.search(text[: amount.start])
    ] or prices
    if len(whole) > 1:
        whole = _prefer_with_tax(text, amounts, whole)
        ends = {amount.start: end for amount, end in zip(amounts, starts, strict=True)}
        whole = [
            amount
            for amount in whole
            if not words.EXTRA(text[ends[amount.start] : amount.start])
            and not words.EXTRA_BEHIND(text, amount.end)
        ] or whole
        whole = _in_one_currency(text, whole, currency)
    alone = len({_NUMBERS.findall(amount.text)[0] for amount in whole}) == 1
    lead = text[: whole[0].start] if whole else ""
    if alone and not words.INSTALMENT(lead):
        return whole[0].text
    between = text[whole[0].end : whole[1].start] if len(whole) == 2 else ""
    of_range = words.RANGE(between) or (between.strip().isalpha() and words.BETWEEN(lead))
    if between and of_range:
        return _lower_end(text, whole)
    raise Mistyped(text, "single price")


def _join_cents(amount: re.Match[str]) -> str:
    return f"{amount[1]}{re.sub('[.,]', '', amount[2])}.{amount[3]}"


def _lower_end(text: str, ends: list[_AmountSpan]) -> str:
    first, second = (_NUMBERS.findall(amount.text)[0] for amount in ends)
    is_minus = text[: ends[1].start].endswith(" -")
    return ends[not is_minus and _is_falling(text, first, second)].text


def _is_falling(text: str, first: str, second: str) -> bool:
    """Returns whether the second end of a range is the lower one. Raises `Mistyped` if it is below
    half of the first: it may be a saving."""
    upper, lower = (
        Decimal(f"{re.sub('[^0-9]', '', end[1])}.{end[2] or 0}")
        for end in map(_END, (first, second))
        if end is not None
    )
    if lower * 2 < upper:
        raise Mistyped(text, "single price")
    return lower < upper


def _prefer_with_tax(
    text: str, amounts: list[_AmountSpan], listed: list[_AmountSpan]
) -> list[_AmountSpan]:
    """Returns the listed amounts that a label calls with tax, else those that none calls without.
    Labels are before all amounts if one is before the first; else a label after a bracket
    that is open at the next amount belongs to that one, and others to the amount before them."""
    edges = [0, *(edge for amount in amounts for edge in (amount.start, amount.end)), len(text)]
    gaps = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    leads = bool(words.GROSS.search(gaps[0]) or words.NET.search(gaps[0]))

    def is_called(pattern: re.Pattern[str], amount: _AmountSpan) -> bool:
        before, after = gaps[amounts.index(amount) :][:2]
        bracket = words.OPENED.search(before)
        if leads or (bracket and bracket[1]):
            return pattern.search(before if bracket is None else bracket[1]) is not None
        return pattern.match(words.OPENED.sub("", after)) is not None

    gross = [amount for amount in listed if is_called(words.GROSS, amount)]
    return gross or [amount for amount in listed if not is_called(words.NET, amount)] or listed


def _in_one_currency(
    text: str, amounts: list[_AmountSpan], currency: str | None
) -> list[_AmountSpan]:
    """Returns the amounts in the definition's currency, or in the one that the text has first, if
    it has the same price in two."""
    codes = [code_beside(amount.text, currency) for amount in amounts]
    if None in codes or len(set(codes)) == 1:
        return amounts
    hinted = [amount for amount, code in zip(amounts, codes, strict=True) if code == currency]
    first = [amount for amount in amounts if not words.REPEATED(text[: amount.start])]
    apart = len(first) == 2 and text[first[0].end : first[1].start].strip() in ("/", "|", "=", "•")
    return hinted or (first[:1] if apart else first)


def _symbol_beside(text: str, symbol: str | None) -> str | None:
    """Returns the symbol, or the sign before the amount if that is longer, as in "E£12", or if the
    symbol may be a word, as in "TOP: Rs.1,999"."""
    if symbol is None or (beside := _BEFORE.search(text)) is None:
        return symbol
    sign = beside["currency"]
    return sign if symbol in CODES or symbol in sign else symbol


def _amounts_with_currency(text: str) -> list[_AmountSpan]:
    """Returns the amounts with a currency before or after them, on the side that has more of the
    text's currencies; on both sides if each amount has a currency of its own."""
    sides = [list(_BEFORE.finditer(text)), list(_BEHIND.finditer(text))]
    numbers = [[match.span("number") for match in side] for side in sides]
    if numbers[0] == numbers[1]:
        # Each has a sign before it and a code behind it: "$1,299.00 MXN".
        return [
            _AmountSpan(sign.start(), code.end(), text[sign.start() : code.end()])
            for sign, code in zip(*sides, strict=True)
        ]
    before, behind = (
        [_AmountSpan(match.start(), match.end(), match[0]) for match in side] for side in sides
    )
    both = sorted({*before, *behind})
    if before and behind and all(first.end <= second.start for first, second in pairwise(both)):
        return both
    if len(before) != len(behind):
        return max(before, behind, key=len)
    # "10 £ 45" is a size and a price; "10 € 45" is ambiguous.
    signs = {match[0] for match in CURRENCIES.finditer(text)}
    if signs <= IN_FRONT:
        return before
    raise Mistyped(text, "single price")
