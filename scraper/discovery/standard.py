"""The fields that shops have in common, and where pages say them for machines: JSON-LD, microdata,
meta tags. As sources of a definition, the most lasting first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from scraper.rules.urls import host_of, name_and_port
from scraper.sites.definition import Site

# A field's options in a definition, beside its sources.
TYPES: dict[str, dict[str, Any]] = {
    "title": {},
    "price": {"type": "price"},
    "list_price": {"type": "price"},
    "availability": {"type": "bool"},
    "stock": {"type": "int"},
    "sku": {},
    "gtin": {},
    "mpn": {},
    "brand": {},
    "category": {},
    "image": {"type": "url"},
    "description": {},
    "rating": {"type": "decimal"},
}
_PRODUCT = '[itemtype*="schema.org/Product"]'


def _itemprop(name: str, attribute: str = "content", inside: str = "") -> list[dict[str, str]]:
    """The attribute where there is one, else the element's text."""
    element = f"{_PRODUCT} {inside}[itemprop={name}]"
    return [{"css": f"{element}::attr({attribute})"}, {"css": element}]


def _meta(*names: str) -> list[dict[str, str]]:
    return [
        {"css": f'meta[{attribute}="{name}"]::attr(content)'}
        for name in names
        for attribute in ("property", "name")
    ]


def _jsonld(*paths: str) -> list[dict[str, str]]:
    return [{"jsonld": path} for path in paths]


SOURCES: Mapping[str, list[dict[str, str]]] = {
    "title": [*_jsonld("name"), *_itemprop("name"), *_meta("og:title"), {"css": "h1"}],
    "price": [
        *_jsonld("offers.price"),
        *_itemprop("price"),
        *_itemprop("lowPrice"),
        *_meta("product:sale_price:amount", "product:price:amount", "og:price:amount"),
    ],
    "list_price": _meta("product:original_price:amount"),
    "availability": [
        *_jsonld("offers.availability"),
        *_itemprop("availability", "href"),
        *_itemprop("availability"),
        *_meta("product:availability", "og:availability"),
    ],
    "sku": [
        *_jsonld("sku", "offers.sku", "productID"),
        *_itemprop("sku"),
        *_meta("product:retailer_item_id"),
    ],
    "gtin": [
        *(
            source
            for name in ("gtin13", "gtin", "gtin14", "gtin12", "gtin8")
            for source in _jsonld(name, f"offers.{name}")
        ),
        *(source for name in ("gtin13", "gtin", "gtin12") for source in _itemprop(name)),
        *_meta("product:ean", "product:upc"),
    ],
    "mpn": [*_jsonld("mpn"), *_itemprop("mpn"), *_meta("product:mfr_part_no")],
    "brand": [
        *_jsonld("brand.name", "manufacturer.name"),
        *_itemprop("name", inside="[itemprop=brand] "),
        *_itemprop("brand"),
        *_meta("product:brand", "og:brand"),
    ],
    "category": [
        *_jsonld("category"),
        *_itemprop("category"),
        *_meta("product:category"),
    ],
    "image": [*_jsonld("image"), *_itemprop("image", "src"), *_meta("og:image", "twitter:image")],
    "description": [
        *_jsonld("description"),
        *_itemprop("description"),
        *_meta("og:description", "description"),
    ],
    "rating": [
        *_jsonld("aggregateRating.ratingValue"),
        *_itemprop("ratingValue"),
    ],
}


def is_private(url: str) -> bool:
    """Whether the address itself says that it is on this machine or within its network."""
    name, _ = name_and_port(host_of(url))
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return not ip_address(name.strip("[]")).is_global
    except ValueError:
        return False


def standard_definition(url: str) -> Site:
    """A definition for a page of which nothing is known but its address."""
    return Site.model_validate(
        {
            "name": "standard",
            "start": [url],
            "allow_private": is_private(url),
            "listing": {"products": "a"},
            "product": {
                "fields": {
                    name: {**TYPES[name], "any": sources} for name, sources in SOURCES.items()
                }
            },
        }
    )
