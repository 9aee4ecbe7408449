"""WooCommerce: the Store API, `/wp-json/wc/store/v1/products`, 100 products a page.

Products with variations stand for these alone: they come by themselves, with `type=variation`, once
any page has such a product. Prices are in the currency's smallest unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from typing import Any

from scraper.domain import Fetched
from scraper.extract.adapter import Adapter, NextPage
from scraper.plugins.platforms.adapter import amount, filled, param, parsed, prices, text

PATH, PER_PAGE = "/wp-json/wc/store/v1/products", 100


class WooCommerce(Adapter):
    name = "woocommerce"
    first = f"{PATH}?per_page={PER_PAGE}&page=1"
    paths: tuple[str, ...] = (PATH,)
    signs: tuple[bytes, ...] = (b"woocommerce",)

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | NextPage]:
        listed, number, kind = parsed(page), int(param(asked, "page", "1")), param(asked, "type")
        if not isinstance(listed, list):
            raise ValueError(f"no list of products: {str(listed.get('message', ''))[:100]}")
        if not listed and number == 1:
            raise ValueError("it lists no product")
        varied = False
        for product in listed:
            if kind and product["type"] != kind:
                raise ValueError(f"asked for type={kind}, it gives {str(product['type'])[:40]!r}")
            if product["type"] == "variable" and product.get("variations"):
                varied = True
            else:
                yield _row(product)
        pages = page.headers.get("x-wp-totalpages", "")
        if number < int(pages) if pages else len(listed) == PER_PAGE:
            yield _products(number + 1, kind)
        if varied:
            yield _products(1, "variation")


def _products(number: int, kind: str) -> NextPage:
    beside = f"&type={kind}" if kind else ""
    return NextPage(f"{PATH}?per_page={PER_PAGE}&page={number}{beside}")


def _row(product: dict[str, Any]) -> dict[str, Any]:
    price = product["prices"]
    unit = int(price["currency_minor_unit"])
    rated = product.get("review_count")
    row = {
        "id": str(product["id"]),
        "product_id": str(product["parent"]) if product.get("parent") else str(product["id"]),
        "title": text(product["name"]),
        "variant": text(product.get("variation")),
        **prices(
            amount(price["price"], unit),
            amount(price.get("regular_price"), unit),
            price["currency_code"],
        ),
        "availability": product.get("is_in_stock"),
        "stock": product.get("low_stock_remaining"),
        "sku": product.get("sku"),
        "gtin": product.get("global_unique_id"),
        "brand": _first(product.get("brands"), "name"),
        "category": _first(product.get("categories"), "name"),
        "image": _first(product.get("images"), "src"),
        "description": text(product.get("description")) or text(product.get("short_description")),
        "rating": amount(product.get("average_rating")) if rated else None,
        "url": product.get("permalink"),
    }
    return filled(row)


def _first(listed: Any, key: str) -> str | None:
    given = next((entry.get(key) for entry in listed or ()), None)
    return unescape(given) if isinstance(given, str) else None


WOOCOMMERCE = WooCommerce()
