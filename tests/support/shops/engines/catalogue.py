"""A catalogue with sub-categories, sales and products that are sold out, and the pages that an
engine writes. Two products are in two categories each; the sitemap names one product that no
list has, and lacks two that lists have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from tests.support.shops import shop_templates
from tests.support.shops.shop_templates import Item, Shop, chunks

TWICE = (0, 7)
UNLISTED = 49
UNMAPPED = (2, 9)


@dataclass
class Category:
    number: int
    name: str
    parent: Category | None = None
    items: list[Item] = field(default_factory=list)

    @property
    def slug(self) -> str:
        return self.name.lower()

    @property
    def chain(self) -> list[Category]:
        return [*(self.parent.chain if self.parent else ()), self]

    def path(self, separator: str, name: str = "slug") -> str:
        return separator.join(str(getattr(part, name)) for part in self.chain)


class Catalogue:
    def __init__(self) -> None:
        kitchen, garden = Category(11, "Kitchen"), Category(21, "Garden")
        self.tops = [kitchen, garden, Category(31, "Gifts")]
        self.leaves = [
            Category(12, "Pots", kitchen),
            Category(13, "Pans", kitchen),
            Category(22, "Benches", garden),
            Category(23, "Fountains", garden),
            self.tops[2],
        ]
        self.items = [
            replace(item, brand="" if n % 8 == 5 else item.brand, gtin="" if n % 6 == 4 else item.gtin)
            for n, item in enumerate(shop_templates.items(50))
        ]  # fmt: skip
        self.homes: dict[int, list[Category]] = {}
        for n, item in enumerate(self.items):
            at = n % len(self.leaves)
            homes = (
                [self.leaves[at], self.leaves[(at + 1) % 5]] if n in TWICE else [self.leaves[at]]
            )
            self.homes[item.number] = homes
            for home in homes if n != UNLISTED else ():
                home.items.append(item)

    def below(self, category: Category) -> list[Category]:
        return [leaf for leaf in self.leaves if leaf.parent is category]

    def after(self, item: Item, count: int) -> list[Item]:
        """Returns the related products of an item."""
        at = self.items.index(item)
        return [self.items[(at + n + 2) % UNLISTED] for n in range(count)]


class Engine:
    """What one engine writes; `fields` are the ones that its pages have."""

    currency = "USD"
    size = 6
    fields: tuple[str, ...] = ("title", "price", "list_price", "availability", "sku", "brand")
    # Whether an address names the category that leads to it.
    placed = False

    def __init__(self) -> None:
        self.shop = Catalogue()

    def url(self, item: Item, category: Category | None = None) -> str:
        raise NotImplementedError

    def list_url(self, category: Category, page: int = 1) -> str:
        raise NotImplementedError

    def frame(self, title: str, body: str, head: str = "") -> str:
        raise NotImplementedError

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        raise NotImplementedError

    def product(self, item: Item, category: Category) -> str:
        raise NotImplementedError

    def home(self) -> str:
        raise NotImplementedError

    def _addresses(self, item: Item) -> Iterator[tuple[str, Category]]:
        homes = self.shop.homes[item.number]
        yield self.url(item), homes[0]
        if self.placed:
            yield from ((self.url(item, home), home) for home in homes)

    def build(self) -> Shop:
        pages, truth = {"/": self.frame("Home", self.home())}, dict[str, dict[str, Any]]()
        for category in {c.number: c for leaf in self.shop.leaves for c in leaf.chain}.values():
            parts = list(chunks(category.items, self.size)) or [(1, [])]
            for number, on_page in parts:
                body = self.listing(category, number, len(parts), on_page)
                pages[self.list_url(category, number)] = self.frame(category.name, body)
        for item in self.shop.items:
            for path, category in self._addresses(item):
                pages[path] = self.product(item, category)
                truth[path] = self.truth(item, category)
        items = [i for n, i in enumerate(self.shop.items) if n not in UNMAPPED]
        named: list[Item | Category] = [*self.shop.leaves, *items]
        locs = "".join(
            f"<url><loc>{{host}}{url.replace('&', '&amp;')}</loc></url>"
            for url in (self.url(n) if isinstance(n, Item) else self.list_url(n) for n in named)
        )
        pages["/sitemap.xml"] = (
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locs}</urlset>'
        )
        pages["/robots.txt"] = "User-agent: *\nDisallow: /cart\nSitemap: {host}/sitemap.xml\n"
        return Shop("/", pages, truth, 0)

    def truth(self, item: Item, category: Category) -> dict[str, Any]:
        """`number` says which product it is, `category` which names are right."""
        values = {"availability": item.available, "title": item.title}
        return {
            name: values.get(name, getattr(item, name, None)) or (False if name == "availability" else None)
            for name in self.fields
        } | {"number": item.number, "stock": item.stock, "category": {c.name for c in category.chain}}  # fmt: skip


def dollars(price: Decimal) -> str:
    return f"${price:,.2f}"
