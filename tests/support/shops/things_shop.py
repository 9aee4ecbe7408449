"""A shop of seven things, and its definition."""

from __future__ import annotations

from pathlib import Path

from tests.support.shops.static_shop import StaticShop

LISTING = "".join(f'<a class="p" href="/p/{n}">Thing {n}</a>' for n in range(1, 8))


PAGES = {
    "/": LISTING,
    **{f"/p/{n}": f"<h1>Thing {n}</h1><b class=price>£{n}.50</b>" for n in range(1, 8)},
    "/secret": "<h1>Secret</h1>",
}


DEFINITION = """
start: {url}/
rate: {rate}
allow_private: true
listing: {{products: a.p}}
product:
  id: {{url: '/p/(\\d+)'}}
  fields:
    title: {{css: h1, required: true}}
    price: {{css: .price, type: price, required: true}}
"""


def define(shop: StaticShop, rate: str = "100/s", text: str = DEFINITION) -> None:
    Path("sites").mkdir()
    Path("sites/things.yaml").write_text(text.format(url=shop.url, rate=rate))
