"""What the owner of an honest shop does, day by day. Every change is one that shops make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from tests.acceptance.days.shop import CENT, IN_STOCK, PRE_ORDER, SOLD_OUT, Item, Shop

Act = Callable[[Shop], None]


@dataclass(frozen=True)
class Day:
    """What happens before that day's crawl, besides what happens every night."""

    name: str
    act: Act | None = None


def pass_night(shop: Shop, *, quiet: bool) -> None:
    """A few prices, stocks and reviews change every night; now and then a product comes or goes."""
    random = shop.random
    for item in shop.some(0.055 if quiet else 0.02):
        if item.was is None and not item.hides_price:
            item.reprice(random.choice((0.9, 0.93, 0.96, 1.04, 1.07)), shop.ending)
    for item in shop.some(0.02):
        if not item.hides_price and item.availability != PRE_ORDER:
            item.availability = IN_STOCK if item.availability == SOLD_OUT else SOLD_OUT
    for item in shop.some(0.1):
        item.reviews += 1
    if random.random() < 0.3:
        shop.add()
    if random.random() < 0.3:
        shop.remove(random.choice(list(shop.items.values())))


def each(change: Callable[[Item, Shop], None], share: float = 1.0) -> Act:
    def act(shop: Shop) -> None:
        for item in shop.some(share):
            change(item, shop)

    return act


def _raise_brand(shop: Shop) -> None:
    for item in shop.of_brand("Aalto"):
        item.end_sale()
        item.reprice(1.05, shop.ending)


def _start_sale(*categories: str, least: float, most: float) -> Act:
    def act(shop: Shop) -> None:
        for item in shop.in_category(*categories):
            item.reduce(shop.random.uniform(1 - most, 1 - least), shop.ending)

    return act


def _end_sale(shop: Shop) -> None:
    for item in shop.items.values():
        item.end_sale()


def _sell_out(shop: Shop) -> None:
    for item in shop.of_brand("Berg", "Fjord"):
        item.availability = SOLD_OUT


def _restock(shop: Shop) -> None:
    for item in shop.of_brand("Berg", "Fjord"):
        item.availability, item.hides_price = IN_STOCK, False


def _end_in_95(shop: Shop) -> None:
    shop.ending = "0.05"
    for item in shop.items.values():
        item.price -= Decimal("0.04")
        item.was = None if item.was is None else item.was - Decimal("0.04")


def _multiply(item: Item, factor: Decimal) -> None:
    item.price = (item.price * factor).quantize(CENT, ROUND_HALF_UP)
    if item.was is not None:
        item.was = (item.was * factor).quantize(CENT, ROUND_HALF_UP)


def _raise_vat(item: Item, _: Shop) -> None:
    _multiply(item, Decimal("1.20") / Decimal("1.19"))


def _raise_price_list(item: Item, _: Shop) -> None:
    _multiply(item, Decimal("1.02"))


def _rewrite(item: Item, shop: Shop) -> None:
    item.text = shop.write_text()


def _use_cdn(shop: Shop) -> None:
    shop.images = "https://cdn.house.example/w800"


def _put_brand_first(shop: Shop) -> None:
    shop.brand_first = True


def _say_available_now(shop: Shop) -> None:
    shop.in_stock_words = "Available now"


def _hide_prices(shop: Shop) -> None:
    for item in shop.items.values():
        if item.availability == SOLD_OUT:
            item.hides_price, item.was = True, None


def _renumber(*brands: str) -> Act:
    def act(shop: Shop) -> None:
        for item in shop.of_brand(*brands):
            item.sku = f"X{item.number * 13 % 100000:05}"

    return act


def _start_flash_sale(shop: Shop) -> None:
    """It ends once half of the products were shown."""
    left = len(shop.items) // 2
    for item in shop.in_category("pots", "towels"):
        item.reduce(0.7, shop.ending)

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            shop.end_flash_sale()

    shop.on_request = count


def _announce(shop: Shop) -> None:
    for _ in range(max(3, len(shop.items) // 20)):
        shop.add(brand="Groth").availability = PRE_ORDER


def _deliver(shop: Shop) -> None:
    for item in shop.items.values():
        if item.availability == PRE_ORDER:
            item.availability = IN_STOCK


def _change_season(shop: Shop) -> None:
    """The candles are replaced by others."""
    for item in shop.in_category("candles"):
        if shop.random.random() < 0.7:
            shop.remove(item, to="/c/candles")
            shop.add("candles")


def _test_prices(shop: Shop) -> None:
    for item in shop.some(0.2):
        if item.was is None and not item.hides_price:
            item.other_price = (item.price * Decimal("1.06")).quantize(CENT)


def _decide_prices(shop: Shop) -> None:
    for item in shop.items.values():
        if item.other_price is not None:
            item.price, item.other_price = item.other_price, None


def _reprice(item: Item, shop: Shop) -> None:
    if item.was is None:
        _multiply(item, Decimal(str(round(shop.random.uniform(0.9, 1.1), 3))))


def _sell_in_pairs(shop: Shop) -> None:
    for item in shop.in_category("towels"):
        item.name += " (2 pieces)"
        item.end_sale()
        _multiply(item, Decimal("1.9"))
        item.unit = f' <small class="unit">€{item.price / 2:.2f} a piece</small>'


def _open_outlet(shop: Shop) -> None:
    shop.categories.append("outlet")
    for item in shop.some(0.1):
        item.category = "outlet"
        item.reduce(shop.random.uniform(0.4, 0.6), shop.ending)


def _sell_leftovers(shop: Shop) -> None:
    """All for one price, without the former ones."""
    for item in shop.in_category("outlet"):
        item.price, item.was = Decimal("7.50"), None


def _correct(shop: Shop) -> None:
    """Two prices that were mistyped: the shop sold the shelves far too cheaply."""
    for item in shop.in_category("shelves")[:2]:
        item.end_sale()
        item.price = (item.price * 14).quantize(Decimal(1)) - Decimal("0.05")


def _split(shop: Shop) -> None:
    """Some rugs become a product for each size; the old page leads to the smallest."""
    for item in shop.in_category("rugs")[:4]:
        sizes = [shop.add("rugs", item.brand) for _ in range(3)]
        for size, words in zip(sizes, ("small", "medium", "large"), strict=True):
            size.name = f"{item.name} {words}"
        shop.remove(item, to=sizes[0].path)


def _merge(shop: Shop) -> None:
    """Some chairs of several colours become one product."""
    chairs = shop.in_category("chairs")[:6]
    for first, second in zip(chairs[::2], chairs[1::2], strict=False):
        shop.remove(second, to=first.path)


SEVEN = ("lamps", "chairs", "tables", "shelves", "rugs", "pots", "towels")
DAYS = [
    Day("a few prices"),
    Day("a few prices"),
    Day("one brand 5 % dearer", _raise_brand),
    Day("a few prices"),
    Day("a category 20 % off", _start_sale("tables", least=0.2, most=0.2)),
    Day("a few prices"),
    Day("a sale of seven categories", _start_sale(*SEVEN, least=0.15, most=0.45)),
    Day("a few prices"),
    Day("the sale ends", _end_sale),
    Day("a few prices"),
    Day("two brands sold out", _sell_out),
    Day("a few prices"),
    Day(".95 in place of .99", _end_in_95),
    Day("VAT 19 to 20 %", each(_raise_vat)),
    Day("a quarter of the texts rewritten", each(_rewrite, 0.25)),
    Day("the brand before each name", _put_brand_first),
    Day("images on a CDN", _use_cdn),
    Day("no price where sold out", _hide_prices),
    Day("back in stock", _restock),
    Day("Available now for In stock", _say_available_now),
    Day("a supplier renumbers", _renumber("Cassel", "Eames")),
    Day("a price list of 2 %", each(_raise_price_list)),
    Day("a flash sale of an hour", _start_flash_sale),
    Day("pre-orders", _announce),
    Day("pre-orders delivered", _deliver),
    Day("another season", _change_season),
    Day("two prices on trial", _test_prices),
    Day("a trial decided", _decide_prices),
    Day("re-priced by an algorithm", each(_reprice)),
    Day("sold in pairs", _sell_in_pairs),
    Day("an outlet", _open_outlet),
    Day("the outlet for one price", _sell_leftovers),
    Day("mistyped prices corrected", _correct),
    Day("variants split", _split),
    Day("variants merged", _merge),
    Day("a few prices"),
    Day("another price list of 2 %", each(_raise_price_list)),
    Day("re-priced by an algorithm", each(_reprice)),
    Day("a few prices"),
    Day("a few prices"),
]
