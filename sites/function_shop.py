"""The Python of sites/function-shop.yaml: one product for each variant of a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from scraper.sites.page import Page


def product(page: Page) -> Iterator[dict[str, Any]]:
    """Reads `<script id="state">{"name": …, "variants": [{"sku": …, "size": …, "cents":
    …}]}</script>`."""
    state = json.loads(page.selector.css("script#state::text").get(""))
    for variant in state["variants"]:
        yield {
            "id": variant["sku"],
            "name": state["name"],
            "size": variant.get("size"),
            "price": Decimal(variant["cents"]) / 100,
            "price_currency": "GBP",
        }
