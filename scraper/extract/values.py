"""Converts texts to values: numbers, booleans, dates, URLs. Pure; raises only `Mistyped`."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from dateutil import parser as dateutil_parser
from dateutil import tz

from scraper.errors import without_backticks
from scraper.extract.heuristics.stock_words import FALSE, TRUE, parse_availability
from scraper.rules import urls

INT_MAX = 2**63 - 1
DIGITS_MAX = 38
# Longer texts say more than one thing.
PHRASE_MAX = 100
_KEEP_ALL = urls.UrlRules(keep=("*",))
_NUMBER = re.compile(
    # A minus, but not the dash in "10-20" or "A-5".
    r"(?:(?<![\w.,])[-\u2212])?"
    # Digits in groups of three, or without groups.
    r"(?:\d{1,3}(?:([ ,.'\u2019])\d{3})(?:\1\d{3})*(?!\d)|\d+)(?:[.,]\d+)?"
)
# Arabic and full-width decimal marks and separators of thousands.
_MARKS = {"\u066b": ".", "\u066c": ",", "\uff0e": ".", "\uff0c": ","}
_GROUPS = re.compile(r"[ '\u2019]")
# A number whose only mark cannot separate thousands.
_FRACTION = re.compile(
    r"-?(?:0[.,]|\d+[.,](?!\d{3}(?!\d))|\d{1,3}(?:[ \u00a0\u202f]\d{3})+[.,])\d+"
).fullmatch
# Where the word of a vocabulary comes from: "https://schema.org/InStock", "schema:InStock".
_VOCABULARY = re.compile(
    r"^(?:.*(?:schema(?:\.org)?|vocabulary\.org|availability)\s*[/#:.\\]+\s*|(?:s|sdo|gr):)(?=\w)",
    re.I,
).sub
# The ends of words in the names that programs use: "out_of_stock", "NotAvailable".
_WORD_END = re.compile(r"[_+-]|(?<=[a-z])(?=[A-Z])").sub
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d])[ _-](?=[^\W\d])").sub
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}").fullmatch


class Mistyped(Exception):
    """The text is not a value of the type. The message is a short sentence that quotes the text."""

    def __init__(self, text: str, wanted: str) -> None:
        text = without_backticks(text)
        shown = text if len(text) <= 60 else text[:57] + "…"
        super().__init__(f"{shown!r} is not a {wanted}")


def ascii_digits(text: str) -> str:
    """Returns the text with digits and marks of other scripts (Arabic, full-width …) in ASCII."""
    if text.isascii():
        return text
    return "".join(
        char
        if char.isascii()
        else str(unicodedata.decimal(char))
        if char.isdecimal()
        else _MARKS.get(char, char)
        for char in text
    )


def to_int(text: str, decimal: str | None = None) -> int:
    """Returns the first number in the text; a fraction must be zero. Raises beyond 64 bits."""
    number = _first_number(text, decimal, "whole number")
    if number != number.to_integral_value() or not -INT_MAX - 1 <= number <= INT_MAX:
        raise Mistyped(text, "whole number of 64 bits")
    return int(number)


def to_decimal(text: str, decimal: str | None = None) -> Decimal:
    """Returns the first number in the text, of at most 38 digits. A single dot is a decimal point
    unless `decimal` is a comma."""
    return _first_number(text, decimal, "number")


def _first_number(text: str, decimal: str | None, wanted: str) -> Decimal:
    if len(text) <= DIGITS_MAX and text.isascii() and text.isdigit():
        return Decimal(text)
    match = _NUMBER.search(ascii_digits(text))
    if match is None or len(match[0]) > 60:
        raise Mistyped(text, wanted)
    written = _GROUPS.sub("", match[0].replace("\u2212", "-"))
    decimal = certain_mark(written, decimal) or _decimal_mark(written, wanted)
    other = "." if decimal == "," else ","
    try:
        number = Decimal(written.replace(other, "").replace(decimal, "."))
    except InvalidOperation:
        raise Mistyped(text, wanted) from None
    if len(number.as_tuple().digits) > DIGITS_MAX:
        raise Mistyped(text, f"{wanted} of {DIGITS_MAX} digits")
    return number


def certain_mark(number: str, decimal: str | None) -> str | None:
    """Returns the stated decimal mark, or the number's own if that cannot separate thousands: most
    structured data says "19.90" on pages that show 19,90 too."""
    if not _FRACTION(number):
        return decimal
    return "," if "," in number else "."


def _decimal_mark(written: str, wanted: str) -> str:
    """Returns the decimal mark: the later of two different marks. A mark that occurs twice, or
    before exactly three digits, separates thousands."""
    comma, dot = written.rfind(","), written.rfind(".")
    if comma >= 0 and dot >= 0:
        return "," if comma > dot else "."
    if comma >= 0:
        return "." if written.count(",") > 1 or len(written) - comma == 4 else ","
    if dot >= 0 and (
        written.count(".") > 1 or (wanted == "whole number" and len(written) - dot == 4)
    ):
        return ","
    return "."


def to_bool(text: str) -> bool:
    """Reads the words that shops use, including schema.org's availabilities, alone or in a short
    text: "In stock (39 available)". Raises if the text says both."""
    word = _VOCABULARY("", text).strip(" !/#;,?'\"[](){}<>")
    word = (word if " " in word else _WORD_END(" ", word)).lower()
    key = _BETWEEN_WORDS("", word.strip("."))
    if key in TRUE or key in FALSE:
        return key in TRUE
    if len(word) <= PHRASE_MAX:
        available = parse_availability(word)
        if available is not None:
            return available
    raise Mistyped(text, "clear yes or no (`when:` says which texts mean yes)")


def to_date(text: str, layout: str | None = None, dayfirst: bool = False) -> str:
    """Returns an ISO 8601 date, or a datetime if the text has a time. Year, month and day are
    required."""
    if len(text) > 100:
        raise Mistyped(text, "date")
    try:
        if layout is not None:
            parsed = datetime.strptime(text, layout)
            return (
                parsed.isoformat()
                if any(code in layout for code in _TIME_CODES)
                else parsed.date().isoformat()
            )
        if _ISO_DATE(text):
            return date.fromisoformat(text).isoformat()
        return _guess_date(text, dayfirst)
    except (ValueError, OverflowError, TypeError, ArithmeticError, AttributeError, LookupError):
        raise Mistyped(text, f"date of the format {layout!r}" if layout else "date") from None


_TIME_CODES = ("%H", "%I", "%M", "%S", "%X", "%c", "%f")
# Two defaults that differ in every part: equal parts of the results were in the text.
_DEFAULT, _CONTROL = datetime(2000, 1, 1, 1), datetime(2004, 2, 2, 2)


def _guess_date(text: str, dayfirst: bool) -> str:
    if text[:4].isdigit() and text[4:5] == "-":
        # With dayfirst, dateutil reads 2025-03-04 as 3 April.
        dayfirst = False
    parsed, control = (
        dateutil_parser.parse(text, default=default, dayfirst=dayfirst, tzinfos=_find_zone)
        for default in (_DEFAULT, _CONTROL)
    )
    if parsed.date() != control.date():
        raise ValueError("a part is missing")
    return parsed.isoformat() if parsed.hour == control.hour else parsed.date().isoformat()


def _find_zone(name: str | None, offset_s: int | None) -> tzinfo | None:
    """Returns the zone of an offset or of UTC, else None: CST is three different zones."""
    if offset_s is not None:
        return (
            tz.tzoffset(None, timedelta(seconds=offset_s).total_seconds())
            if abs(offset_s) < 86_400
            else None
        )
    return tz.UTC if name in ("UTC", "GMT", "Z") else None


def to_url(text: str, base: str) -> str:
    """Returns the URL made absolute against `base`, without its fragment."""
    absolute = urls.clean(text, base, _KEEP_ALL)
    if absolute is None:
        raise Mistyped(text, "URL")
    return absolute


def map_text(text: str, mapping: dict[str, Any]) -> str | None:
    """Returns the mapped value as text for the type to read, or None if the mapping lacks it."""
    value = mapping.get(text)
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
