"""The seeded shop: what is true from day to day, and the pages that say so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from random import Random

from tests.support.shops.odd_shop import Answer

Pages = dict[str, bytes | Answer]

ON_A_PAGE = 20
CATEGORIES = ("lamps", "chairs", "tables", "shelves", "rugs")
NOUNS = ("Lamp", "Chair", "Table", "Shelf", "Rug")
BRANDS = ("Noé", "Aalto", "Berg", "Cassel", "Dúrr", "Eames", "Fjord")
WORDS = [
    "solid",
    "oak",
    "light",
    "warm",
    "café",
    "round",
    "tall",
    "plain",
    "woven",
    "linen",
    "brass",
    "quiet",
    "heavy",
    "small",
    "north",
]
CENT = Decimal("0.01")


@dataclass
class Item:
    """A product as it is."""

    number: int
    name: str
    brand: str | None
    price: Decimal
    stock: int
    text: str
    category: str
    currency: str = "£"

    @property
    def path(self) -> str:
        return f"/p/{self.number}"

    @property
    def truth(self) -> dict[str, object]:
        """What should be stored for the page."""
        data: dict[str, object] = {
            "name": self.name,
            "price": self.price,
            "price_currency": {"£": "GBP", "€": "EUR", "$": "USD"}[self.currency],
            "brand": self.brand,
            "in_stock": self.stock > 0,
            "stock": self.stock or None,
            "sku": f"A-{self.number:05}",
            "text": self.text,
        }
        return {key: value for key, value in data.items() if value is not None}


@dataclass
class Shop:
    """What is for sale, and what may change overnight. `moved` goes before each path; with `cards`,
    listings show prices."""

    random: Random
    items: dict[int, Item] = field(default_factory=dict)
    next_number: int = 1
    moved: str = ""
    design: str = "plain"
    cards: bool = False

    @classmethod
    def of(cls, products: int, random: Random) -> Shop:
        shop = cls(random)
        for _ in range(products):
            shop.add()
        return shop

    def add(self) -> Item:
        number, random = self.next_number, self.random
        self.next_number += 1
        category = random.randrange(len(CATEGORIES))
        item = Item(
            number,
            f"{random.choice(WORDS).title()} {random.choice(WORDS)} {NOUNS[category]} {number}",
            random.choice(BRANDS),
            Decimal(str(round(random.lognormvariate(3.5, 1.0), 2))).quantize(CENT)
            + Decimal("1.00"),
            random.choice((0, 3, 7, 12, 40)),
            " ".join(random.choice(WORDS) for _ in range(25)),
            CATEGORIES[category],
        )
        self.items[number] = item
        return item

    def some(self, share: float) -> list[Item]:
        return [item for item in list(self.items.values()) if self.random.random() < share]

    def night(self) -> None:
        """What changes every day: prices of a fiftieth, stocks of a tenth, a product here and
        there."""
        for item in self.some(0.02):
            item.price = times(item, self.random.uniform(0.85, 1.15))
        for item in self.some(0.1):
            item.stock = self.random.choice((0, 1, 2, 5, 9, 33))
        for item in self.some(0.005):
            del self.items[item.number]
        self.add()

    def as_it_is(self) -> dict[int, Item]:
        return {number: copy(item) for number, item in self.items.items()}


def times(item: Item, factor: float) -> Decimal:
    return max((item.price * Decimal(str(factor))).quantize(CENT), CENT)


def frame(body: str, title: str, design: str = "plain") -> bytes:
    """A page of the shop's: header, menu, footer."""
    menu = "".join(f'<a href="/c/{name}">{name}</a>' for name in CATEGORIES)
    inner = (
        f"<main>{body}</main>" if design == "plain" else f"<div class=new><div>{body}</div></div>"
    )
    return (
        f"<!doctype html><html><head><meta charset=utf-8><title>{escape(title)}</title></head><body>"
        f"<header><a href=/>The Shop</a><nav>{menu}</nav><form><input name=q></form></header>{inner}"
        "<footer><p>All prices with tax. Free delivery from £50.00.</p><a href=/imprint>Imprint</a>"
        "</footer></body></html>"
    ).encode()


def product(item: Item, shop: Shop) -> bytes:
    neighbours = [
        other for step in (1, 2, 3) if (other := shop.items.get(item.number + step)) is not None
    ]
    return frame(inside(item, neighbours), item.name, shop.design)


def inside(item: Item, neighbours: list[Item]) -> str:
    shown = f"{item.currency}{item.price:,.2f}"
    brand = f"<p class=brand>{escape(item.brand)}</p>" if item.brand else ""
    stock = f"<p class=stock>{item.stock}</p>" if item.stock else ""
    linked = {
        "@type": "Product",
        "name": item.name,
        "offers": {"price": str(item.price), "priceCurrency": item.truth["price_currency"]},
    }
    related = "".join(
        f'<li><a href="{other.path}">{escape(other.name)}</a> '
        f"<b>{other.currency}{other.price:,.2f}</b></li>"
        for other in neighbours
    )
    return (
        f'<script type="application/ld+json">{json.dumps(linked)}</script>'
        f"<h1>{escape(item.name)}</h1>{brand}<p class=price>{shown}</p>"
        f"<p class=there>{'In stock' if item.stock else 'Sold out'}</p>{stock}"
        f"<p>No. <span class=sku>A-{item.number:05}</span></p><p class=text>{item.text}</p>"
        f"<ul class=related>{related}</ul>"
    )


def listings(shop: Shop) -> dict[str, list[str]]:
    """The paths of the products on each page of each category."""
    pages: dict[str, list[str]] = {}
    for category in CATEGORIES:
        paths = [shop.moved + i.path for i in shop.items.values() if i.category == category]
        for at in range(0, max(1, len(paths)), ON_A_PAGE):
            number = at // ON_A_PAGE + 1
            pages[f"/c/{category}" + (f"?page={number}" if at else "")] = paths[at : at + ON_A_PAGE]
    return pages


def listing(
    path: str,
    paths: list[str],
    *,
    last: bool,
    design: str = "plain",
    cards: Mapping[str, str] | None = None,
) -> bytes:
    category, _, number = path.partition("?page=")
    cards = cards or {}
    links = "".join(
        f'<li><a class=p href="{path}">see</a>{cards.get(path, "")}</li>' for path in paths
    )
    following = (
        "" if last else f'<a class=next href="{category}?page={int(number or 1) + 1}">Next</a>'
    )
    return frame(f"<h1>{category[3:]}</h1><ul class=grid>{links}</ul>{following}", category, design)


def pages_of(shop: Shop) -> Pages:
    """The whole shop as it is."""
    by_path = listings(shop)
    cards = {
        shop.moved + item.path: f" <b>{item.currency}{item.price:,.2f}</b>"
        for item in shop.items.values()
        if shop.cards
    }
    links = "".join(f'<a class=c href="/c/{name}">{name}</a>' for name in CATEGORIES)
    pages: Pages = {"/": frame(f"<h1>Welcome</h1>{links}", "The Shop", shop.design)}
    for path, paths in by_path.items():
        category, _, number = path.partition("?page=")
        last = f"{category}?page={int(number or 1) + 1}" not in by_path
        pages[path] = listing(path, paths, last=last, design=shop.design, cards=cards)
    for item in shop.items.values():
        pages[shop.moved + item.path] = product(item, shop)
    return pages
