"""Evidence for a field: what the page's JSON-LD, microdata, RDFa and meta tags say about it, for
the fields that most shops have. Read from a sample of pages only, because it takes time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from zlib import crc32

# One page in this many is checked, the same pages in each crawl.
SAMPLE = 8
_NAME = (("jsonld", "name"), ("microdata", "name"), ("rdfa", "name"), ("meta", "og:title"))
SOURCES: dict[str, tuple[tuple[str, str], ...]] = {
    "price": (
        ("jsonld", "offers.price"),
        ("microdata", "offers.price"),
        ("rdfa", "offers.price"),
        ("meta", "product:price:amount"),
    ),
    "name": _NAME,
    "title": _NAME,
    "brand": (
        *(("jsonld", "brand.name"), ("microdata", "brand.name"), ("rdfa", "brand.name")),
        ("meta", "product:brand"),
    ),
    "sku": (("jsonld", "sku"), ("microdata", "sku"), ("rdfa", "sku")),
}
TEXT_LEAST = 3


def is_sampled(url: str) -> bool:
    return crc32(url.encode()) % SAMPLE == 0


def values_agree(name: str, read: dict[str, Any], witness: dict[str, Any]) -> bool:
    """Returns whether two readings of a field agree. Amounts must be equal, and currencies too if
    both have one. Texts agree if one contains the other (a title with the shop's name)."""
    one, other = read.get(name), witness[name]
    if isinstance(other, Decimal):
        codes = {data.get(f"{name}_currency") for data in (read, witness)} - {None}
        return one == other and len(codes) <= 1
    texts = sorted((_plain_text(one), _plain_text(other)), key=len)
    return texts[0] == texts[1] or (len(texts[0]) >= TEXT_LEAST and texts[0] in texts[1])


def _plain_text(value: Any) -> str:
    return " ".join(str(value).split()).casefold() if value is not None else ""
