"""The fields that shops have in common, and where pages state them for machines: JSON-LD,
microdata, RDFa and meta tags, as sources of a definition, the most lasting first; and the
candidates that are the same on every shop, each with its rank. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scraper.extract.heuristics.codes import GTIN_NAMES
from scraper.rules.urls import is_private
from scraper.sites.definition import Site
from scraper.sites.grammar.auto_fields import TYPES as AUTO_TYPES
from scraper.sites.grammar.sources import STRUCTURED

# The options of each field in a definition, in the order of definitions. Fields that `auto` reads
# have the options of `auto`.
TYPES: dict[str, dict[str, Any]] = {
    "title": {},
    "price": {},
    "list_price": {"type": "price"},
    "availability": {},
    "stock": {"type": "int"},
    "sku": {},
    "gtin": {},
    "mpn": {},
    **AUTO_TYPES,
}


def _jsonld_sources(*paths: str) -> list[dict[str, str]]:
    return [{"jsonld": path} for path in paths]


def _structured_sources(*paths: str) -> list[dict[str, str]]:
    """Returns the paths as JSON-LD, as microdata and as RDFa, which use the same names."""
    return [{key: path} for key in STRUCTURED for path in paths]


def _meta_sources(*names: str) -> list[dict[str, str]]:
    return [{"meta": name} for name in names]


SOURCES: Mapping[str, list[dict[str, str]]] = {
    "title": [*_structured_sources("name"), *_meta_sources("og:title"), {"css": "h1"}],
    "price": [
        *_structured_sources("offers.price"),
        *_meta_sources("product:sale_price:amount", "product:price:amount", "og:price:amount"),
    ],
    "list_price": _meta_sources("product:original_price:amount"),
    "availability": [
        *_structured_sources("offers.availability"),
        *_meta_sources("product:availability", "og:availability"),
    ],
    "sku": [
        *_structured_sources("sku", "offers.sku", "productID"),
        *_meta_sources("product:retailer_item_id"),
    ],
    "gtin": [
        *_structured_sources(*GTIN_NAMES, *(f"offers.{name}" for name in GTIN_NAMES[:5])),
        *_meta_sources("product:ean", "product:upc"),
    ],
    "mpn": [*_structured_sources("mpn"), *_meta_sources("product:mfr_part_no")],
    "brand": [
        *_structured_sources("brand.name", "manufacturer.name"),
        *_meta_sources("product:brand", "og:brand"),
    ],
    "category": [
        *_jsonld_sources(
            *(
                f"BreadcrumbList.itemListElement[{at}].{name}"
                for at in (-1, -2)
                for name in ("name", "item.name")
            )
        ),
        *_structured_sources("category"),
        *_meta_sources("product:category"),
    ],
    "image": [*_structured_sources("image"), *_meta_sources("og:image", "twitter:image")],
    "description": [
        *_structured_sources("description"),
        *_meta_sources("og:description", "description"),
    ],
    "rating": _structured_sources("aggregateRating.ratingValue"),
}


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


def standard_definition(url: str) -> Site:
    """Returns a definition for a page without one: it reads what the page states for machines, then
    what all its sources agree on."""
    return Site.model_validate(
        {
            "name": "standard",
            "start": [url],
            "allow_private": is_private(url),
            "listing": {"products": "a"},
            "product": {
                "fields": {
                    name: {
                        **TYPES[name],
                        "any": [*sources, {"auto": name}] if name in AUTO_TYPES else sources,
                    }
                    for name, sources in SOURCES.items()
                }
            },
        }
    )
