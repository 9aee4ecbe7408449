"""The sample shop's catalogue: every product at every visit, as a pure function of the seed. It is
the truth that crawls are compared with.

A visit is a generation of the shop: between two visits about 15 % of the prices change, a few
products vanish and a few appear. This module contains no HTML and no HTTP.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from random import Random

from scraper.plugins.demo import words

FIRST_ID = 1001
VISITS_MAX = 1000
CHANGES_SHARE = 0.15
# The share of products that vanish, and that appear, between two visits.
TURNOVER_SHARE = 0.005
# Products that never existed are always linked.
GHOSTS = 3


@dataclass(frozen=True, slots=True)
class ShopItem:
    """One product as the shop shows it at one visit. Prices are exact, two decimals."""

    id: int
    slug: str
    old_slug: str | None
    name: str
    price: Decimal
    old_price: Decimal | None
    currency: str
    brand: str
    sku: str
    stock: int
    rating: Decimal
    reviews: int
    category: str
    description: str

    @property
    def path(self) -> str:
        return f"/p/{self.id}-{self.slug}"

    @property
    def linked_path(self) -> str:
        """The path that listings link: for a renamed product the old one, which redirects."""
        return f"/p/{self.id}-{self.old_slug or self.slug}"

    def record(self, base_url: str) -> dict[str, object]:
        """Returns what a perfect crawl stores: decimals as text, None for what the page lacks."""
        return {
            "id": str(self.id),
            "url": base_url + self.path,
            "name": self.name,
            "price": str(self.price),
            "price_currency": self.currency,
            "old_price": None if self.old_price is None else str(self.old_price),
            "old_price_currency": None if self.old_price is None else self.currency,
            "brand": self.brand,
            "sku": self.sku,
            "stock": self.stock,
            "rating": str(self.rating),
            "available": self.stock > 0,
            "category": words.CATEGORIES[self.category],
            "description": self.description,
            "image": f"{base_url}/img/{self.id}.jpg",
        }


@dataclass(frozen=True)
class ShopGeneration:
    """The shop at one visit: its products, and vanished ones that listings still link."""

    visit: int
    items: dict[int, ShopItem]
    # The path that listings link, by id.
    gone: dict[int, str]
    # The ids of each listing in order, with the vanished ones.
    listings: dict[str, tuple[int, ...]]


class Catalogue:
    """Every visit of one shop. `size` products are sold at visit 1."""

    def __init__(self, size: int = 1000, seed: int = 7) -> None:
        self.size, self.seed = size, seed
        self._arrivals = max(1, round(size * TURNOVER_SHARE))

    @lru_cache(maxsize=8)  # noqa: B019 (a shop keeps one catalogue for as long as it lives)
    def at(self, visit: int) -> ShopGeneration:
        """Returns the shop at `visit` (1 … 1000). Raises ValueError for other numbers."""
        if not 1 <= visit <= VISITS_MAX:
            raise ValueError(f"a visit is between 1 and {VISITS_MAX}")
        items: dict[int, ShopItem] = {}
        gone: dict[int, str] = {}
        for index in range(self.size + self._arrivals * (visit - 1)):
            item, vanished = self._item_at(index, visit)
            if vanished is None:
                items[item.id] = item
            elif vanished == visit:
                gone[item.id] = item.linked_path
        for number in range(GHOSTS):
            gone[FIRST_ID - 1 - number] = f"/p/{FIRST_ID - 1 - number}-discontinued"
        return ShopGeneration(visit, items, gone, _list_products(items, sorted(gone)))

    def truth(self, visit: int, base_url: str) -> list[dict[str, object]]:
        return [item.record(base_url) for item in self.at(visit).items.values()]

    def _item_at(self, index: int, visit: int) -> tuple[ShopItem, int | None]:
        """Returns the product at `visit` or at its last visit, and when it vanished."""
        rng = Random(f"{self.seed}:{index}")
        born = 1 if index < self.size else 2 + (index - self.size) // self._arrivals
        first = _make_item(rng, index)
        price, vanished = first.price, None
        for now in range(born + 1, visit + 1):
            leaves, changes, factor = rng.random(), rng.random(), rng.uniform(0.8, 1.2)
            if leaves < TURNOVER_SHARE:
                vanished = now
                break
            if changes < CHANGES_SHARE:
                price = change_price(price, factor)
        old = (
            None if first.old_price is None else (price * Decimal("1.25")).quantize(Decimal("0.01"))
        )
        return replace(first, price=price, old_price=old), vanished


def change_price(price: Decimal, factor: float) -> Decimal:
    """Returns a price near the one before, and never equal to it."""
    cents = max(99, round(int(price * 100) * factor))
    changed = (Decimal(cents) / 100).quantize(Decimal("0.01"))
    return changed if changed != price else price + Decimal("0.10")


def _make_item(rng: Random, index: int) -> ShopItem:
    """Returns a product as it first appears, before its price changes."""
    category, nouns = rng.choice(words.GOODS)
    language = rng.choice(sorted(nouns))
    noun, adjective = rng.choice(nouns[language]), rng.choice(words.ADJECTIVES[language])
    brand = rng.choice(words.BRANDS)
    name = words.compose_name(rng, language, adjective, noun, brand)
    price = (
        Decimal(
            rng.choice((990, 1490, 2495, 3999, 7900, 12900, 24950, 49900, 129900))
            + rng.randrange(900)
        )
        / 100
    )
    rating = (Decimal(rng.randrange(20, 51)) / 10).quantize(Decimal("0.1"))
    return ShopItem(
        id=FIRST_ID + index,
        slug=make_slug(name),
        old_slug=make_slug(f"{brand} {noun}") + "-old" if index % 97 == 13 else None,
        name=name,
        price=price.quantize(Decimal("0.01")),
        # The visit's price replaces it.
        old_price=Decimal(0) if rng.random() < 0.3 else None,
        currency=rng.choices(("EUR", "USD", "GBP"), (80, 10, 10))[0],
        brand=brand,
        sku=f"{category[:3].upper()}-{index:05d}-{rng.randrange(100):02d}",
        stock=0 if rng.random() < 0.1 else rng.randrange(1, 250),
        rating=rating,
        reviews=rng.randrange(1, 2000),
        category=category,
        description=words.write_description(rng, language, noun, brand),
    )


def make_slug(text: str) -> str:
    """Returns ASCII words joined by hyphens: "Löffel für 2" -> "loffel-fur-2"."""
    plain = (
        unicodedata.normalize("NFKD", text.replace("ß", "ss"))
        .encode("ascii", "ignore")
        .decode()
        .lower()
    )
    return "-".join("".join(c if c.isalnum() else " " for c in plain).split()) or "item"


def _list_products(items: dict[int, ShopItem], gone: list[int]) -> dict[str, tuple[int, ...]]:
    """Returns the ids of `all`, of each category, and of `sale`: each product is in two or three
    listings."""
    all_ids = sorted([*items, *gone])
    listings: dict[str, tuple[int, ...]] = {"all": tuple(all_ids)}
    for category in words.CATEGORIES:
        listings[category] = tuple(
            i for i in all_ids if i in items and items[i].category == category
        )
    listings["sale"] = tuple(i for i in all_ids if i in items and items[i].old_price is not None)
    return listings


def count_pages(count: int, size: int) -> int:
    """Returns the pages of a listing of `count` products; an empty listing has one."""
    return max(1, -(-count // size))


def changed_ids(before: ShopGeneration, after: ShopGeneration) -> Iterator[int]:
    """Yields ids with different prices at the two visits."""
    return (
        i
        for i, item in after.items.items()
        if i in before.items and before.items[i].price != item.price
    )
