"""Magento 2 (Adobe Commerce): GraphQL by GET, 100 products per page. The variants of a configurable
product replace it. A product's SKU is its id, since Magento deprecates other ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from scraper.domain import Fetched
from scraper.extract.adapter import Adapter, NextPage, origin
from scraper.plugins.platforms.adapter import (
    drop_empty,
    extract_text,
    parse_amount,
    parse_json,
    price_fields,
)

PER_PAGE = 100
_PRICE = "price_range{minimum_price{regular_price{value currency}final_price{value currency}}}"
_OWN = f"sku name stock_status only_x_left_in_stock image{{url}} {_PRICE}"
_QUERY = (
    '{products(filter:{price:{from:"0"}},pageSize:%d,currentPage:%d)'
    "{page_info{current_page total_pages}items{"
    f"__typename {_OWN} url_key url_suffix categories{{name}}description{{html}}"
    "... on ConfigurableProduct{variants{attributes{label}product{"
    f"{_OWN}"
    "}}}}}}"
)


class Magento(Adapter):
    name = "magento"
    paths: tuple[str, ...] = ("/graphql",)
    signs: tuple[bytes, ...] = (b"Magento_", b"text/x-magento-init", b"mage/cookies")

    def __init__(self) -> None:
        self.first = _next_page(1).path

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | NextPage]:
        answer = parse_json(page)
        if answer.get("errors"):
            message = str(answer["errors"][0].get("message", ""))
            raise ValueError(f"it answers with an error: {message[:100]}")
        products = answer["data"]["products"]
        at = products["page_info"]
        if not products["items"] and at["current_page"] == 1:
            raise ValueError("it lists no products")
        for product in products["items"]:
            url = _product_url(product, origin(page.url))
            variants = product.get("variants") or ()
            for variant in variants:
                labels = [str(label["label"]) for label in variant["attributes"]]
                yield _make_row(product, variant["product"], url, " / ".join(labels))
            if not variants:
                yield _make_row(product, product, url, None)
        if at["current_page"] < at["total_pages"]:
            yield _next_page(at["current_page"] + 1)


def _next_page(number: int) -> NextPage:
    return NextPage(f"/graphql?query={quote(_QUERY % (PER_PAGE, number), safe='')}")


def _product_url(product: dict[str, Any], shop: str) -> str | None:
    key = product.get("url_key")
    return f"{shop}/{key}{product.get('url_suffix') or ''}" if key else None


def _make_row(
    product: dict[str, Any], own: dict[str, Any], url: str | None, variant: str | None
) -> dict[str, Any]:
    least = own["price_range"]["minimum_price"]
    final, regular = least["final_price"], least["regular_price"]
    categories = product.get("categories") or ()
    row = {
        "id": own["sku"],
        "product_id": product["sku"],
        "title": extract_text(product["name"]),
        "variant": variant,
        **price_fields(
            parse_amount(final["value"]), parse_amount(regular["value"]), final["currency"]
        ),
        "availability": own["stock_status"] == "IN_STOCK",
        "stock": own.get("only_x_left_in_stock"),
        "sku": own["sku"],
        "category": extract_text(next((category["name"] for category in categories), None)),
        "image": (own.get("image") or product.get("image") or {}).get("url"),
        "description": extract_text((product.get("description") or {}).get("html")),
        "url": url,
    }
    return drop_empty(row)


MAGENTO = Magento()
