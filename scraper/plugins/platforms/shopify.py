"""Shopify: `/products.json`, 250 products a page until a page is empty, with all their variants.

It does not say its currency: `/meta.json` does, or `/cart.js` where robots.txt allows that one. The
currency goes on in the URL, by the parameter that also asks for prices in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scraper.domain import Fetched
from scraper.extract.adapter import Adapter, NextPage, origin
from scraper.plugins.platforms.adapter import amount, filled, param, parsed, prices, text

META, CART = "/meta.json", "/cart.js"
ONLY_VARIANT = "Default Title"


class Shopify(Adapter):
    name = "shopify"
    first = META
    paths: tuple[str, ...] = (META, CART, "/products.json")
    signs: tuple[bytes, ...] = (b"cdn.shopify.com", b"Shopify.theme", b"/cdn/shop/")

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | NextPage]:
        data = parsed(page)
        if urlsplit(asked).path in (META, CART):
            yield _products(1, data["currency"])
            return
        currency, number = param(asked, "currency") or None, int(param(asked, "page", "1"))
        listed = data["products"]
        if not listed and number == 1:
            raise ValueError("it lists no product")
        for product in listed:
            for variant in product["variants"]:
                yield _row(product, variant, origin(page.url), currency)
        if listed:
            yield _products(number + 1, currency)

    def without(self, asked: str) -> NextPage | None:
        return {META: NextPage(CART), CART: _products(1, None)}.get(urlsplit(asked).path)


def _products(number: int, currency: str | None) -> NextPage:
    if currency is not None and not (len(currency) == 3 and currency.isascii()):
        raise ValueError(f"{currency[:20]!r} is no currency")
    beside = f"&currency={currency}" if currency else ""
    return NextPage(f"/products.json?limit=250&page={number}{beside}")


def _row(
    product: dict[str, Any], variant: dict[str, Any], shop: str, currency: str | None
) -> dict[str, Any]:
    several = len(product["variants"]) > 1
    image = variant.get("featured_image") or next(iter(product.get("images") or ()), None) or {}
    price = amount(variant["price"])
    if price is None:
        raise ValueError(f"the variant {variant['id']} has no price")
    url = f"{shop}/products/{product['handle']}"
    row = {
        "id": str(variant["id"]),
        "product_id": str(product["id"]),
        "title": text(product["title"]),
        "variant": None if variant.get("title") == ONLY_VARIANT else variant.get("title"),
        **prices(price, amount(variant.get("compare_at_price")), currency),
        "availability": variant.get("available"),
        "stock": variant.get("inventory_quantity"),
        "sku": variant.get("sku"),
        "gtin": variant.get("barcode"),
        "brand": product.get("vendor"),
        "category": product.get("product_type"),
        "image": image.get("src"),
        "description": text(product.get("body_html")),
        "url": f"{url}?variant={variant['id']}" if several else url,
    }
    return filled(row)


SHOPIFY = Shopify()
