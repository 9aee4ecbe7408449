"""A large page's row, as scripts read it: by parsel or selectolax, and what BENCH_READ says.

A row is (id, URL, JSON of eight fields). JSON-LD is looked for in every block of the page, and one
that cannot be read is left out, as scripts do.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

READ = os.environ["BENCH_READ"]
BLOCKS = 'script[type="application/ld+json"]'
# The field, the CSS selector, its attribute or None for its text, whether all matches count.
FIELDS: tuple[tuple[str, str, str | None, bool], ...] = (
    ("title", "title", None, False),
    ("name", "h1", None, False),
    ("image", 'meta[property="og:image"]', "content", False),
    ("price", ".price", None, False),
    ("crumbs", ".breadcrumb a", None, True),
    ("pictures", ".gallery img", "src", True),
    ("cells", "table td", None, True),
    ("description", ".description p", None, False),
)
_CLASSED = "contains(concat(' ', normalize-space(@class), ' '), ' %s ')"
XPATHS = {
    "title": "//title/text()",
    "name": "//h1/text()",
    "image": "//meta[@property='og:image']/@content",
    "price": f"//*[{_CLASSED % 'price'}]/text()",
    "crumbs": f"//*[{_CLASSED % 'breadcrumb'}]//a/text()",
    "pictures": f"//*[{_CLASSED % 'gallery'}]//img/@src",
    "cells": "//table//td/text()",
    "description": f"//*[{_CLASSED % 'description'}]//p/text()",
}
_ID = re.compile(r"/p/(\d+)")


def row(page: Any, url: str) -> tuple[str, str, str]:
    """`page` is parsel's Selector, anything with its `.css()`, or selectolax's LexborHTMLParser."""
    parsel = hasattr(page, "xpath")
    if READ == "jsonld":
        texts = (
            page.css(BLOCKS + "::text").getall()
            if parsel
            else [node.text() for node in page.css(BLOCKS)]
        )
        data = _of_jsonld(texts)
    elif READ == "xpath":
        data = {
            name: page.xpath(XPATHS[name]).getall() if many else page.xpath(XPATHS[name]).get()
            for name, _, _, many in FIELDS
        }
    else:
        read = _by_parsel if parsel else _by_selectolax
        data = {name: read(page, css, attr, many) for name, css, attr, many in FIELDS}
    return _ID.search(url)[1], url, json.dumps(data).replace("\\u0000", "")


def _by_parsel(page: Any, css: str, attr: str | None, many: bool) -> Any:
    texts = page.css(f"{css}::attr({attr})" if attr else f"{css}::text")
    return texts.getall() if many else texts.get()


def _by_selectolax(page: Any, css: str, attr: str | None, many: bool) -> Any:
    if many:
        return [_text(node, attr) for node in page.css(css)]
    node = page.css_first(css)
    return None if node is None else _text(node, attr)


def _text(node: Any, attr: str | None) -> str | None:
    return node.attributes.get(attr) if attr else node.text()


def _of_jsonld(texts: list[str]) -> dict[str, Any]:
    for text in texts:
        try:
            block = json.loads(text)
        except ValueError:
            continue
        for thing in block if isinstance(block, list) else [block]:
            if isinstance(thing, dict) and thing.get("@type") == "Product":
                offer, brand = thing.get("offers") or {}, thing.get("brand")
                offer = offer[0] if isinstance(offer, list) and offer else offer
                return {
                    "name": thing.get("name"),
                    "price": offer.get("price"),
                    "currency": offer.get("priceCurrency"),
                    "brand": brand.get("name") if isinstance(brand, dict) else brand,
                    "sku": thing.get("sku"),
                    "gtin": thing.get("gtin13"),
                    "availability": offer.get("availability"),
                    "description": thing.get("description"),
                }
    return {}
