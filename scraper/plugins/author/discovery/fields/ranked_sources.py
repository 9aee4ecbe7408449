"""The candidates that are the same on every shop: statements for machines and script text, each
with its rank. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scraper.plugins.author.discovery.fields.standard import SOURCES


class Candidate(NamedTuple):
    """A source as a definition writes it.

    `origin` is the kind of place; two origins are independent witnesses. `rank` says how easily a
    redesign breaks the source, from 0. Ranks were tuned by hand until the shop templates of the
    tests were read right. One rank costs 0.02 of a page (`scores.RANK_COST`), so that ranks only
    decide between sources that agree on the same pages.
    """

    origin: str
    source: dict[str, Any]
    rank: int


# The origin of each key of a standard source. Visible elements have origins of their
# own, so `css` is not one of the keys.
_ORIGINS = {"jsonld": "json-ld", "microdata": "microdata", "rdfa": "rdfa", "meta": "meta"}
# The standard sources are listed with the most lasting first. JSON-LD, microdata, RDFa and a meta
# tag that state the same thing last equally long, so about four sources share a rank.
SOURCES_PER_RANK = 4
# A regular expression over script text depends on how the script is written.
SCRIPT_RANK = 8
_SCRIPT_KEYS = {
    "sku": ("sku", "productSku", "itemNumber", "articleNumber"),
    "gtin": ("gtin13", "gtin", "ean", "barcode"),
    "brand": ("brand", "brandName"),
    "price": ("price", "currentPrice", "salePrice", "final_price"),
    "availability": ("availability", "inStock", "in_stock", "isInStock"),
}
_SCRIPT_VALUE = r'"?([\w.-]+)"?'
# A brand has several words, and a longer text is not a brand.
_SCRIPT_VALUES = {"brand": r'"([^"\\]{2,60})"'}


def _rank_standard_sources(name: str) -> Iterator[Candidate]:
    for position, source in enumerate(SOURCES.get(name, ())):
        for key in source.keys() & _ORIGINS.keys():
            yield Candidate(_ORIGINS[key], source, position // SOURCES_PER_RANK)


def _rank_script_sources(name: str) -> Iterator[Candidate]:
    value = _SCRIPT_VALUES.get(name, _SCRIPT_VALUE)
    for key in _SCRIPT_KEYS.get(name, ()):
        yield Candidate("script", {"regex": rf'"{key}"\s*:\s*{value}'}, SCRIPT_RANK)


# The candidates that need no page, by field: (origin, source, rank).
FIXED_CANDIDATES: Mapping[str, tuple[Candidate, ...]] = {
    name: (*_rank_standard_sources(name), *_rank_script_sources(name)) for name in SOURCES
}
