"""What else a page says of a field that it is read from: JSON-LD, microdata, RDFa and meta tags,
for the fields that shops have in common. On a sample of pages, since that takes time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from zlib import crc32

# One page in so many is asked, the same ones in each crawl.
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


def sampled(url: str) -> bool:
    return crc32(url.encode()) % SAMPLE == 0


def agree(name: str, read: dict[str, Any], witness: dict[str, Any]) -> bool:
    """Whether two readings of a field are the same value: amounts and currencies, where both have
    one; texts, where one is a part of the other (a title with the shop's name)."""
    one, other = read.get(name), witness[name]
    if isinstance(other, Decimal):
        codes = {data.get(f"{name}_currency") for data in (read, witness)} - {None}
        return one == other and len(codes) <= 1
    texts = sorted((_plain(one), _plain(other)), key=len)
    return texts[0] == texts[1] or (len(texts[0]) >= TEXT_LEAST and texts[0] in texts[1])


def _plain(value: Any) -> str:
    return " ".join(str(value).split()).casefold() if value is not None else ""
