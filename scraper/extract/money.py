"""Reads an amount and its ISO 4217 currency from a text, with price-parser. Pure.

If a text has several numbers, the price is the number next to a currency. Former prices and savings
do not count, nor do unit prices next to a full price; the lower end of a range counts. If two
numbers remain, the text has no price: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from price_parser import Price

from scraper.extract.values import DIGITS_MAX, Mistyped, ascii_digits

# Longer texts are whole product cards.
TEXT_MAX = 500
# The groups are symbol, whole part, decimal mark, fraction, symbol.
_SIMPLE = re.compile(
    r"([£€$¥₹])? ?(\d{1,15}|\d{1,3}(?:,\d{3}){1,4}(?=\.)|\d{1,3}(?:\.\d{3}){1,4}(?=,))"
    r"([.,])(\d{2})(?: ?([£€$¥₹]))?",
    re.ASCII,
).fullmatch


def _split_codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CODES = _split_codes("""
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP
    BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP
    GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR
    KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK
    MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR
    SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS
    UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG HRK
""")
_SYMBOLS = {
    "£": "GBP", "€": "EUR", "$": "USD", "¥": "JPY", "￥": "JPY", "円": "JPY", "원": "KRW",
    "zł": "PLN", "Zł": "PLN",
    "ZŁ": "PLN", "kr": "SEK",
    "kr.": "DKK", "Kr": "SEK", "Kč": "CZK", "₽": "RUB", "руб": "RUB", "руб.": "RUB", "р.": "RUB",
    "₴": "UAH",
    "грн": "UAH", "грн.": "UAH", "₹": "INR", "₨": "INR", "Rs": "INR", "Rs.": "INR", "₩": "KRW",
    "₺": "TRY", "₪": "ILS",
    "฿": "THB", "₫": "VND", "₱": "PHP", "₦": "NGN", "₾": "GEL", "₼": "AZN", "₸": "KZT", "₡": "CRC",
    "₲": "PYG",
    "₮": "MNT", "₭": "LAK", "৳": "BDT", "៛": "KHR", "֏": "AMD", "Rp": "IDR", "lei": "RON",
    "Lei": "RON", "лв": "BGN",
    "лв.": "BGN", "Ft": "HUF", "дин.": "RSD", "RM": "MYR", "euro": "EUR", "eur": "EUR",
    "Eur": "EUR", "Euro": "EUR",
    "Fr": "CHF", "Fr.": "CHF", "SFr.": "CHF", "US$": "USD", "AU$": "AUD", "A$": "AUD", "CA$": "CAD",
    "C$": "CAD",
    "NZ$": "NZD", "HK$": "HKD", "S$": "SGD", "NT$": "TWD", "MX$": "MXN", "R$": "BRL", "AR$": "ARS",
    "CL$": "CLP",
    "CO$": "COP", "J$": "JMD", "N$": "NAD", "RD$": "DOP", "TT$": "TTD", "BZ$": "BZD", "CN¥": "CNY",
    "GH₵": "GHS",
    "CHF": "CHF", "ريال": "SAR", "درهم": "AED", "جنيه": "EGP", "ر.س": "SAR", "ر.س.": "SAR",
    "د.إ": "AED", "د.إ.": "AED", "ج.م": "EGP", "ج.م.": "EGP", "د.ك": "KWD", "د.ك.": "KWD",
    "ر.ق": "QAR", "ر.ق.": "QAR", "د.ب": "BHD", "د.ب.": "BHD", "ر.ع.": "OMR", "د.ا": "JOD",
    "د.م.": "MAD", "TL": "TRY", "euroa": "EUR", "euros": "EUR", "evro": "EUR", "元": "CNY",
    "рублей": "RUB", "ден": "MKD", "złotych": "PLN", "kuna": "HRK",
}  # fmt: skip
# Signs that are written before amounts.
_IN_FRONT = frozenset(
    {"£", "$", "¥", "￥", "₹", "US$", "AU$", "A$", "CA$", "C$", "NZ$", "HK$", "R$", "S$"}
)
# The currencies that share a symbol; the definition's own currency decides between them.
_ALSO = {
    "$": _split_codes(
        "USD CAD AUD NZD HKD SGD MXN CLP COP ARS TWD BBD BMD BND BSD BZD FJD GYD JMD KYD "
        "LRD NAD SBD SRD TTD UYU XCD DOP"
    ),
    "£": _split_codes("GBP EGP LBP SYP GIP FKP SHP SDG SSP"),
    "¥": _split_codes("JPY CNY"), "￥": _split_codes("JPY CNY"),
    "kr": _split_codes("SEK NOK DKK ISK"), "Kr": _split_codes("SEK NOK DKK ISK"),
    "kr.": _split_codes("SEK NOK DKK ISK"),
    "₨": _split_codes("INR PKR LKR NPR MUR SCR"), "Rs": _split_codes("INR PKR LKR NPR MUR SCR"),
    "Rs.": _split_codes("INR PKR LKR NPR MUR SCR"), "₩": _split_codes("KRW KPW"),
    "lei": _split_codes("RON MDL"), "Lei": _split_codes("RON MDL"),
}  # fmt: skip


# Groups of three digits after spaces, or digits with any separators.
_NUMBER = r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,'\u2019]\d+)*)"


def _any_of(names: Iterable[str]) -> str:
    """Returns a pattern that matches any of the names; names of letters must be whole words."""
    by_length = sorted(map(re.escape, names), key=len, reverse=True)
    letters = "|".join(name for name in by_length if name[0].isalpha())
    signs = "|".join(name for name in by_length if not name[0].isalpha())
    return rf"(?:(?<![^\W\d_])(?:{letters})(?![^\W\d_])|{signs})"


_CURRENCY = _any_of({*_SYMBOLS, *_CODES})
_SIGNS = re.compile(_any_of(_SYMBOLS))
_NUMBERS = re.compile(_NUMBER)
_CURRENCIES = re.compile(_CURRENCY)
_BEFORE = re.compile(rf"(?P<currency>{_CURRENCY})[ \u00a0\u202f]?(?P<number>{_NUMBER})")
_BEHIND = re.compile(
    rf"(?P<number>{_NUMBER})(?:[.,][-\u2013\u2014]+)?[ \u00a0\u202f]?(?:{_CURRENCY})"
)
# The currency sign replaces the decimal mark, as in France.
_SIGN_AS_MARK = re.compile(rf"(?<![\d.,])(\d{{1,4}})({_CURRENCY})(\d\d)(?!\d)")
# A whole text whose cents were in an element of their own.
_SPLIT = re.compile(
    rf"(?:{_CURRENCY})?\s?(\d{{1,3}}(?:[.,\s]\d{{3}})+|\d{{1,6}})(?:\s?[.,]\s|\s[.,]?\s?)(\d\d)"
    rf"(?:\s?(?:{_CURRENCY}))?"
).fullmatch
_APOSTROPHE = re.compile(r"(?<=\d)['\u2019](?=\d{3}(?!\d))")
# Currencies with a thousand subunits, and their amounts with all three decimals.
THOUSANDTHS = _split_codes("BHD IQD JOD KWD LYD OMR TND")
_THREE_DECIMALS = re.compile(r"(?<![\d.])(?:\d{1,3}(?:,\d{3})+|\d+)\.\d{3}(?![\d.,])")
# Units of numbers that are not amounts: percentages, measures, pieces.
_OTHER = re.compile(
    r"\s?(?:%|(?:[kmcd]?g|[mcd]?l|[mck]m|m[²³23]|oz|lbs?|inch|gb|tb|mb|w|v|pcs|pieces?|pack"
    r"|stück|stk"
    r"|st|pièces?|x)\b|[x×]\s?\d)",
    re.IGNORECASE,
).match
# Words before a former price or a saving, after the previous amount.
_FORMER = re.compile(
    r"\b(?:was|were|rrp|r\.r\.p|msrp|srp|instead|before|previously|regular|original(?:ly)?"
    r"|list price|old price|compare at|save|saving|you save|discount"
    r"|uvp|statt|sparen|gespart|ersparnis|rabatt|war|vorher|früher|bisher"
    r"|avant|au lieu de|prix barré|économisez|remise|antes|ahorra|ahorras|pvp"
    r"|prima|anziché|invece di|risparmi|van|adviesprijs|bespaar"
    r"|før|tidligere|tidigare|spara|wcześniej|oszczędzasz|původně|ušetříte)\b[^\d]*$",
    re.IGNORECASE,
)
_SAVED = re.compile(
    r"\s*(?:off|discount|rabatt|saved?|gespart|de remise|korting)\b", re.IGNORECASE
).match
_PER_UNIT = re.compile(
    r"\s*(?:/|per\b|pro\b|je\b|par\b|por\b|al\b|à\b|le\b|p\.)\s?\d{0,4}\s?"
    r"(?:[kmcd]?g|kilo(?:gramm?)?|[mcd]?l|lit(?:re|er|ro|r)s?|m[²³23]?|met(?:er|re)"
    r"|(?:fl\.? ?)?oz|ounce"
    r"|lb|pound|unit|count|piece|sheet|stück|stk|st|100)\b",
    re.IGNORECASE,
).match
# Before the price of a kilogram or of several pieces: "(1 kg = 11,98 €)", "3 for £12".
_PER_QUANTITY = re.compile(
    r"\d\s?(?:(?:[kmcd]?g|[mcd]?l|m[²³23]?|oz|lb|stück|stk)\s?=|(?:for|für|pour|per|por"
    r"|voor)\b)\s?$",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"\s*(?:[-\u2013\u2014~]|to|bis|à|a|до|do|tot|till)\s*", re.IGNORECASE
).fullmatch


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
            return Decimal(f"{whole}.{cents}"), _currency_code(before or after, text, currency)
    return _to_price_slowly(text, decimal, currency)


def is_split(text: str) -> bool:
    """Returns whether the whole text is an amount with separate cents."""
    return _SPLIT(text) is not None and names_currency(text)


def is_former_text(text: str) -> bool:
    """Returns whether the text's only amount is a former price or a saving: "Was $80"."""
    numbers = list(_NUMBERS.finditer(ascii_digits(text)))
    return len(numbers) == 1 and (
        _FORMER.search(text[: numbers[0].start()]) is not None
        or _SAVED(text, numbers[0].end()) is not None
    )


def names_currency(text: str) -> bool:
    """Returns whether the text contains a sign, name or code of a currency."""
    return _CURRENCIES.search(ascii_digits(text)) is not None


def _to_price_slowly(
    text: str, decimal: str | None, currency: str | None
) -> tuple[Decimal, str | None]:
    if len(text) > TEXT_MAX:
        raise Mistyped(text, f"price: {len(text):,} characters")
    text = _APOSTROPHE.sub("", ascii_digits(text))
    split = _SPLIT(text)
    if split is not None and len(_CURRENCIES.findall(text)) == 1:
        whole = re.sub(r"\D", "", split[1])
        return Decimal(f"{whole}.{split[2]}"), _currency_code(None, text, currency)
    if decimal is None and _THREE_DECIMALS.search(text):
        sign = _CURRENCIES.search(text)
        if _currency_code(sign[0] if sign is not None else None, text, currency) in THOUSANDTHS:
            decimal = "."
    if len(_NUMBERS.findall(text)) > 1:
        text = _pick_price(_SIGN_AS_MARK.sub(r"\1.\3 \2", text))
    try:
        price = Price.fromstring(text, decimal_separator=decimal)
    except (ValueError, ArithmeticError):
        raise Mistyped(text, "price") from None
    amount = price.amount
    if amount is None or not amount.is_finite() or len(amount.as_tuple().digits) > DIGITS_MAX:
        raise Mistyped(text, "price")
    return amount, _currency_code(price.currency, text, currency)


def _pick_price(text: str) -> str:
    """Returns the part that is the price, from a text with several numbers. Raises `Mistyped`."""
    amounts = _amounts_with_currency(text) or [
        _AmountSpan(match.start(), match.end(), match[0])
        for match in _NUMBERS.finditer(text)
        if not _OTHER(text, match.end())
    ]
    starts = [0, *(amount.end for amount in amounts)][: len(amounts)]
    prices = [
        amount
        for amount, start in zip(amounts, starts, strict=True)
        if not _FORMER.search(text[start : amount.start]) and not _SAVED(text, amount.end)
    ]
    whole = [
        amount
        for amount in prices
        if not _PER_UNIT(text, amount.end) and not _PER_QUANTITY.search(text[: amount.start])
    ] or prices
    if len({amount.text for amount in whole}) == 1:
        return whole[0].text
    if len(whole) == 2 and _RANGE(text[whole[0].end : whole[1].start]):
        return whole[0].text
    raise Mistyped(text, "single price")


def _amounts_with_currency(text: str) -> list[_AmountSpan]:
    """Returns the amounts with a currency before or after them, on the side that has more of the
    text's currencies."""
    before, behind = (
        [_AmountSpan(match.start(), match.end(), match[0]) for match in side.finditer(text)]
        for side in (_BEFORE, _BEHIND)
    )
    if len(before) != len(behind):
        return max(before, behind, key=len)
    if [amount.text for amount in before] == [amount.text for amount in behind]:
        return before
    # "10 £ 45" is a size and a price; "10 € 45" is ambiguous.
    signs = {match[0] for match in _CURRENCIES.finditer(text)}
    if signs <= _IN_FRONT:
        return before
    raise Mistyped(text, "single price")


def _currency_code(symbol: str | None, text: str, currency: str | None) -> str | None:
    if symbol is None or not _is_word(symbol, text):
        # price-parser knows only the most common signs that are letters.
        sign = _SIGNS.search(text)
        symbol = sign[0] if sign is not None else None
    if symbol is None:
        return currency
    if currency is not None and currency in _ALSO.get(symbol, ()):
        return currency
    code = symbol if symbol in _CODES else _SYMBOLS.get(symbol)
    return currency if code is None else code


@lru_cache(maxsize=512)
def _word_pattern(symbol: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W\d_]){re.escape(symbol)}(?![^\W\d_])")


def _is_word(symbol: str, text: str) -> bool:
    """Returns whether the symbol is a word of its own, if it has letters: "leider" does not contain
    "lei"."""
    return not symbol[0].isalpha() or _word_pattern(symbol).search(text) is not None
