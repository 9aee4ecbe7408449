"""Shops on 127.0.0.1 that answer as Shopify, WooCommerce and Magento 2 document it, with their page
limits: `PlatformShop(name, products)`. `truth` is what each variant is, by its id."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, dict[str, str], str]
NO_JSON = "<html><title>Opening soon</title><form action=/password></form>"
HEADS = {
    "shopify": '<script src="https://cdn.shopify.com/s/files/theme.js"></script>',
    "woocommerce": '<meta name="generator" content="WooCommerce 9.4.2">',
    "magento": '<script type="text/x-magento-init">{}</script>',
}


class PlatformShop:
    """Every third product, or each of `varied`, has three variants; none with 0. `closed`: what the interface answers from its page
    `closed_from` on; `slow_down`: how many requests are answered by a 429 first. `escaped`: what
    all names begin with, as WordPress stores them."""

    def __init__(self, name: str, products: int = 12, varied: int = 3) -> None:
        self.name, self.products, self.varied = name, products, varied
        self.closed: int | str | None = None
        self.closed_from, self.slow_down = 1, 0
        self.says_currency = True
        self.escaped = "Cup &amp; saucer"
        self.asked: list[str] = []
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.asked.append(self.path)
                status, headers, text = shop.answer(self.path)
                body = text.encode()
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def interface(self) -> list[str]:
        """The pages of the interface that were asked for."""
        return [path for path in self.asked if re.match(r"/(products\.json|wp-json|graphql)", path)]

    def variants(self, number: int) -> list[tuple[str, str | None]]:
        """The id and the words of each."""
        several = self.varied and number % self.varied == 0
        marks = ["S", "M", "L"] if several else [None]
        return [
            (f"SKU-{number}-{mark or 0}" if self.name == "magento" else f"{number}{at}", mark)
            for at, mark in enumerate(marks)
        ]

    def name_of(self, number: int) -> str:
        """The name as people read it."""
        return f"{unescape(self.escaped)} {number}"

    @property
    def truth(self) -> dict[str, dict[str, Any]]:
        rows = {}
        for number in range(1, self.products + 1):
            for at, (key, mark) in enumerate(self.variants(number)):
                row: dict[str, Any] = {
                    "title": self.name_of(number),
                    "price": f"{number + at}.05",
                    "price_currency": "CHF",
                    "availability": number % 5 > 0,
                    "sku": f"SKU-{number}-{mark or 0}",
                    "image": f"{self.url}/i/{number}.jpg",
                    "description": f"Holds {number} dl.",
                }
                if number % 4 == 0:
                    row |= {"list_price": f"{number + at + 10}.00", "list_price_currency": "CHF"}
                if mark:
                    row["variant"] = f"Size: {mark}" if self.name == "woocommerce" else mark
                if self.name == "shopify":
                    row |= {"brand": "Pottery", "gtin": f"40000{number:08}"}
                if self.name != "woocommerce" or not mark:
                    row["category"] = "Cups"
                rows[key] = row
        return rows

    def answer(self, path: str) -> Answer:
        parts = urlsplit(path)
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        number = int(re.sub(r".*currentPage:(\d+).*", r"\1", asked.get("query", "")) or 0)
        number = number or int(asked.get("page", "1"))
        if path in self.interface:
            if self.slow_down:
                self.slow_down -= 1
                return 429, {"Retry-After": "1"}, "slow down"
            if self.closed is not None and number >= self.closed_from:
                if isinstance(self.closed, int):
                    return self.closed, {}, "no"
                return 200, {}, self.closed
        match self.name, parts.path:
            case _, "/robots.txt":
                return 404, {}, ""
            case "shopify", "/meta.json" if self.says_currency:
                return 200, {}, json.dumps({"id": 1, "name": "Cups", "currency": "CHF"})
            case "shopify", "/products.json":
                return self._shopify(number, min(250, int(asked.get("limit", "30"))))
            case "woocommerce", "/wp-json/wc/store/v1/products":
                size = int(asked.get("per_page", "10"))
                if size > 100:
                    return 400, {}, '{"code": "rest_invalid_param"}'
                return self._woocommerce(number, size, asked.get("type"))
            case "magento", "/graphql":
                size = int(re.sub(r".*pageSize:(\d+).*", r"\1", asked["query"]))
                return self._magento(number, size)
        return self._page(parts.path)

    def _page(self, path: str) -> Answer:
        headers = {"Content-Type": "text/html; charset=utf-8"}
        if path == "/":
            cards = "".join(
                f'<div class="card"><a href="/p/{n}"><img src="/i/{n}.jpg">Cup &amp; saucer {n}</a>'
                f'<b class="amount">{n}.05 CHF</b></div>'
                for n in range(1, min(self.products, 12) + 1)
            )
            return 200, headers, f"<html><head>{HEADS[self.name]}</head><body>{cards}</body>"
        if found := re.fullmatch(r"/p/(\d+)", path):
            name = f"{self.escaped} {found[1]}"
            return (
                200,
                headers,
                (
                    f"<html><head><title>{name} - Cups</title>{self._meta_of(int(found[1]))}</head>"
                    f'<body><h1>{name}</h1><span class="price">{found[1]}.05 CHF</span></body>'
                ),
            )
        return 404, headers, "<h1>Not found</h1>"

    def _meta_of(self, number: int) -> str:
        """The names as plug-ins of WordPress write them: JSON-LD has references, which JSON does
        not need, and meta tags are escaped once more."""
        name, code = f"{self.escaped} {number}", f"4006381{number:05}"
        check = -sum(int(digit) * (1, 3)[at % 2] for at, digit in enumerate(code)) % 10
        data = {
            "@context": "https://schema.org", "@type": "Product", "name": name,
            "gtin13": f"{code}{check}", "mpn": f"M-{number}", "category": self.escaped,
            "brand": {"@type": "Brand", "name": f"{self.escaped} AG"},
        }  # fmt: skip
        return (
            f'<meta property="og:title" content="{escape(name)}">'
            f'<script type="application/ld+json">{json.dumps(data)}</script>'
        )

    def _shopify(self, number: int, size: int) -> Answer:
        listed = []
        for n in self._numbers(number, size):
            variants = [
                {
                    "id": int(key), "title": mark or "Default Title", "option1": mark,
                    "sku": row["sku"], "available": row["availability"], "price": row["price"],
                    "compare_at_price": row.get("list_price"), "barcode": row["gtin"],
                    "featured_image": None, "position": 1, "product_id": n,
                }
                for key, mark in self.variants(n)
                for row in [self._rows[key]]
            ]  # fmt: skip
            listed.append({
                "id": n, "title": self.name_of(n), "handle": f"cup-{n}", "vendor": "Pottery",
                "body_html": f"<p>Holds <b>{n} dl</b>.</p>", "product_type": "Cups",
                "variants": variants, "images": [{"src": f"{self.url}/i/{n}.jpg"}],
            })  # fmt: skip
        return 200, {"Content-Type": "application/json"}, json.dumps({"products": listed})

    def _woocommerce(self, number: int, size: int, kind: str | None) -> Answer:
        entries = []
        for n in range(1, self.products + 1):
            variants = self.variants(n)
            if kind == "variation":
                entries += [(n, key, mark) for key, mark in variants if mark]
            else:
                entries.append((n, variants[0][0] if len(variants) == 1 else str(10**6 + n), None))
        shown = entries[(number - 1) * size : number * size]
        listed = []
        for n, key, mark in shown:
            row = self._rows[self.variants(n)[0][0] if key not in self._rows else key]
            price = row["price"].replace(".", "")
            listed.append({
                "id": int(key), "name": f"{self.escaped} {n}", "sku": row["sku"],
                "type": "variation" if mark else "simple" if key in self._rows else "variable",
                "parent": 10**6 + n if mark else 0, "variation": f"Size: {mark}" if mark else "",
                "variations": [] if key in self._rows else [{"id": int(i)} for i, _ in self.variants(n)],
                "permalink": f"{self.url}/p/{n}", "description": f"<p>Holds {n} dl.</p>",
                "prices": {
                    "price": price, "sale_price": price, "currency_code": "CHF",
                    "regular_price": row.get("list_price", row["price"]).replace(".", ""),
                    "currency_minor_unit": 2,
                },
                "average_rating": "0", "review_count": 0, "is_in_stock": row["availability"],
                "low_stock_remaining": None, "categories": [] if mark else [{"name": "Cups"}],
                "images": [{"src": f"{self.url}/i/{n}.jpg"}],
            })  # fmt: skip
        pages = -(-len(entries) // size)
        headers = {"X-WP-Total": str(len(entries)), "X-WP-TotalPages": str(pages)}
        return 200, headers, json.dumps(listed)

    def _magento(self, number: int, size: int) -> Answer:
        pages = -(-self.products // size)
        if number > pages:
            errors = [{"message": f"currentPage value {number} specified is greater"}]
            return 200, {}, json.dumps({"errors": errors, "data": {"products": None}})
        items = []
        for n in self._numbers(number, size):
            own = [self._magento_own(n, key) for key, _ in self.variants(n)]
            item = own[0] | {
                "__typename": "SimpleProduct", "url_key": f"cup-{n}", "url_suffix": ".html",
                "categories": [{"name": "Cups"}], "description": {"html": f"<p>Holds {n} dl.</p>"},
            }  # fmt: skip
            if len(own) > 1:
                marks = [mark for _, mark in self.variants(n)]
                item |= {"__typename": "ConfigurableProduct", "sku": f"SKU-{n}", "variants": [
                    {"attributes": [{"label": mark}], "product": part}
                    for mark, part in zip(marks, own, strict=True)
                ]}  # fmt: skip
            items.append(item)
        info = {"current_page": number, "total_pages": pages}
        answer = {"data": {"products": {"page_info": info, "items": items}}}
        return 200, {"Content-Type": "application/json"}, json.dumps(answer)

    def _magento_own(self, n: int, key: str) -> dict[str, Any]:
        row = self._rows[key]
        return {
            "sku": key, "name": self.name_of(n), "only_x_left_in_stock": None,
            "stock_status": "IN_STOCK" if row["availability"] else "OUT_OF_STOCK",
            "image": {"url": f"{self.url}/i/{n}.jpg"},
            "price_range": {"minimum_price": {
                "final_price": {"value": float(row["price"]), "currency": "CHF"},
                "regular_price": {
                    "value": float(row.get("list_price", row["price"])), "currency": "CHF",
                },
            }},
        }  # fmt: skip

    @property
    def _rows(self) -> dict[str, dict[str, Any]]:
        if not hasattr(self, "_kept"):
            self._kept = self.truth
        return self._kept

    def _numbers(self, number: int, size: int) -> range:
        return range((number - 1) * size + 1, min(number * size, self.products) + 1)
