"""WooCommerce: the Store API, `/wp-json/wc/store/v1/products`, 100 products per page.

Variations replace their product. They are fetched with `type=variation` if any page has a product
with variations. Prices are in the currency's smallest unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scraper.domain import Fetched
from scraper.extract.adapter import Adapter, NextPage
from scraper.plugins.platforms.adapter import (
    drop_empty,
    extract_text,
    parse_amount,
    parse_json,
    price_fields,
    read_parameter,
)

PATH, PER_PAGE = "/wp-json/wc/store/v1/products", 100
# Decimal places: ISO 4217 has currencies with up to four.
UNITS = frozenset("0123456789")


class WooCommerce(Adapter):
    name = "woocommerce"
    first = f"{PATH}?per_page={PER_PAGE}&page=1"
    paths: tuple[str, ...] = (PATH,)
    signs: tuple[bytes, ...] = (b"woocommerce",)

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | NextPage]:
        listed, number, kind = (
            parse_json(page),
            int(read_parameter(asked, "page", "1")),
            read_parameter(asked, "type"),
        )
        if not isinstance(listed, list):
            raise ValueError(f"not a list of products: {str(listed.get('message', ''))[:100]}")
        if not listed and number == 1:
            raise ValueError("it lists no products")
        varied = False
        for product in listed:
            if kind and product["type"] != kind:
                raise ValueError(f"asked for type={kind}, it gives {str(product['type'])[:40]!r}")
            if product["type"] == "variable" and product.get("variations"):
                varied = True
            else:
                yield _make_row(product)
        pages = page.headers.get("x-wp-totalpages", "")
        if number < int(pages) if pages else len(listed) == PER_PAGE:
            yield _next_page(number + 1, kind)
        if varied:
            yield _next_page(1, "variation")


def _next_page(number: int, kind: str) -> NextPage:
    suffix = f"&type={kind}" if kind else ""
    return NextPage(f"{PATH}?per_page={PER_PAGE}&page={number}{suffix}")


def _make_row(product: dict[str, Any]) -> dict[str, Any]:
    price = product["prices"]
    unit = price["currency_minor_unit"]
    # As an integer, 1e999999999 would occupy the process for hours.
    if str(unit) not in UNITS:
        raise ValueError(f"{str(unit)[:20]!r} is not a number of decimal places")
    unit = int(unit)
    rated = product.get("review_count")
    row = {
        "id": str(product["id"]),
        "product_id": str(product["parent"]) if product.get("parent") else str(product["id"]),
        "title": extract_text(product["name"]),
        "variant": extract_text(product.get("variation")),
        **price_fields(
            parse_amount(price["price"], unit),
            parse_amount(price.get("regular_price"), unit),
            price["currency_code"],
        ),
        "availability": product.get("is_in_stock"),
        "stock": product.get("low_stock_remaining"),
        "sku": product.get("sku"),
        "gtin": product.get("global_unique_id"),
        "brand": _read_first(product.get("brands"), "name"),
        "category": _read_first(product.get("categories"), "name"),
        "image": _read_first(product.get("images"), "src"),
        "description": extract_text(product.get("description"))
        or extract_text(product.get("short_description")),
        "rating": parse_amount(product.get("average_rating")) if rated else None,
        "url": product.get("permalink"),
    }
    return drop_empty(row)


def _read_first(listed: Any, key: str) -> str | None:
    return extract_text(next((entry.get(key) for entry in listed or ()), None))


WOOCOMMERCE = WooCommerce()
