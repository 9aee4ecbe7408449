"""Normalised codes: GTIN, manufacturer part number and brand."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from scraper.extract.heuristics.codes import gtin_check_digit
from scraper.plugins.matching.identity.words import fold_text

# A code of fewer characters than this, or without a digit, does not identify a product.
MPN_MIN = 4
# A part number of this many characters, letters and digits, identifies a product without a brand.
STRONG_MPN_MIN = 5
_NOT_ALNUM = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")
# Legal forms and other words that a brand may or may not carry.
_BRAND_NOISE = re.compile(
    r"\b(?:inc|incorporated|corp|corporation|co|company|ltd|limited|llc|gmbh|ag|kg|sa|srl|spa|bv|plc"
    r"|oy|ab|as|electronics|international|technologies|technology|usa|america|deutschland|europe"
    r"|the)\b\.?"
)
# What a page writes before a brand, in folded text.
_BRAND_LABEL = re.compile(
    r"^\W*(?:brand|manufacturer|maker|vendor|producer|marke|hersteller|marque|fabricant|marca"
    r"|fabricante|produttore|merk|fabrikant|producent|бренд|производитель)\s*:"
)
_NO_BRAND = frozenset(
    ("", "na", "none", "null", "unknown", "generic", "nobrand", "unbranded", "other", "various")
)
_NO_MPN = frozenset(("doesnotapply", "notapplicable", "nichtzutreffend", "none", "unknown"))


class Gtin(NamedTuple):
    """A GTIN as 14 digits of the single article, and the packaging level: 0 for the article, 1 to 8
    for a box."""

    article: str
    level: int


def parse_gtin(value: object) -> Gtin | None:
    """Returns the GTIN that a value holds, or None. A value with a wrong check digit, and one that
    shops write when they have none, is not a GTIN.

    >>> parse_gtin("4006381333931")
    Gtin(article='04006381333931', level=0)
    >>> parse_gtin("14006381333938")
    Gtin(article='04006381333931', level=1)
    """
    text = re.sub(r"[\s\-.]", "", unicodedata.normalize("NFKC", str(value)))
    if not text.isascii() or not text.isdigit() or len(text) not in (8, 12, 13, 14):
        return None
    digits = text.zfill(14)
    if digits[-1] != gtin_check_digit(digits[:-1]) or _is_placeholder(text):
        return None
    level = int(digits[0])
    if level == 0 or level == 9:
        return Gtin(digits, 0)
    inner = "0" + digits[1:-1]
    return Gtin(inner + gtin_check_digit(inner), level)


def _is_placeholder(text: str) -> bool:
    """Returns whether a code is one that shops write when they have none (0000000000000, 999…,
    123…), or one that only the shop itself knows (the prefixes 02 and 20 to 29)."""
    bare = text.lstrip("0")
    body = bare[:-1]
    if len(bare) < 6 or len(set(body)) <= 2 or body in "1234567890123" or body in "01234567890":
        return True
    number = text.zfill(13)[-13:]
    return len(text) in (12, 13) and (number[0] == "2" or number[:2] == "02")


def normalize_mpn(value: object) -> str | None:
    """Returns a manufacturer part number without case and separators, or None if it cannot identify
    a product.

    >>> normalize_mpn("DSC-W120/B")
    'dscw120b'
    """
    text = _NOT_ALNUM.sub("", unicodedata.normalize("NFKC", str(value)).casefold())
    if len(text) < MPN_MIN or text in _NO_MPN or not _DIGITS.search(text) or len(set(text)) < 3:
        return None
    return text.lstrip("0") or None


def is_strong_mpn(mpn: str) -> bool:
    """Returns whether a part number identifies a product even if a shop does not name the brand."""
    return len(mpn) >= STRONG_MPN_MIN and bool(re.search(r"[^\W\d_]", mpn))


def normalize_brand(value: object) -> str | None:
    """Returns a brand without label, case, accents, punctuation and legal form, or None.

    >>> normalize_brand("Brand: Hewlett-Packard Co.")
    'hewlettpackard'
    """
    text = _BRAND_LABEL.sub("", fold_text(str(value)))
    kept = _NOT_ALNUM.sub("", _BRAND_NOISE.sub(" ", text))
    kept = kept or _NOT_ALNUM.sub("", text)
    return None if kept in _NO_BRAND else kept
