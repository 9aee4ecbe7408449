"""Small shops, each written in its own way: other markup, language, paging, and other ways of saying
what a product is. `TEMPLATES` maps a name to a function that gives its pages, its start and its
truth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import Any

NOUNS = [
    "Kettle",
    "Lamp",
    "Chair",
    "Basket",
    "Mirror",
    "Clock",
    "Blanket",
    "Teapot",
    "Shelf",
    "Vase",
]
KINDS = ["Oak", "Walnut", "Copper", "Linen", "Granite", "Cobalt"]
BRANDS = ["Norrland", "Haus & Hof", "Delft Works", "Ferro", "Arbor"]
GROUPS = ["Kitchen", "Living room", "Garden"]


@dataclass(frozen=True)
class Item:
    number: int
    title: str
    price: Decimal
    list_price: Decimal | None
    available: bool
    stock: int
    sku: str
    gtin: str
    brand: str
    category: str
    rating: Decimal
    description: str

    @property
    def slug(self) -> str:
        return self.title.lower().replace(" ", "-").replace(",", "")

    @property
    def image(self) -> str:
        return f"/media/{self.number:x}7b3-{self.slug}.jpg"


def gtin(number: int) -> str:
    digits = f"400{number:09d}"
    total = sum(int(d) * (3 if at % 2 == 0 else 1) for at, d in enumerate(reversed(digits)))
    return f"{digits}{(10 - total % 10) % 10}"


def items(count: int = 40) -> list[Item]:
    listed = []
    for n in range(count):
        price = Decimal(9 + 37 * n % 1400) + Decimal(n * 13 % 100) / 100
        title = f"{KINDS[n % len(KINDS)]} {NOUNS[n % len(NOUNS)]} No {n + 3}"
        listed.append(
            Item(
                number=2100 + 7 * n,
                title=title,
                price=price,
                list_price=price + 15 if n % 3 == 0 else None,
                available=n % 4 != 1,
                stock=2 + n % 23 if n % 4 != 1 else 0,
                sku=f"{NOUNS[n % len(NOUNS)][:2].upper()}-{5000 + 11 * n}",
                gtin=gtin(31337 + 101 * n),
                brand=BRANDS[n % len(BRANDS)],
                category=GROUPS[n % len(GROUPS)],
                rating=Decimal(10 + 7 * n % 40) / 10,
                description=f"The {title.lower()} is made by hand in small numbers, number {n * 17}. "
                f"It keeps for {n + 2} years, and is mended by us for as long as there is material.",
            )
        )
    return listed


@dataclass(frozen=True)
class Shop:
    """`truth` maps the path of a product page to what its definition should give."""

    start: str
    pages: dict[str, str]
    truth: dict[str, dict[str, Any]]
    listings: int


def chunks(listed: list[Item], size: int) -> Iterator[tuple[int, list[Item]]]:
    for at in range(0, len(listed), size):
        yield at // size + 1, listed[at : at + size]


def truth_of(item: Item, *names: str) -> dict[str, Any]:
    return {name: getattr(item, "available" if name == "availability" else name) for name in names}


def workshop() -> Shop:
    """English, no data for machines: classes that say what they hold, "Page 1 of 4", crossed-out
    prices, and other products on every product page."""
    listed, pages = items(), {}
    truth = {}
    for number, on_page in chunks(listed, 12):
        cards = "".join(
            f'<li class="tile"><a class="tile-link" href="/item/{i.slug}-{i.number}.html">'
            f'<img src="{i.image}" alt="{i.title}"><h3>{i.title}</h3></a>'
            f'<div class="cost">£{i.price:,.2f}</div></li>'
            for i in on_page
        )
        following = f'<a class="next" href="/all?page={number + 1}">Next</a>' if number < 4 else ""
        pages["/all" if number == 1 else f"/all?page={number}"] = (
            f"<title>All things | Workshop</title><nav><a href=/about>About</a><a href=/all>All</a>"
            f"<a href=/contact>Contact</a></nav><ul class=tiles>{cards}</ul>"
            f'<div class="pages">Page {number} of 4 {following}</div>'
        )
    for i in listed:
        was = f'<del class="was">£{i.list_price:,.2f}</del>' if i.list_price else ""
        state = f"In stock ({i.stock} left)" if i.available else "Sold out"
        others = "".join(
            f'<li class="tile"><a class="tile-link" href="/item/{o.slug}-{o.number}.html"><h3>{o.title}</h3></a>'
            f'<div class="cost">£{o.price:,.2f}</div></li>'
            for o in listed[(i.number // 7) % 36 :][:4]
        )
        path = f"/item/{i.slug}-{i.number}.html"
        pages[path] = (
            f"<title>{i.title} | Workshop</title><nav><a href=/all>All</a></nav>"
            f'<div class="crumbs breadcrumb"><a href="/">Home</a> / <a href="/c/{i.category}">{i.category}</a> / {i.title}</div>'
            f'<main><h1 class="name">{i.title}</h1><img class="photo" src="{i.image}" alt="{i.title}">'
            f'<div class="offer"><span class="cost">£{i.price:,.2f}</span> {was}</div>'
            f'<p class="stock-line">{state}</p><p>SKU: {i.sku}</p><p>Brand: {escape(i.brand)}</p>'
            f'<div class="description"><p>{i.description}</p></div></main>'
            f"<h2>You may also like</h2><ul class=tiles>{others}</ul>"
        )
        truth[path] = truth_of(
            i,
            "title",
            "price",
            "list_price",
            "availability",
            "sku",
            "brand",
            "category",
            "description",
        )
    return Shop("/all", pages, truth, 4)


def euro(price: Decimal) -> str:
    return f"{price:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".") + " €"


def laden() -> Shop:
    """German, microdata, ids in the query, a link "Weiter" and no number of pages."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 15):
        cards = "".join(
            f'<div class="artikel-box"><a href="/artikel.php?id={i.number}&amp;ref=liste"><b>{i.title}</b></a>'
            f'<img src="{i.image}"><span class="preis">{euro(i.price)}</span>'
            f'<a href="/warenkorb?add={i.number}">In den Warenkorb</a></div>'
            for i in on_page
        )
        more = f'<a href="/sortiment/{number + 1}">Weiter</a>' if number < 3 else ""
        pages[f"/sortiment/{number}"] = f"<title>Sortiment</title>{cards}<p>{more}</p>"
    for i in listed:
        path = f"/artikel.php?id={i.number}&ref=liste"
        uvp = f'<span class="uvp-preis">statt {euro(i.list_price)}</span>' if i.list_price else ""
        state = "InStock" if i.available else "OutOfStock"
        pages[path] = (
            f'<title>Laden - {i.title}</title><div itemscope itemtype="http://schema.org/Product">'
            f'<h1 itemprop="name">{i.title}</h1><img itemprop="image" src="{i.image}">'
            f'<div itemprop="offers" itemscope itemtype="http://schema.org/Offer">'
            f'<span itemprop="price" content="{i.price}">{euro(i.price)}</span>'
            f'<meta itemprop="priceCurrency" content="EUR">'
            f'<link itemprop="availability" href="http://schema.org/{state}">{uvp}</div>'
            f'<span itemprop="brand" itemscope itemtype="http://schema.org/Brand"><span itemprop="name">{escape(i.brand)}</span></span>'
            f'<p>Artikelnummer: <span itemprop="sku">{i.sku}</span></p>'
            f'<meta itemprop="gtin13" content="{i.gtin}">'
            f'<div itemprop="description">{i.description}</div></div>'
        )
        truth[path] = truth_of(
            i, "title", "price", "availability", "sku", "gtin", "brand", "description"
        )
    return Shop("/sortiment/1", pages, truth, 3)


def boutique() -> Shop:
    """French, JSON-LD in a graph, classes that a build tool made, numbered pages and no arrow."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 10):
        cards = "".join(
            f'<article class="css-1x9k2z"><a class="css-q7w8e9" href="/produit/{i.slug}/">'
            f'<img data-src="{i.image}" src="data:image/gif;base64,R0lGOD"><p>{i.title}</p></a>'
            f"<p class=css-88h2kk>{euro(i.price)}</p></article>"
            for i in on_page
        )
        pager = " ".join(
            f"<span>{n}</span>" if n == number else f'<a href="/boutique?p={n}">{n}</a>'
            for n in range(1, 5)
        )
        path = "/boutique" if number == 1 else f"/boutique?p={number}"
        pages[path] = (
            f"<title>La boutique</title><div id=app>{cards}</div><div class=css-pg1>{pager}</div>"
        )
    for i in listed:
        path = f"/produit/{i.slug}/"
        state = "InStock" if i.available else "OutOfStock"
        graph = {
            "@context": "https://schema.org",
            "@graph": [
                {"@type": "BreadcrumbList", "itemListElement": [
                    {"@type": "ListItem", "position": 1, "name": "Accueil"},
                    {"@type": "ListItem", "position": 2, "name": i.category},
                    {"@type": "ListItem", "position": 3, "name": i.title}]},
                {"@type": "Product", "name": i.title, "sku": i.sku, "gtin13": i.gtin,
                 "image": [f"https://cdn.example{i.image}"], "description": i.description,
                 "brand": {"@type": "Brand", "name": i.brand},
                 "aggregateRating": {"ratingValue": str(i.rating), "reviewCount": 7},
                 "offers": {"@type": "Offer", "price": str(i.price), "priceCurrency": "EUR",
                            "availability": f"https://schema.org/{state}"}},
            ],
        }  # fmt: skip
        pages[path] = (
            f'<title>{i.title} – La boutique</title><script type="application/ld+json">{json.dumps(graph)}</script>'
            f"<div class=css-1a2b3c><h1 class=css-77x1aa>{i.title}</h1><p class=css-88h2kk>{euro(i.price)}</p></div>"
        )
        truth[path] = truth_of(
            i,
            "title",
            "price",
            "availability",
            "sku",
            "gtin",
            "brand",
            "category",
            "rating",
            "description",
        )
    return Shop("/boutique", pages, truth, 4)


def tienda() -> Shop:
    """Spanish, OpenGraph, a home with categories, offsets in the query, numbers of products."""
    listed, pages, truth = items(), {}, {}
    menu = "".join(f'<li><a href="/cat/{at}">{name}</a></li>' for at, name in enumerate(GROUPS))
    menu = f'<div class="menu"><ul>{menu}</ul></div>'
    pages["/"] = f"<title>Tienda</title>{menu}<h1>Bienvenidos</h1><p>Desde 1980.</p>"
    listings = 1
    for at, name in enumerate(GROUPS):
        own = [i for i in listed if i.category == name]
        for number, on_page in chunks(own, 6):
            cards = "".join(
                f'<td><a href="/p/{i.number}-{i.slug}"><img src="{i.image}" alt="{i.title}"></a>'
                f'<br><a href="/p/{i.number}-{i.slug}">{i.title}</a><br><span>{euro(i.price)}</span></td>'
                for i in on_page
            )
            end = number * 6
            more = f'<a href="/cat/{at}?inicio={end}">Siguiente »</a>' if end < len(own) else ""
            path = f"/cat/{at}" if number == 1 else f"/cat/{at}?inicio={end - 6}"
            pages[path] = (
                f"<title>{name}</title>{menu}<table><tr>{cards}</tr></table><div>{more}</div>"
            )
            listings += 1
    for i in listed:
        path = f"/p/{i.number}-{i.slug}"
        state = "Disponible" if i.available else "Agotado"
        pages[path] = (
            f"<title>{i.title} en Tienda</title>"
            f'<meta property="og:type" content="product"><meta property="og:title" content="{i.title}">'
            f'<meta property="og:image" content="https://img.example{i.image}">'
            f'<meta property="product:price:amount" content="{i.price}">'
            f'<meta property="product:price:currency" content="EUR">'
            f'<meta property="og:description" content="{i.description}">{menu}'
            f"<div><b>{i.title}</b></div><div>Precio: <strong>{euro(i.price)}</strong></div>"
            f'<div class="disponibilidad">{state}</div>'
            f"<table><tr><td>Referencia</td><td>{i.sku}</td></tr><tr><td>Marca</td><td>{escape(i.brand)}</td></tr></table>"
        )
        truth[path] = truth_of(i, "title", "price", "availability", "sku", "brand", "description")
    return Shop("/", pages, truth, listings)


def winkel() -> Shop:
    """Dutch, a definition list of properties, pages named by their path, and a number of pages in the
    pager's last link."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 8):
        cards = "".join(
            f'<div class="grid-item product-card" data-id="{i.number}"><div class="pic"><a href="/nl/product/{i.number}/{i.slug}">'
            f'<img src="{i.image}"></a></div><div class="info"><a href="/nl/product/{i.number}/{i.slug}">{i.title}</a>'
            f'<div class="merk">{escape(i.brand)}</div><div class="prijs">{euro(i.price)}</div></div></div>'
            for i in on_page
        )
        pager = "".join(
            f'<li><a href="/nl/alles/pagina/{n}">{n}</a></li>' for n in range(1, 6) if n != number
        )
        arrow = (
            f'<li><a rel="next" href="/nl/alles/pagina/{number + 1}">Volgende</a></li>'
            if number < 5
            else ""
        )
        pages[f"/nl/alles/pagina/{number}"] = (
            f"<title>Alles</title><div class=grid>{cards}</div><ul class=pagination>{pager}{arrow}</ul>"
        )
    for i in listed:
        path = f"/nl/product/{i.number}/{i.slug}"
        was = f"<span class=van-prijs>{euro(i.list_price)}</span>" if i.list_price else ""
        state = "Op voorraad" if i.available else "Uitverkocht"
        stars = f'<div class="sterren rating" title="{i.rating} van 5"></div>'
        pages[path] = (
            f"<title>{i.title} kopen? | Winkel</title><header><a href=/>Winkel</a></header>"
            f'<ol class="kruimelpad breadcrumb"><li><a href=/>Home</a></li><li><a href="/c/1">{i.category}</a></li><li>{i.title}</li></ol>'
            f'<section class="product-detail"><h1>{i.title}</h1>{stars}<div class=prijzen>{was}<span class="prijs huidige-prijs">{euro(i.price)}</span></div>'
            f"<div class=voorraad>{state}</div>"
            f"<dl><dt>Artikelnummer</dt><dd>{i.sku}</dd><dt>EAN</dt><dd>{i.gtin}</dd><dt>Merk</dt><dd>{escape(i.brand)}</dd></dl>"
            f"<h2>Omschrijving</h2><div>{i.description}</div></section>"
        )
        truth[path] = truth_of(
            i,
            "title",
            "price",
            "list_price",
            "availability",
            "sku",
            "gtin",
            "brand",
            "category",
            "rating",
            "description",
        )
    return Shop("/nl/alles/pagina/1", pages, truth, 5)


def butik() -> Shop:
    """Danish, prices in kroner, tables for everything, and a sitemap: no page lists the products."""
    listed, pages, truth = items(), {}, {}
    pages["/"] = '<html lang="da"><title>Butik</title><h1>Velkommen</h1><a href="/om">Om os</a>'
    pages["/sitemap.xml"] = (
        '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        "<url><loc>{host}/om</loc></url>"
        + "".join(f"<url><loc>{{host}}/vare/{i.number}.html</loc></url>" for i in listed)
        + "</urlset>"
    )
    for i in listed:
        price = f"{i.price:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".") + " kr."
        state = "På lager" if i.available else "Ikke på lager"
        path = f"/vare/{i.number}.html"
        pages[path] = (
            f'<html lang="da"><title>{i.title} - Butik</title><table><tr><td><h1>{i.title}</h1></td></tr>'
            f"<tr><td class=pris>{price}</td></tr><tr><td>Varenummer</td><td>{i.sku}</td></tr>"
            f"<tr><td>Lagerstatus</td><td>{state}</td></tr><tr><td>Producent</td><td>{escape(i.brand)}</td></tr></table>"
            f"<div class=beskrivelse>{i.description}</div>"
        )
        truth[path] = truth_of(i, "title", "price", "availability", "sku", "brand")
    return Shop("/", pages, truth, 0)


TEMPLATES: dict[str, Callable[[], Shop]] = {
    shop.__name__: shop for shop in (workshop, laden, boutique, tienda, winkel, butik)
}
CURRENCIES = {"workshop": "GBP", "butik": "DKK"}
