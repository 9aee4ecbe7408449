"""Magento 2 (Adobe Commerce): GraphQL by GET, 100 products a page, configurable ones with their
variants, which stand for them. A product's SKU is its id: other ids are deprecated there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from scraper.domain import Fetched
from scraper.extract.adapter import Adapter, NextPage, origin
from scraper.plugins.platforms.adapter import amount, filled, parsed, prices, text

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
        self.first = _page(1).path

    def read(self, page: Fetched, asked: str) -> Iterator[dict[str, Any] | NextPage]:
        answer = parsed(page)
        if answer.get("errors"):
            message = str(answer["errors"][0].get("message", ""))
            raise ValueError(f"it answers with an error: {message[:100]}")
        products = answer["data"]["products"]
        at = products["page_info"]
        if not products["items"] and at["current_page"] == 1:
            raise ValueError("it lists no product")
        for product in products["items"]:
            url = _url(product, origin(page.url))
            variants = product.get("variants") or ()
            for variant in variants:
                labels = [str(label["label"]) for label in variant["attributes"]]
                yield _row(product, variant["product"], url, " / ".join(labels))
            if not variants:
                yield _row(product, product, url, None)
        if at["current_page"] < at["total_pages"]:
            yield _page(at["current_page"] + 1)


def _page(number: int) -> NextPage:
    return NextPage(f"/graphql?query={quote(_QUERY % (PER_PAGE, number), safe='')}")


def _url(product: dict[str, Any], shop: str) -> str | None:
    key = product.get("url_key")
    return f"{shop}/{key}{product.get('url_suffix') or ''}" if key else None


def _row(
    product: dict[str, Any], own: dict[str, Any], url: str | None, variant: str | None
) -> dict[str, Any]:
    least = own["price_range"]["minimum_price"]
    final, regular = least["final_price"], least["regular_price"]
    categories = product.get("categories") or ()
    row = {
        "id": own["sku"],
        "product_id": product["sku"],
        "title": text(product["name"]),
        "variant": variant,
        **prices(amount(final["value"]), amount(regular["value"]), final["currency"]),
        "availability": own["stock_status"] == "IN_STOCK",
        "stock": own.get("only_x_left_in_stock"),
        "sku": own["sku"],
        "category": next((category["name"] for category in categories), None),
        "image": (own.get("image") or product.get("image") or {}).get("url"),
        "description": text((product.get("description") or {}).get("html")),
        "url": url,
    }
    return filled(row)


MAGENTO = Magento()
