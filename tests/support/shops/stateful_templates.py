"""Shops whose data is where no markup says so: JSON in attributes, caches of GraphQL clients,
lines of one cell, prices in pieces, categories of categories."""

from __future__ import annotations

import json
from decimal import Decimal
from html import escape

from tests.support.shops.shop_templates import Item, Shop, chunks, euro, items, truth_of

TOPS = {"haus": ["bad", "bett", "tisch"], "hof": ["beet", "teich", "zaun"], "weg": ["rad", "zelt"]}


def _cents(price: Decimal) -> dict[str, object]:
    return {"amount": int(price * 100), "currency": "GBP", "formatted": f"£{price:,.2f}"}


def inertia() -> Shop:
    """English: all is JSON in an attribute, prices are in pence next to what people see."""
    listed, pages, truth = items(), {}, {}

    def frame(props: dict[str, object]) -> str:
        data = json.dumps({"component": "Page", "props": {"auth": {"user": None}, **props}})
        return f'<html lang="en"><title>Store</title><script src="/app.js"></script><div id="app" data-page="{escape(data)}"></div>'

    def small(i: Item) -> dict[str, object]:
        image = {"url": i.image, "alt": i.title}
        url = f"/products/{i.slug}"
        return {"id": i.number, "name": i.title, "url": url, "image": image, "price": _cents(i.price)}  # fmt: skip

    for number, on_page in chunks(listed, 12):
        more = number * 12 < len(listed)
        links = {"prev": None, "next": f"/products?page={number + 1}" if more else None}
        data = {"data": list(map(small, on_page)), "links": links}
        pages["/" if number == 1 else f"/products?page={number}"] = frame({"products": data})
    for i in listed:
        was = _cents(i.list_price) if i.list_price else None
        product = {
            **small(i),
            "sku": i.sku,
            "barcode": i.gtin,
            "in_stock": i.available,
            "compare_at_price": was,
        }
        product["brand"] = {"id": 4, "name": i.brand}
        others = [small(other) for other in listed[:4]]
        pages[f"/products/{i.slug}"] = frame({"product": product, "related": others})
        names = ("title", "price", "list_price", "sku", "gtin", "brand", "availability")
        truth[f"/products/{i.slug}"] = truth_of(i, *names)
    return Shop("/", pages, truth, 4)


def apollo() -> Shop:
    """English: made class names, and a cache in which each product has a key of its own, other
    products' before it."""
    listed, pages, truth = items(), {}, {}

    def frame(body: str, state: dict[str, object]) -> str:
        return f'<html lang="en"><title>Outpost</title><div class="css-1u9x"><a href="/all">All gear</a></div>{body}<script>window.__APOLLO_STATE__={json.dumps(state)};</script>'

    def node(i: Item) -> dict[str, object]:
        price = {"__typename": "Money", "amount": str(i.price), "currencyCode": "USD"}
        return {"__typename": "Product", "name": i.title, "price": price}

    def tile(i: Item) -> str:
        return f'<a class="css-9f2" href="/gear/{i.slug}"><img src="{i.image}" alt="{i.title}"><div class="css-b2x1">{i.title}</div><div class="css-b3x1">${i.price:,.2f}</div></a>'

    for number, on_page in chunks(listed, 16):
        pager = "".join(f'<a class="css-pg1" href="/all?page={n}">{n}</a>' for n in (1, 2, 3))
        state = {"ROOT_QUERY": {"__typename": "Query"}, **{f"Product:{i.number}": node(i) for i in on_page}}  # fmt: skip
        pages["/all" if number == 1 else f"/all?page={number}"] = frame(
            f"<h1>All gear</h1><div>{''.join(map(tile, on_page))}</div><p>{pager}</p>", state
        )
    for n, i in enumerate(listed):
        related = [listed[(n + step) % len(listed)] for step in (3, 7, 11)]
        full = {
            **node(i),
            "sku": i.sku,
            "gtin": i.gtin,
            "brand": {"__ref": f"Brand:{n % 5}"},
            "inventory": {"available": i.available},
        }
        key = f'product({{"slug":"{i.slug}"}})'
        state = {
            "ROOT_QUERY": {"__typename": "Query", key: {"__ref": f"Product:{i.number}"}},
            **{f"Product:{other.number}": node(other) for other in related[: n % 3]},
            f"Product:{i.number}": full,
            **{f"Product:{other.number}": node(other) for other in related[n % 3 :]},
            f"Brand:{n % 5}": {"__typename": "Brand", "name": i.brand},
        }
        body = f'<h1 class="css-h1x">{i.title}</h1><div class="css-p1x">${i.price:,.2f}</div><div>{"".join(map(tile, related))}</div>'
        pages[f"/gear/{i.slug}"] = frame(body, state)
        names = ("title", "price", "sku", "gtin", "brand", "availability")
        truth[f"/gear/{i.slug}"] = truth_of(i, *names)
    return Shop("/all", pages, truth, 3)


def laube() -> Shop:
    """German: three levels of categories, each product in two of them under an address that says
    where the link stood; lines of one cell; a price whose cents stand apart; stock by its words
    alone; a button that says something else where there is nothing to buy."""
    listed, pages, truth = items(54), {}, {}
    leaves = [(top, middle, leaf) for top in TOPS for middle in TOPS[top] for leaf in "abc"]

    def frame(title: str, body: str) -> str:
        tops = "".join(f'<li><a href="/{top}/">{top}</a></li>' for top in TOPS)
        return f'<html lang="de"><title>{title} | Laube</title><ul class="oben">{tops}</ul>{body}<p>Versandkostenfrei ab 50,00 €</p>'

    def price(i: Item) -> str:
        whole, cents = f"{i.price:.2f}".split(".")
        return f'<b class="pr">{int(whole):,}<sup>{cents}</sup> €</b>'.replace(",", ".")

    def rubrics(paths: list[str]) -> str:
        return "".join(f'<a class="rubrik" href="{path}">{path}</a>' for path in paths)

    pages["/"] = frame("Start", "<h1>Laube</h1>")
    for top, middles in TOPS.items():
        pages[f"/{top}/"] = frame(top, rubrics([f"/{top}/{middle}/" for middle in middles]))
        for middle in middles:
            paths = [f"/{top}/{middle}/{leaf}/" for leaf in "abc"]
            pages[f"/{top}/{middle}/"] = frame(middle, rubrics(paths))
    for at, leaf_path in enumerate(leaves):
        listing = [i for n, i in enumerate(listed) if at in (n % 24, (n + 5) % 24)]
        cards = "".join(
            f'<div class="karte"><a href="/artikel/{i.slug}?aus={at}&amp;platz={n}"><img src="{i.image}"><span>{i.title}</span></a><p>{price(i)}</p></div>'
            for n, i in enumerate(listing)
        )
        pages[f"/{'/'.join(leaf_path)}/"] = frame("Liste", f"<div>{cards}</div>")
        for n, i in enumerate(listing):
            stock = "sofort lieferbar" if i.available else "zur Zeit nicht lieferbar"
            was = f"<del>{euro(i.list_price)} €</del>" if i.list_price else ""
            page = frame(
                i.title,
                f"<table><tr><td><h1>{i.title}</h1>Artikelnummer: {i.sku}<br>Hersteller: {escape(i.brand)}<br>Gewicht: 3 kg<p>{price(i)} {was}</p><p><font>{stock}</font></p></td></tr></table>",
            )
            pages[f"/artikel/{i.slug}?aus={at}&platz={n}"] = page
            pages[f"/artikel/{i.slug}"] = page
    names = ("title", "price", "list_price", "sku", "brand", "availability")
    for i in listed:
        truth[f"/artikel/{i.slug}"] = truth_of(i, *names)
    return Shop("/", pages, truth, 33)


def huette() -> Shop:
    """German: nothing says whether it may be had but the button; numbers in attributes alone."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 15):
        cards = "".join(
            f'<li><a href="/{i.slug}"><img src="{i.image}"><strong>{i.title}</strong></a><div class="tag">{euro(i.price)} €</div></li>'
            for i in on_page
        )
        more = (
            f'<a class="mehr" href="/sortiment?seite={number + 1}">Mehr Produkte laden</a>'
            if number * 15 < len(listed)
            else ""
        )
        pages["/sortiment" if number == 1 else f"/sortiment?seite={number}"] = (
            f'<html lang="de"><title>Sortiment</title><ul class="wand">{cards}</ul>{more}'
        )
    for i in listed:
        button = "In den Warenkorb" if i.available else "Ausverkauft"
        was = f'<span class="uvp">UVP {euro(i.list_price)} €</span>' if i.list_price else ""
        pages[f"/{i.slug}"] = (
            f'<html lang="de"><title>{i.title} | HÜTTE</title><article data-sku="{i.sku}"><h1>{i.title}</h1><p>Art.-Nr. {i.number}</p><div class="tag">{euro(i.price)} €</div>{was}<button class="cta">{button}</button></article>'
        )
        truth[f"/{i.slug}"] = truth_of(i, "title", "price", "list_price", "availability")
    return Shop("/sortiment", pages, truth, 3)


def fjord() -> Shop:
    """English: class names of modules with a hash behind them; titles for machines have the shop's
    name behind them, headings the brand within; members pay less; JSON in an attribute counts in
    cents and holds HTML; categories whose pages have paths of their own."""
    listed, pages, truth = items(), {}, {}

    def frame(title: str, body: str) -> str:
        nav = "".join(f'<a href="/c/{n}">{group}</a>' for n, group in enumerate("ABCD"))
        return f'<html lang="en"><title>{title} | Fjord</title><meta property="og:title" content="{title} | Fjord"><nav class="Nav_root__x1Y2z">{nav}</nav>{body}'

    def price(i: Item) -> str:
        return f'<div class="Price_member__p0O9i">Members £{i.price * Decimal("0.9"):,.2f}</div><div class="Price_now__m5N6b">£{i.price:,.2f}</div>'

    pages["/"] = frame("Home", "<h1>Fjord</h1>")
    for group in range(4):
        mine = listed[group::4]
        for number, on_page in chunks(mine, 4):
            cards = "".join(
                f'<li class="Card_root__k3J4l"><a href="/p/{i.slug}"><img src="{i.image}"><span class="Card_name__z8X7c">{i.title}</span></a>{price(i)}</li>'
                for i in on_page
            )
            pager = "".join(f'<a href="/c/{group}/page-{n}">{n}</a>' for n in (1, 2, 3))
            page = frame("List", f"<ul>{cards}</ul><div class=pager>{pager}</div>")
            pages[f"/c/{group}/page-{number}"] = page
            if number == 1:
                pages[f"/c/{group}"] = page
    for i in listed:
        cents, text = int(i.price * 100), f"<p>{i.description}</p>"
        product = {"name": i.title, "sku": i.sku, "price_cents": cents, "description": text}
        data = escape(json.dumps({"memo": {"product": product}}))
        stock = "Add to bag" if i.available else "Out of stock"
        pages[f"/p/{i.slug}"] = frame(
            i.title,
            f'<div wire:snapshot="{data}"><h1>{i.title} <small>by {escape(i.brand)}</small></h1>{price(i)}<button class="Button_root__f4D5s">{stock}</button><table><tr><td>N° d\'article</td><td>{i.gtin}</td></tr></table></div>',
        )
        names = ("title", "price", "sku", "availability", "description")
        truth[f"/p/{i.slug}"] = truth_of(i, *names)
    return Shop("/", pages, truth, 13)


STATEFUL = {shop.__name__: shop for shop in (inertia, apollo, laube, huette, fjord)}
CURRENCIES = {"inertia": "GBP", "apollo": "USD", "fjord": "GBP"}
