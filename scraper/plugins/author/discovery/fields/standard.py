"""The fields that shops have in common, and where pages say them for machines: JSON-LD, microdata,
RDFa, meta tags. As sources of a definition, the most lasting first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scraper.rules.urls import is_private
from scraper.sites.definition import Site
from scraper.sites.grammar.auto_fields import TYPES as AUTO_TYPES
from scraper.sites.grammar.sources import STRUCTURED

# A field's options in a definition, beside its sources, in the order of definitions. Those that
# `auto` knows have its options.
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


def _jsonld(*paths: str) -> list[dict[str, str]]:
    return [{"jsonld": path} for path in paths]


def _structured(*paths: str) -> list[dict[str, str]]:
    """JSON-LD, microdata and RDFa have the same names."""
    return [{key: path} for key in STRUCTURED for path in paths]


def _meta(*names: str) -> list[dict[str, str]]:
    return [{"meta": name} for name in names]


_GTINS = ("gtin13", "gtin", "gtin14", "gtin12", "gtin8", "ean", "isbn")
SOURCES: Mapping[str, list[dict[str, str]]] = {
    "title": [*_structured("name"), *_meta("og:title"), {"css": "h1"}],
    "price": [
        *_structured("offers.price"),
        *_meta("product:sale_price:amount", "product:price:amount", "og:price:amount"),
    ],
    "list_price": _meta("product:original_price:amount"),
    "availability": [
        *_structured("offers.availability"),
        *_meta("product:availability", "og:availability"),
    ],
    "sku": [
        *_structured("sku", "offers.sku", "productID"),
        *_meta("product:retailer_item_id"),
    ],
    "gtin": [
        *_structured(*_GTINS, *(f"offers.{name}" for name in _GTINS[:5])),
        *_meta("product:ean", "product:upc"),
    ],
    "mpn": [*_structured("mpn"), *_meta("product:mfr_part_no")],
    "brand": [
        *_structured("brand.name", "manufacturer.name"),
        *_meta("product:brand", "og:brand"),
    ],
    "category": [
        *_jsonld(
            *(
                f"BreadcrumbList.itemListElement[{at}].{name}"
                for at in (-1, -2)
                for name in ("name", "item.name")
            )
        ),
        *_structured("category"),
        *_meta("product:category"),
    ],
    "image": [*_structured("image"), *_meta("og:image", "twitter:image")],
    "description": [*_structured("description"), *_meta("og:description", "description")],
    "rating": _structured("aggregateRating.ratingValue"),
}


def standard_definition(url: str) -> Site:
    """A definition for a page of which nothing is known but its address: what it says for machines,
    then what all its sources agree on."""
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
