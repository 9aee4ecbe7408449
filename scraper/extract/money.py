"""From a text to an amount and its ISO 4217 currency, with price-parser. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from price_parser import Price

from scraper.extract.values import DIGITS_MAX, Mistyped

# characters; what is longer is no price but a whole product card
TEXT_MAX = 500
# symbol, whole part, decimal mark, fraction, symbol
_SIMPLE = re.compile(
    r"([£€$¥₹])? ?(\d{1,15}|\d{1,3}(?:,\d{3}){1,4}(?=\.)|\d{1,3}(?:\.\d{3}){1,4}(?=,))"
    r"([.,])(\d{2})(?: ?([£€$¥₹]))?",
    re.ASCII,
).fullmatch


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CODES = _codes("""
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP
    BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP
    GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR
    KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK
    MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR
    SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS
    UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG HRK
""")
_SYMBOLS = {
    "£": "GBP", "€": "EUR", "$": "USD", "¥": "JPY", "￥": "JPY", "zł": "PLN", "Zł": "PLN",
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
    "CHF": "CHF", "ريال": "SAR", "درهم": "AED", "جنيه": "EGP",
}  # fmt: skip
# What a symbol may also mean: the definition's own currency decides among these.
_ALSO = {
    "$": _codes(
        "USD CAD AUD NZD HKD SGD MXN CLP COP ARS TWD BBD BMD BND BSD BZD FJD GYD JMD KYD "
        "LRD NAD SBD SRD TTD UYU XCD DOP"
    ),
    "£": _codes("GBP EGP LBP SYP GIP FKP SHP SDG SSP"),
    "¥": _codes("JPY CNY"), "￥": _codes("JPY CNY"),
    "kr": _codes("SEK NOK DKK ISK"), "Kr": _codes("SEK NOK DKK ISK"),
    "kr.": _codes("SEK NOK DKK ISK"),
    "₨": _codes("INR PKR LKR NPR MUR SCR"), "Rs": _codes("INR PKR LKR NPR MUR SCR"),
    "Rs.": _codes("INR PKR LKR NPR MUR SCR"), "₩": _codes("KRW KPW"),
    "lei": _codes("RON MDL"), "Lei": _codes("RON MDL"),
}  # fmt: skip


def to_price(
    text: str, decimal: str | None = None, currency: str | None = None
) -> tuple[Decimal, str | None]:
    """The first price in the text. `currency`: where the text shows none, or a symbol that several
    countries use.

    >>> to_price("1.299,00 €"), to_price("from $12.99", currency="CAD") ((Decimal('1299.00'),
    'EUR'), (Decimal('12.99'), 'CAD'))
    """
    simple = _SIMPLE(text)
    if simple is not None:
        before, whole, mark, cents, after = simple.groups()
        if decimal in (None, mark) and not (before and after):
            whole = whole.replace("." if mark == "," else ",", "")
            return Decimal(f"{whole}.{cents}"), _code(before or after, text, currency)
    return _to_price_slowly(text, decimal, currency)


def _to_price_slowly(
    text: str, decimal: str | None, currency: str | None
) -> tuple[Decimal, str | None]:
    if len(text) > TEXT_MAX:
        raise Mistyped(text, f"price: {len(text):,} characters")
    try:
        price = Price.fromstring(text, decimal_separator=decimal)
    except (ValueError, ArithmeticError):
        raise Mistyped(text, "price") from None
    amount = price.amount
    if amount is None or not amount.is_finite() or len(amount.as_tuple().digits) > DIGITS_MAX:
        raise Mistyped(text, "price")
    return amount, _code(price.currency, text, currency)


def _code(symbol: str | None, text: str, currency: str | None) -> str | None:
    if symbol is None:
        return currency
    if currency is not None and currency in _ALSO.get(symbol, ()):
        return currency
    code = symbol if symbol in _CODES else _SYMBOLS.get(symbol)
    if code is None or not _stands_alone(symbol, text):
        return currency
    return code


@lru_cache(maxsize=512)
def _alone(symbol: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W\d_]){re.escape(symbol)}(?![^\W\d_])")


def _stands_alone(symbol: str, text: str) -> bool:
    """Letters count as a currency only where they are a word of their own: "lei" is not in
    "leider"."""
    return not symbol[0].isalpha() or _alone(symbol).search(text) is not None
