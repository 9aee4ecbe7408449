"""The ISO 4217 currency that a text names by its sign, name or code. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from scraper.extract.values import ascii_digits

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CODES = frozenset(_TABLE["codes"].split())
_SYMBOLS = {sign: code for code, signs in _TABLE["signs"].items() for sign in signs.split()}
IN_FRONT = frozenset(_TABLE["in_front"].split())
# The currencies that share a symbol; the definition's own currency decides between them.
_ALSO = {sign: frozenset(codes.split()) for sign, codes in _TABLE["shared"].items()}
# Currencies with a thousand subunits.
THOUSANDTHS = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})


def _any_of(names: Iterable[str]) -> str:
    """Returns a pattern that matches any of the names; names of letters must be whole words."""
    by_length = sorted(map(re.escape, names), key=len, reverse=True)
    letters = "|".join(name for name in by_length if name[0].isalpha())
    signs = "|".join(name for name in by_length if not name[0].isalpha())
    return rf"(?:(?<![^\W\d_])(?:{letters})(?![^\W\d_])|{signs})"


CURRENCY = _any_of({*_SYMBOLS, *CODES})
_SIGNS = re.compile(_any_of(_SYMBOLS))
_CODE = re.compile(rf"\b(?:{'|'.join(CODES)})\b")
CURRENCIES = re.compile(CURRENCY)


def names_currency(text: str) -> bool:
    """Returns whether the text contains a sign, name or code of a currency."""
    return CURRENCIES.search(ascii_digits(text)) is not None


def code_beside(amount: str, currency: str | None) -> str | None:
    """Returns the currency of an amount with its sign or code, as `currency_code` does."""
    code = _CODE.search(amount)
    return code[0] if code is not None else currency_code(None, amount, currency)


def currency_code(symbol: str | None, text: str, currency: str | None) -> str | None:
    """Returns the code of the symbol, else of the text's first sign. `currency`: used if the text
    shows none, or a sign that several countries share."""
    if symbol is None or not _is_word(symbol, text):
        # price-parser knows only the most common signs that are letters.
        sign = _SIGNS.search(text)
        symbol = sign[0] if sign is not None else None
    if symbol is None:
        return currency
    shared = _ALSO.get(symbol)
    if shared is not None:
        stated = next(filter(shared.__contains__, _CODE.findall(text)), None)
        if stated is not None or currency in shared:
            return stated or currency
    code = symbol if symbol in CODES else _SYMBOLS.get(symbol)
    return currency if code is None else code


@lru_cache(maxsize=512)
def _word_pattern(symbol: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W\d_]){re.escape(symbol)}(?![^\W\d_])")


def _is_word(symbol: str, text: str) -> bool:
    """Returns whether the symbol is a word of its own, if it has letters: "leider" does not contain
    "lei"."""
    return not symbol[0].isalpha() or _word_pattern(symbol).search(text) is not None
