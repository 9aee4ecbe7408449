"""The cards of listings are a second source for prices that surprise: what they show as well is
published by the crawl that saw it, and what they contradict waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.plugins.confirm import cards
from scraper.quality.report import Report, read_report
from tests.integration.conftest import CrawlSite
from tests.support.machine import everyday
from tests.support.making import rows
from tests.support.shops.static_shop import StaticShop

CATEGORIES = ("pots", "pans", "lids", "cups", "jars", "outlet")
NUMBERS = range(100, 200)
ON_A_PAGE = 10
Prices = Callable[[int], Decimal]


def usual(number: int) -> Decimal:
    return Decimal(number) / 4 + Decimal("0.20")


class CardShop:
    """Six categories, the last of them empty; the cards of their listings show prices."""

    def __init__(self, server: StaticShop) -> None:
        self.server = server
        self.category = {number: CATEGORIES[number % 5] for number in NUMBERS}
        self.visits = 0

    def show(self, pages: Prices, on_cards: Prices | None = None) -> None:
        """Shows these prices. No page is the same twice, so that each crawl reads all of them."""
        on_cards = on_cards or pages
        self.visits += 1
        menu = "".join(f'<a class="c" href="/{name}">{name}</a>' for name in CATEGORIES)
        self.server.pages["/"] = f"<nav>{menu}</nav><h1>Welcome</h1>"
        for name in CATEGORIES:
            of_category = [number for number in NUMBERS if self.category[number] == name]
            for page in range(max(1, -(-len(of_category) // ON_A_PAGE))):
                shown = of_category[page * ON_A_PAGE : (page + 1) * ON_A_PAGE]
                items = "".join(
                    f'<li><a class="p" href="/p/{n}">Thing {n}</a> <b>€{on_cards(n)}</b></li>'
                    for n in shown
                )
                last = (page + 1) * ON_A_PAGE >= len(of_category)
                turn = "" if last else f'<a class="next" href="/{name}?page={page + 2}">next</a>'
                address = f"/{name}" if page == 0 else f"/{name}?page={page + 1}"
                self.server.pages[address] = f"<nav>{menu}</nav><ul>{items}</ul>{turn}"
        for n in NUMBERS:
            self.server.pages[f"/p/{n}"] = (
                f'<nav>{menu}</nav><h1>Thing {n}</h1><p class="crumb">{self.category[n]}</p>'
                f'<b class="price">€{pages(n)}</b><i>{self.visits}</i>'
            )


@pytest.fixture
def shop() -> Iterator[CardShop]:
    with StaticShop({}) as server:
        yield CardShop(server)


@pytest.fixture
def crawl(engine: sa.Engine, crawl_site: CrawlSite, shop: CardShop) -> Callable[[], Report]:
    definition = f"""
name: shop
start: {shop.server.url}/
rate: 1000/s
revisit: "0"
allow_private: true
listing: {{products: a.p, listings: a.c, next: .next}}
product:
  id: {{url: '/p/(\\d+)'}}
  fields:
    title: {{css: h1, required: true}}
    category: .crumb
    price: {{css: .price, type: price}}
"""

    def once() -> Report:
        shop.server.asked.clear()
        crawl_id = crawl_site(definition)
        with engine.connect() as connection:
            return read_report(connection, crawl_id)

    for _ in range(2):
        shop.show(usual)
        assert not once().suspect
    return once


def stored(engine: sa.Engine, field: str = "price") -> dict[int, Any]:
    query = f"SELECT CAST(external_id AS int), data ->> '{field}' FROM products"
    return {int(str(number)): value for number, value in rows(engine, query)}


def prices(engine: sa.Engine) -> dict[int, Decimal]:
    return {number: Decimal(value) for number, value in stored(engine).items()}


def leaps(number: int) -> Decimal:
    return usual(number) * 14 if number == 137 else usual(number)


def point_lost(number: int) -> Decimal:
    return usual(number) * 100 if number == 137 else usual(number)


def one_price(number: int) -> Decimal:
    return Decimal("7.50") if number % 5 == 2 and number < 160 else usual(number)


def shuffled(number: int) -> Decimal:
    """A third of the products has another product's price."""
    return usual(299 - number) if number % 3 == 0 else usual(number)


def net(number: int) -> Decimal:
    return (usual(number) / Decimal("1.19")).quantize(Decimal("0.01"))


def other(number: int) -> Decimal:
    """What neither was a price nor is one: without tax, for instance."""
    return Decimal(number) * 3


# What the pages show, and the cards; and whether it is believed.
CASES: dict[str, tuple[Prices, Prices, bool]] = {
    "one price corrected": (leaps, leaps, True),
    "one price wrong": (leaps, usual, False),
    "one price, of which cards say nothing": (leaps, other, False),
    "a decimal point lost": (point_lost, point_lost, False),
    "one price for many": (one_price, one_price, True),
    "one price from another element": (one_price, usual, False),
    "one price for many, of which cards say nothing": (one_price, other, False),
    "prices in another order": (shuffled, shuffled, True),
    "prices of other products": (shuffled, usual, False),
    "without tax": (net, net, False),
}


@pytest.mark.parametrize(
    "case",
    everyday(CASES, "one price corrected", "one price wrong"),
)
def test_a_surprise_is_published_if_the_cards_show_it_too(
    engine: sa.Engine, shop: CardShop, crawl: Callable[[], Report], case: str
) -> None:
    pages, on_cards, believed = CASES[case]
    shop.show(pages, on_cards)
    report = crawl()
    expected = pages if believed else usual
    assert prices(engine) == {number: expected(number) for number in NUMBERS}
    assert report.suspect is (not believed and pages not in (leaps, point_lost))
    listings = [path for path in shop.server.paths if path.strip("/").startswith(CATEGORIES)]
    again = len(listings) - len(set(listings))
    assert again <= 2
    assert (again > 0) is (pages not in (point_lost, net))


@pytest.mark.slow
def test_cards_of_prices_without_tax_say_nothing(
    engine: sa.Engine, shop: CardShop, crawl: Callable[[], Report]
) -> None:
    """A brand's prices rise, which needs no card; the cards show neither price."""

    def dearer(number: int) -> Decimal:
        if number % 5 == 2:
            return (usual(number) * Decimal("1.07")).quantize(Decimal("0.01"))
        return usual(number)

    shop.show(dearer, other)
    assert not crawl().suspect
    assert prices(engine) == {number: dearer(number) for number in NUMBERS}


def test_old_cards_deny_what_no_other_source_confirms(
    engine: sa.Engine, shop: CardShop, crawl: Callable[[], Report]
) -> None:
    def dearer(number: int) -> Decimal:
        if number % 5 == 2:
            return (usual(number) * Decimal("1.07")).quantize(Decimal("0.01"))
        return usual(number)

    shop.show(dearer, usual)
    crawl()
    assert prices(engine) == {number: usual(number) for number in NUMBERS}
    # Two crawls that say the same decide.
    shop.show(dearer, usual)
    assert not crawl().suspect
    assert prices(engine) == {number: dearer(number) for number in NUMBERS}


@pytest.mark.slow
def test_products_that_move_to_a_listing_take_its_name(
    engine: sa.Engine, shop: CardShop, crawl: Callable[[], Report]
) -> None:
    moved = [number for number in NUMBERS if number % 7 == 3]
    shop.category |= dict.fromkeys(moved, "outlet")
    shop.show(usual)
    assert not crawl().suspect
    assert stored(engine, "category") == shop.category


@pytest.mark.slow
def test_one_name_on_the_pages_of_several_listings_waits(
    engine: sa.Engine, shop: CardShop, crawl: Callable[[], Report]
) -> None:
    before = dict(shop.category)
    for number in NUMBERS:
        if number % 7 == 3:
            page = shop.server.pages[f"/p/{number}"]
            assert isinstance(page, str)
            shop.server.pages[f"/p/{number}"] = page.replace(f">{before[number]}</p>", ">Home</p>")
    crawl()
    assert stored(engine, "category") == before


def test_a_few_cards_decide_nothing() -> None:
    votes = cards.CardVotes
    assert not votes(2, 0).confirm and votes(3, 0).confirm and not votes(18, 1).confirm
    assert votes(19, 1).confirm and not votes(0, 2).deny and votes(0, 3).deny
    assert not votes(3, 3).deny
