"""Shops whose pages are nothing before their scripts have run, each in its own way: JSON in the
page, or JSON that the scripts ask for. `SCRIPTED` maps a name to a function that gives its pages,
its start and its truth."""

from __future__ import annotations

import json
from typing import Any

from tests.support.shops.shop_templates import Item, Shop, chunks, items, truth_of

_MONEY = "n => n.toLocaleString('en-US', {minimumFractionDigits: 2})"


def _entry(i: Item) -> dict[str, Any]:
    return {
        "id": i.number,
        "slug": i.slug,
        "name": i.title,
        "price": float(i.price),
        "currency": "EUR",
        "sku": i.sku,
        "inStock": i.available,
        "brand": {"name": i.brand, "slug": i.brand.lower()},
        "image": i.image,
        "description": i.description,
    }


def _shell(script: str, more: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><title>Shop</title></head><body>{more}'
        f'<noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div>'
        f"<script>const money = {_MONEY}; const root = document.getElementById('root');\n{script}</script></body></html>"
    )


def spa() -> Shop:
    """One page for all addresses: its router asks an interface for what it draws, numbered links lead on."""
    listed, pages, truth = items(12), {}, {}
    shell = _shell("""
const id = location.pathname.match(/^\\/p\\/(\\d+)/);
async function list() {
  const at = new URLSearchParams(location.search).get('page') || '1';
  const answer = await (await fetch('/api/list/' + at)).json();
  root.innerHTML = '<main><div class="tiles">' + answer.products.map(p =>
    `<div class="tile"><a href="/p/${p.id}/${p.slug}"><img src="${p.image}"><h3>${p.name}</h3></a><span class="tile-price">${money(p.price)} €</span></div>`).join('')
    + '</div><nav class="pages">' + answer.pages.map(n => `<a href="/?page=${n}">${n}</a>`).join(' ') + '</nav></main>';
}
async function product() {
  const p = await (await fetch('/api/product/' + id[1])).json();
  document.title = p.name + ' | Shop';
  root.innerHTML = `<main><h1 class="name">${p.name}</h1><p class="price">${money(p.price)} €</p>
    <p>SKU: <span class="sku">${p.sku}</span></p><p class="stock">${p.inStock ? 'In stock' : 'Sold out'}</p>
    <div class="description">${p.description}</div></main>`;
}
(id ? product : list)();
""")
    for number, on_page in chunks(listed, 4):
        pages["/" if number == 1 else f"/?page={number}"] = shell
        pages[f"/api/list/{number}"] = json.dumps(
            {"products": [_entry(i) for i in on_page], "pages": [1, 2, 3]}
        )
    for i in listed:
        path = f"/p/{i.number}/{i.slug}"
        pages[path] = shell
        pages[f"/api/product/{i.number}"] = json.dumps(_entry(i))
        truth[path] = truth_of(i, "title", "price", "sku", "availability")
    return Shop("/", pages, truth, 3)


def load_more() -> Shop:
    """A button extends the list; product pages are drawn from JSON that is in them."""
    listed, pages, truth = items(20), {}, {}
    pages["/all"] = _shell("""
let at = 0; root.innerHTML = '<ul class="grid"></ul><button class="load-more">Load more</button>';
const button = root.querySelector('button');
async function load() {
  const answer = await (await fetch('/api/from/' + at)).json();
  for (const p of answer.products) root.querySelector('ul').insertAdjacentHTML('beforeend',
    `<li class="card"><a href="/item/${p.slug}"><img src="${p.image}" alt=""><b class="card-name">${p.name}</b></a><i class="card-price">€ ${money(p.price)}</i></li>`);
  at += answer.products.length; if (!answer.more) button.remove();
}
button.addEventListener('click', load); load();
""")
    for number, on_page in chunks(listed, 4):
        at = 4 * (number - 1)
        pages[f"/api/from/{at}"] = json.dumps(
            {"products": [_entry(i) for i in on_page], "more": at + 4 < len(listed)}
        )
    for at, i in enumerate(listed):
        others = [_entry(other) for other in listed[at + 1 : at + 4]]
        state = {"session": {"user": None, "cart": {"items": [], "currency": "USD"}}, "related": others,
                 "pdp": {"product": _entry(i), "shop": {"name": "Shop"}}}  # fmt: skip
        path = f"/item/{i.slug}"
        pages[path] = _shell(
            f"window.__STATE__ = {json.dumps(state)};\nconst p = window.__STATE__.pdp.product;"
            "root.innerHTML = `<h1>${p.name}</h1><p class=price>€ ${money(p.price)}</p>`;"
        )
        truth[path] = truth_of(
            i, "title", "price", "sku", "availability", "brand", "image", "description"
        )
    return Shop("/all", pages, truth, 1)


def next_data() -> Shop:
    """Nothing is drawn on the server, all is in `__NEXT_DATA__`: lists with addresses, products with variants."""
    listed, pages, truth = items(30), {}, {}

    def page(props: dict[str, Any]) -> str:
        data = {"props": {"pageProps": props, "locale": "en"}, "page": "/", "buildId": "x7"}
        return (
            '<!doctype html><html lang="en"><head><title>Shop</title></head><body><div id="__next"></div>'
            f'<script id="__NEXT_DATA__" type="application/json">{json.dumps(data)}</script><script src="/_next/app.js"></script></body></html>'
        )

    for number, on_page in chunks(listed, 10):
        tiles = [
            {"url": f"/products/{i.slug}", "title": i.title, "image": {"src": i.image},
             "price": {"value": f"{i.price:.2f}", "currencyCode": "EUR"}} for i in on_page
        ]  # fmt: skip
        pages["/shop" if number == 1 else f"/shop?page={number}"] = page(
            {"menu": [{"url": f"/c/{n}", "title": f"Menu {n}"} for n in range(4)],
             "listing": {"hits": tiles, "nbPages": 3}}
        )  # fmt: skip
    for i in listed:
        product = {
            "title": i.title, "handle": i.slug, "descriptionHtml": f"<p>{i.description}</p>", "vendor": i.brand,
            "images": [{"src": i.image}],
            "price": {"value": f"{i.price:.2f}", "currencyCode": "EUR",
                      "compareAt": f"{i.list_price:.2f}" if i.list_price else None},
            "availability": {"status": "InStock" if i.available else "OutOfStock"},
            "sku": i.sku, "gtin": i.gtin, "rating": {"average": float(i.rating), "count": 12},
        }  # fmt: skip
        path = f"/products/{i.slug}"
        pages[path] = page({"product": product, "recommendations": []})
        truth[path] = truth_of(
            i, "title", "price", "sku", "gtin", "brand", "availability", "rating"
        )
    return Shop("/shop", pages, truth, 3)


def late_price() -> Shop:
    """Lists and titles are there at once, prices and stock come later."""
    listed, pages, truth = items(12), {}, {}
    for number, on_page in chunks(listed, 4):
        cards = "".join(
            f'<article class="prod"><a class="prod-link" href="/t/{i.number}.html"><img src="{i.image}"><span>{i.title}</span></a></article>'
            for i in on_page
        )
        following = f'<a rel="next" href="/list/{number + 1}">Next</a>' if number < 3 else ""
        pages[f"/list/{number}"] = f"<html lang=en><title>All</title>{cards}{following}"
    for i in listed:
        path = f"/t/{i.number}.html"
        pages[path] = (
            f'<html lang=en><title>{i.title} - late</title><h1>{i.title}</h1><div class="offer"><span class="offer-price"></span> <span class="offer-stock"></span></div>'
            f'<script>fetch("/api/offer/{i.number}").then(r => r.json()).then(o => {{ document.querySelector(".offer-price").textContent = "£" + o.price;'
            'document.querySelector(".offer-stock").textContent = o.inStock ? "In stock" : "Out of stock"; });</script>'
        )
        pages[f"/api/offer/{i.number}"] = json.dumps(
            {"price": f"{i.price:.2f}", "inStock": i.available}
        )
        truth[path] = truth_of(i, "title", "price", "availability")
    return Shop("/list/1", pages, truth, 3)


SCRIPTED = {"spa": spa, "load_more": load_more, "next_data": next_data, "late_price": late_price}
# What each asks browsers for.
QUEUES = {
    "spa": (True, True),
    "load_more": (True, False),
    "next_data": (False, False),
    "late_price": (False, True),
}
