"""Shopify: `/products.json`, 250 products per page until a page is empty, with all their variants.

The currency comes from `/meta.json`, or from `/cart.js` if robots.txt allows it. It is passed on in
the parameter of the URL that also requests prices in this currency.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scraper.domain import Fetched
from scraper.extract.adapter import Adapter, NextPage, origin
from scraper.plugins.platforms.adapter import (
    drop_empty,
    extract_text,
    parse_amount,
    parse_json,
    price_fields,
    read_parameter,
)

META, CART = "/meta.json", "/cart.js"
ONLY_VARIANT = "Default Title"


class Shopify(Adapter):
    name = "shopify"
    first = META
    paths: tuple[str, ...] = (META, CART, "/products.json")
    signs: tuple[bytes, ...] = (b"cdn.shopify.com", b"Shopify.theme", b"/cdn/shop/")

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | NextPage]:
        data = parse_json(page)
        if urlsplit(asked).path in (META, CART):
            yield _next_page(1, data["currency"])
            return
        currency, number = (
            read_parameter(asked, "currency") or None,
            int(read_parameter(asked, "page", "1")),
        )
        listed = data["products"]
        if not listed and number == 1:
            raise ValueError("it lists no products")
        for product in listed:
            for variant in product["variants"]:
                yield _make_row(product, variant, origin(page.url), currency)
        if listed:
            yield _next_page(number + 1, currency)

    def without(self, asked: str) -> NextPage | None:
        return {META: NextPage(CART), CART: _next_page(1, None)}.get(urlsplit(asked).path)


def _next_page(number: int, currency: str | None) -> NextPage:
    if currency is not None and not (len(currency) == 3 and currency.isascii()):
        raise ValueError(f"{currency[:20]!r} is not a currency")
    suffix = f"&currency={currency}" if currency else ""
    return NextPage(f"/products.json?limit=250&page={number}{suffix}")


def _make_row(
    product: dict[str, Any], variant: dict[str, Any], shop: str, currency: str | None
) -> dict[str, Any]:
    several = len(product["variants"]) > 1
    image = variant.get("featured_image") or next(iter(product.get("images") or ()), None) or {}
    price = parse_amount(variant["price"])
    if price is None:
        raise ValueError(f"the variant {variant['id']} has no price")
    url = f"{shop}/products/{product['handle']}"
    row = {
        "id": str(variant["id"]),
        "product_id": str(product["id"]),
        "title": extract_text(product["title"]),
        "variant": None if variant.get("title") == ONLY_VARIANT else variant.get("title"),
        **price_fields(price, parse_amount(variant.get("compare_at_price")), currency),
        "availability": variant.get("available"),
        "stock": variant.get("inventory_quantity"),
        "sku": variant.get("sku"),
        "gtin": variant.get("barcode"),
        "brand": extract_text(product.get("vendor")),
        "category": extract_text(product.get("product_type")),
        "image": image.get("src"),
        "description": extract_text(product.get("body_html")),
        "url": f"{url}?variant={variant['id']}" if several else url,
    }
    return drop_empty(row)


SHOPIFY = Shopify()
