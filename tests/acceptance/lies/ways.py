"""The ways in which a shop goes wrong, and those in which it only surprises.

A lie takes the pages of an honest shop and spoils some; a surprise changes the shop itself, and its
pages say so.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from tests.acceptance.lies import shop as shops
from tests.acceptance.lies.shop import Item, Pages, Shop, frame, times
from tests.support.shops.odd_shop import Answer

Lie = Callable[[Shop, Pages, Pages, Random], None]
Surprise = Callable[[Shop, Random], None]


@dataclass(frozen=True)
class Way:
    """`lie` spoils pages for this many crawls; `surprise` is true, and `delists` some products."""

    name: str
    lie: Lie | None = None
    surprise: Surprise | None = None
    crawls: int = 1
    delists: bool = False


def chosen(shop: Shop, random: Random, share: float) -> list[Item]:
    return [item for item in shop.items.values() if random.random() < share]


def say(body: bytes | str, share: float = 1.0) -> Lie:
    """A share of the product pages is this page instead."""
    page = body if isinstance(body, bytes) else frame(body, "The Shop")

    def lie(shop: Shop, pages: Pages, _: Pages, random: Random) -> None:
        for item in chosen(shop, random, share):
            pages[item.path] = page

    return lie


def as_if(change: Callable[[Item, Random], None], share: float = 1.0) -> Lie:
    """A share of the product pages shows the product otherwise."""

    def lie(shop: Shop, pages: Pages, _: Pages, random: Random) -> None:
        for item in chosen(shop, random, share):
            other = copy(item)
            change(other, random)
            pages[item.path] = shops.product(other, shop)

    return lie


def replaced(old: str, new: str, share: float = 1.0) -> Lie:
    """A share of the product pages has other markup."""

    def lie(shop: Shop, pages: Pages, _: Pages, random: Random) -> None:
        for item in chosen(shop, random, share):
            page = pages[item.path]
            assert isinstance(page, bytes)
            pages[item.path] = page.replace(old.encode(), new.encode())

    return lie


def missing(share: float) -> Lie:
    """A share of the product pages, the same ones in each crawl, is not there."""

    def lie(shop: Shop, pages: Pages, _: Pages, __: Random) -> None:
        for item in chosen(shop, Random(share), share):
            pages[item.path] = Answer(b"Not found", 404)

    return lie


def _price(factor: float) -> Callable[[Item, Random], None]:
    def change(item: Item, _: Random) -> None:
        item.price = times(item, factor)

    return change


def _set(**values: object) -> Callable[[Item, Random], None]:
    def change(item: Item, _: Random) -> None:
        for name, value in values.items():
            setattr(item, name, value)

    return change


def _translated(item: Item, _: Random) -> None:
    item.name = f"{item.name[::-1]} aus Holz"
    item.text = item.text[::-1]


def _broken_encoding(item: Item, _: Random) -> None:
    item.name = item.name.encode().decode("latin-1")
    item.text = item.text.encode().decode("latin-1")
    item.brand = (item.brand or "").encode().decode("latin-1")


def _no_point(shop: Shop, pages: Pages, _: Pages, random: Random) -> None:
    as_if(_price(100), 0.1)(shop, pages, {}, random)


def _neighbours_price(shop: Shop, pages: Pages, _: Pages, random: Random) -> None:
    items = list(shop.items.values())
    for item, other in zip(items, items[1:] + items[:1], strict=True):
        shown = copy(item)
        shown.price = other.price
        pages[item.path] = shops.product(shown, shop)


def _mixed_up(shop: Shop, pages: Pages, _: Pages, random: Random) -> None:
    honest = dict(pages)
    items = list(shop.items.values())
    for item in chosen(shop, random, 0.2):
        pages[item.path] = honest[random.choice(items).path]


def _yesterday(_: Shop, pages: Pages, before: Pages, __: Random) -> None:
    for path in pages:
        if path in before:
            pages[path] = before[path]


def _cut_off(shop: Shop, pages: Pages, _: Pages, random: Random) -> None:
    for item in chosen(shop, random, 0.2):
        page = pages[item.path]
        assert isinstance(page, bytes)
        pages[item.path] = page[: page.index(b"</h1>") + 5]


def _captcha_on_a_listing(_: Shop, pages: Pages, __: Pages, ___: Random) -> None:
    """A page in mid-category: whatever comes after it is lost too."""
    path = max((p for p in pages if p.startswith("/c/")), key=lambda p: p.endswith("?page=2"))
    pages[path] = b"<html><title>Hold on</title><p>Please show that you are human.</p></html>"


def _captcha_with_a_link(shop: Shop, pages: Pages, _: Pages, __: Random) -> None:
    path = max((p for p in pages if p.startswith("/c/")), key=lambda p: p.endswith("?page=2"))
    item = next(iter(shop.items.values()))
    pages[path] = shops.listing("/c/captcha", [item.path], last=True)


def _half_of_each_listing(shop: Shop, pages: Pages, _: Pages, __: Random) -> None:
    """Somewhat more than half, which no single page is doubted for."""
    by_path = shops.listings(shop)
    for path, paths in by_path.items():
        category, _at, number = path.partition("?page=")
        last = f"{category}?page={int(number or 1) + 1}" not in by_path
        pages[path] = shops.listing(path, paths[: len(paths) // 2 + 1], last=last)


def _category_lost(shop: Shop, pages: Pages, _: Pages, __: Random) -> None:
    pages["/c/rugs"] = shops.listing("/c/rugs", [], last=True)


def _few_in_mid_category(shop: Shop, pages: Pages, _: Pages, __: Random) -> None:
    """The first page of each category that has a second one."""
    by_path = shops.listings(shop)
    for path, paths in by_path.items():
        if f"{path}?page=2" in by_path:
            pages[path] = shops.listing(path, paths[:3], last=False)


def _stuck_on_page_one(_: Shop, pages: Pages, __: Pages, ___: Random) -> None:
    for path in list(pages):
        category, _at, number = path.partition("?page=")
        if number:
            pages[path] = pages[category]


CHALLENGE = b"<html><title>One moment</title><body><p>We look at your browser.</p></body></html>"
SORRY = "<h1>Sorry, something went wrong</h1><p>Please try again later.</p>"
SOFT_404 = (
    "<h1>Not found</h1><p>You may like:</p><ul><li>Oak Lamp <p class=price>£4.99</p></li></ul>"
)
EMPTY = "<h1></h1><p class=brand></p><p class=price></p><p class=there></p><p class=text></p>"

LIES = [
    Way("half: a challenge", say(CHALLENGE, 0.5)),
    Way("half: a challenge in the frame", say("<h1>One moment</h1>", 0.5)),
    Way("one in seven: a challenge in the frame", say("<h1>One moment</h1>", 1 / 7)),
    Way("one in fifty: a challenge in the frame", say("<h1>One moment</h1>", 0.02)),
    Way("two thirds: sorry, in the frame", say(SORRY, 0.67)),
    Way("all prices: one promotion's", as_if(_set(price=Decimal("9.99")))),
    Way("all prices: another product's", _neighbours_price),
    Way("one price in ten without its point", _no_point),
    Way("one page in five: another product's", _mixed_up),
    Way("a captcha for a listing page", _captcha_on_a_listing, crawls=2),
    Way("another currency", as_if(_set(currency="$"))),
    Way("prices without tax", as_if(_price(1 / 1.2))),
    Way("half the prices without tax", as_if(_price(1 / 1.2), 0.5)),
    Way("another language", as_if(_translated)),
    Way("half: another template", replaced("class=price", "class=cost", 0.5)),
    Way("one in twenty: another template", replaced("class=price", "class=cost", 0.05)),
    Way("yesterday's pages", _yesterday),
    Way("one in ten: a soft 404 with a price", say(SOFT_404, 0.1)),
    Way("prices from", as_if(_price(0.5), 0.4)),
    Way("broken encoding", as_if(_broken_encoding)),
    Way("a third: a login page", say("<h1>Log in</h1><form><input type=password></form>", 0.33)),
    Way("all: a cookie wall", say("<h1>We use cookies</h1><button>Accept</button>")),
    Way("a quarter: an empty template", say(EMPTY, 0.25)),
    Way("a fifth: cut off after the name", _cut_off),
    Way("a category without products", _category_lost, crawls=2),
    Way("three products on a page in mid-category", _few_in_mid_category, crawls=2),
    Way("every listing shows page one", _stuck_on_page_one, crawls=2),
    Way("pictures for prices", replaced("class=price>£", "class=price><img src=/x>", 1.0)),
    Way("one in twenty for nothing", as_if(_set(price=Decimal("0.00")), 0.05)),
    Way("all names: the sale's", as_if(_set(name="Black Friday: everything must go"))),
    Way("every brand elsewhere", replaced("class=brand", "class=maker"), crawls=3),
    Way("every id another", replaced("class=sku>A-", "class=sku>B-")),
    Way("one id in ten another", replaced("class=sku>A-", "class=sku>B-", 0.1)),
    Way("one id for all", as_if(_set(number=1))),
    Way("a third: 404", missing(0.33), crawls=2),
    Way("a captcha with a product's link for a listing page", _captcha_with_a_link, crawls=2),
    Way("half of each listing", _half_of_each_listing, crawls=2),
    Way("one in twelve: another language", as_if(_translated, 1 / 12)),
    Way("one in twelve: the shop for a brand", as_if(_set(brand="The Shop"), 1 / 12)),
    Way("commas and points swapped", replaced("class=price>£1,", "class=price>£1.")),
    Way("one in thirty: all sold out, no name", replaced("<h1>", "<h2>", 1 / 30)),
]


def _sale(share: float) -> Surprise:
    def surprise(shop: Shop, random: Random) -> None:
        for item in chosen(shop, random, share):
            item.price = times(item, random.uniform(0.6, 0.95))

    return surprise


def each(change: Callable[[Item, Random], None], share: float = 1.0) -> Surprise:
    def surprise(shop: Shop, random: Random) -> None:
        for item in chosen(shop, random, share):
            change(item, random)

    return surprise


def _replaced(shop: Shop, random: Random) -> None:
    for item in chosen(shop, random, 0.5):
        del shop.items[item.number]
        shop.add()


def _doubled(shop: Shop, _: Random) -> None:
    for _number in range(len(shop.items)):
        shop.add()


def _half_delisted(shop: Shop, random: Random) -> None:
    for item in chosen(shop, random, 0.5):
        del shop.items[item.number]


def _moved(shop: Shop, _: Random) -> None:
    shop.moved = "/new"


def _redesigned(shop: Shop, _: Random) -> None:
    shop.design = "new"


def _euros(item: Item, _: Random) -> None:
    item.price, item.currency = times(item, 1.17), "€"


def _renamed(item: Item, _: Random) -> None:
    item.name += " (new)"


def _rewritten(item: Item, random: Random) -> None:
    item.text = " ".join(random.sample(shops.WORDS, 10))


SURPRISES = [
    Way("sale: a third of all", surprise=_sale(0.33)),
    Way("sale: everything", surprise=_sale(1.0)),
    Way("all prices doubled", surprise=each(_price(2))),
    Way("half the assortment replaced", surprise=_replaced, delists=True),
    Way("a field dropped", surprise=each(_set(brand=None))),
    Way("a new design", surprise=_redesigned),
    Way("a new currency", surprise=each(_euros)),
    Way("the shop doubled", surprise=_doubled),
    Way("half delisted", surprise=_half_delisted, delists=True),
    Way("other URLs", surprise=_moved),
    Way("a fifth sold out", surprise=each(_set(stock=0), 0.2)),
    Way("one price ten times as high", surprise=each(_price(10), 0.005)),
    Way("a tenth renamed", surprise=each(_renamed, 0.1)),
    Way("all texts rewritten", surprise=each(_rewritten)),
]
