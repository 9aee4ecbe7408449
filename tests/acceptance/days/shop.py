"""The honest shop: what it sells, and the pages that say so.

JSON-LD, visible price and the card in the listing always agree. A page is made when it is requested,
so that a sale may end while a crawl reads the shop.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from random import Random
from urllib.parse import urljoin

from tests.support.shops.odd_shop import Answer, redirect

ON_A_PAGE = 5
CENT = Decimal("0.01")
# What each category sells.
CATEGORIES = {
    "lamps": "Lamp",
    "chairs": "Chair",
    "tables": "Table",
    "shelves": "Shelf",
    "rugs": "Rug",
    "pots": "Pot",
    "towels": "Towel",
    "candles": "Candle",
}
BRANDS = ("Noé", "Aalto", "Berg", "Cassel", "Dúrr", "Eames", "Fjord", "Groth")
LOOKS = ("Oak", "Brass", "Linen", "Round", "Tall", "Quiet", "Woven", "North", "Plain", "Café")
SENTENCE = (
    "solid light warm plain woven heavy small made by hand in the north from oak brass linen and "
    "wool for rooms that are used every day easy to clean lasts for years with two years of "
    "guarantee delivered flat and put together in ten minutes without tools"
)
WORDS = SENTENCE.split()
IN_STOCK, SOLD_OUT, PRE_ORDER = "InStock", "OutOfStock", "PreOrder"


@dataclass
class Item:
    """A product as it is. `other_price` is what half of the visitors see; `gone_to` is where its
    page redirects once it is no longer for sale."""

    number: int
    name: str
    brand: str
    price: Decimal
    category: str
    text: str
    sku: str
    image: str
    availability: str = IN_STOCK
    was: Decimal | None = None
    other_price: Decimal | None = None
    hides_price: bool = False
    unit: str = ""
    reviews: int = 0

    @property
    def rating(self) -> Decimal:
        return Decimal(6 + self.number % 4) / 2

    @property
    def path(self) -> str:
        return f"/p{self.image.removesuffix('.jpg')}"

    def reprice(self, factor: float, ending: str = "0.01") -> None:
        """Sets another price, which ends in .49 or .99 as a shop's prices do."""
        halves = (self.price * Decimal(str(factor)) * 2).quantize(Decimal(1), ROUND_HALF_UP)
        self.price = max(halves / 2, Decimal("0.50")) - Decimal(ending)

    def reduce(self, factor: float, ending: str = "0.01") -> None:
        """Sells at a lower price, with the old one crossed out."""
        before = self.price
        self.reprice(factor, ending)
        if self.price < before:
            self.was = self.was or before
        else:
            self.price = before

    def end_sale(self) -> None:
        if self.was is not None:
            self.price, self.was = self.was, None


@dataclass
class Shop:
    """What is for sale, and how the pages show it.

    `redirects` has the pages that moved on. `on_request` is called for each request of a product
    page.
    """

    random: Random
    address: str = "http://shop.example/"
    items: dict[int, Item] = field(default_factory=dict)
    categories: list[str] = field(default_factory=lambda: list(CATEGORIES))
    ending: str = "0.01"
    next_number: int = 1001
    in_stock_words: str = "In stock"
    images: str = "/img"
    brand_first: bool = False
    redirects: dict[str, str] = field(default_factory=dict)
    on_request: Callable[[], None] | None = None
    # Requests come in another order in each run, so they draw from numbers of their own.
    visitors: Random = field(default_factory=lambda: Random(1))

    @classmethod
    def of(cls, products: int, random: Random, address: str) -> Shop:
        shop = cls(random, address)
        for _ in range(products):
            shop.add()
        for item in shop.some(0.08):
            item.availability = SOLD_OUT
        for item in shop.some(0.15):
            item.reduce(0.8)
        return shop

    def add(self, category: str | None = None, brand: str | None = None) -> Item:
        number, random = self.next_number, self.random
        self.next_number += 1
        category = category or random.choice(list(CATEGORIES))
        look = random.choice(LOOKS)
        item = Item(
            number=number,
            name=f"{look} {CATEGORIES[category]} {number % 1000 + 100}",
            brand=brand or random.choice(BRANDS),
            price=Decimal("0.49"),
            category=category,
            text=self.write_text(),
            sku=f"{category[:2].upper()}-{number * 7 % 10000:04}",
            image=f"/{number}-{look.lower().replace('é', 'e')}.jpg",
            reviews=random.randrange(60),
        )
        item.price = Decimal(str(round(random.lognormvariate(3.6, 0.9)))) + Decimal("4.99")
        self.items[number] = item
        return item

    def write_text(self) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(22)).capitalize() + "."

    def some(self, share: float) -> list[Item]:
        return [item for item in list(self.items.values()) if self.random.random() < share]

    def of_brand(self, *brands: str) -> list[Item]:
        return [item for item in self.items.values() if item.brand in brands]

    def in_category(self, *categories: str) -> list[Item]:
        return [item for item in self.items.values() if item.category in categories]

    def remove(self, item: Item, to: str | None = None) -> None:
        """Takes a product off sale: its page is gone, or redirects to that path."""
        del self.items[item.number]
        if to is not None:
            self.redirects[item.path] = to

    def title(self, item: Item) -> str:
        return f"{item.brand} {item.name}" if self.brand_first else item.name

    def end_flash_sale(self) -> None:
        if self.on_request is not None:
            self.on_request = None
            for item in self.items.values():
                item.end_sale()

    def show(self, item: Item) -> bytes:
        """A product's page, for one visitor."""
        if self.on_request is not None:
            self.on_request()
        price = item.price
        if item.other_price is not None and self.visitors.random() < 0.5:
            price = item.other_price
        return product_page(item, self, price)

    def truth(self, item: Item) -> dict[str, object]:
        """What should be stored for a product, by the names that `scraper new` gives fields."""
        price = None if item.hides_price else item.price
        was = None if item.hides_price else item.was
        return {
            "title": self.title(item),
            "price": price,
            "price_currency": price and "EUR",
            "list_price": was,
            "list_price_currency": was and "EUR",
            "brand": item.brand,
            "availability": item.availability != SOLD_OUT,
            "sku": item.sku,
            "category": item.category.title(),
            "description": item.text,
            "image": urljoin(self.address, self.images + item.image),
            "rating": item.rating if item.reviews else None,
        }


def frame(shop: Shop, body: str, title: str, head: str = "") -> bytes:
    """A page of the shop: header, menu, footer."""
    menu = "".join(f'<li><a href="/c/{name}">{name.title()}</a></li>' for name in shop.categories)
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(title)} – The House"
        f"</title>{head}</head><body><header><a class=logo href=/>The House</a>"
        f'<nav><ul class=menu>{menu}</ul></nav><form action="/search"><input name=q></form></header>'
        f"<main>{body}</main><footer><p>All prices with VAT. Free delivery from €50.00.</p>"
        '<a href="/imprint">Imprint</a></footer></body></html>'
    ).encode()


def show_price(item: Item, price: Decimal) -> str:
    if item.hides_price:
        return ""
    if item.was is not None:
        return (
            f'<p class="price"><del class="old">€{item.was:,.2f}</del> '
            f'<ins class="now">€{price:,.2f}</ins>{item.unit}</p>'
        )
    return f'<p class="price"><ins class="now">€{price:,.2f}</ins>{item.unit}</p>'


def show_availability(item: Item, shop: Shop) -> str:
    words = {
        IN_STOCK: shop.in_stock_words,
        SOLD_OUT: "Sold out",
        PRE_ORDER: "Pre-order now",
    }[item.availability]
    return f'<p class="availability">{words}</p>'


def product_page(item: Item, shop: Shop, price: Decimal) -> bytes:
    title = shop.title(item)
    offer: dict[str, object] = {
        "@type": "Offer",
        "availability": f"https://schema.org/{item.availability}",
    }
    if not item.hides_price:
        offer |= {"price": str(price), "priceCurrency": "EUR"}
    product = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": title,
        "sku": item.sku,
        "brand": {"@type": "Brand", "name": item.brand},
        "image": shop.images + item.image,
        "description": item.text,
        "category": item.category.title(),
        "offers": offer,
    }
    if item.reviews:
        product["aggregateRating"] = {
            "@type": "AggregateRating",
            "ratingValue": str(item.rating),
            "reviewCount": item.reviews,
        }
    others = [other for other in shop.in_category(item.category) if other is not item][:3]
    related = "".join(
        f'<li><a href="{other.path}">{escape(shop.title(other))}</a></li>' for other in others
    )
    body = (
        f'<nav class="crumbs"><a href="/">Home</a> › <a href="/c/{item.category}">'
        f'{item.category.title()}</a></nav><div class="product">'
        f'<img class="photo" src="{shop.images}{item.image}" alt=""><h1>{escape(title)}</h1>'
        f'<p class="brand">{escape(item.brand)}</p>{show_price(item, price)}'
        f"{show_availability(item, shop)}<p>Item no. <span class=sku>{item.sku}</span></p>"
        f'<form method=post action="/cart"><button>Add to cart</button></form>'
        f'<div class="description">{item.text}</div></div>'
        f'<section class="related"><h2>You may also like</h2><ul>{related}</ul></section>'
    )
    head = f'<script type="application/ld+json">{json.dumps(product)}</script>'
    return frame(shop, body, title, head)


def listing_page(shop: Shop, category: str, number: int) -> bytes | None:
    items = shop.in_category(category)
    part = items[(number - 1) * ON_A_PAGE : number * ON_A_PAGE]
    if not part and number > 1:
        return None
    cards = "".join(
        f'<li class="card"><a href="{item.path}"><img src="{shop.images}{item.image}" alt="">'
        f"<h3>{escape(shop.title(item))}</h3></a>{show_price(item, item.price)}"
        f"{show_availability(item, shop)}</li>"
        for item in part
    )
    following = (
        f'<nav class="pages"><a class="next" rel="next" href="/c/{category}?page={number + 1}">'
        "Next</a></nav>"
        if number * ON_A_PAGE < len(items)
        else ""
    )
    body = f'<h1>{category.title()}</h1><ul class="grid">{cards}</ul>{following}'
    return frame(shop, body, category.title())


def home_page(shop: Shop) -> bytes:
    links = "".join(f'<li><a href="/c/{name}">{name.title()}</a></li>' for name in shop.categories)
    return frame(shop, f"<h1>Welcome</h1><ul class=shelves>{links}</ul>", "Welcome")


def answer(shop: Shop, target: str) -> bytes | Answer | None:
    """What the shop says to a request at this moment; None if it has no page there."""
    path, _, query = target.partition("?")
    if path == "/":
        return home_page(shop)
    if path.startswith("/c/") and path[3:] in shop.categories:
        return listing_page(shop, path[3:], int(query.removeprefix("page=") or 1))
    if path.startswith("/p/"):
        if path in shop.redirects:
            return redirect(shop.redirects[path], 301)
        item = shop.items.get(int(path[3:].partition("-")[0]))
        if item is not None and item.path == path:
            return shop.show(item)
    return None
