"""A product that its shop took off sale: its page leads to a category, to the home page or to
another product. It is delisted, and never becomes what it leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.settings import Settings
from scraper.sites.definition import Site
from tests.acceptance.lies.harness import broker_of
from tests.support.machine import everyday
from tests.support.making import rows
from tests.support.shops.odd_shop import Answer, OddShop, redirect

pytestmark = pytest.mark.slow

POTS = range(1, 13)
IDS: dict[str, dict[str, Any]] = {
    "by url": {"id": {"url": r"/p/(\d+)"}},
    "on the page": {"id": {"css": "main::attr(data-id)"}},
    "none": {},
}


def card(number: int) -> str:
    return f'<li><a class="p" href="/p/{number}">Pot {number}</a> <b class="price">€{number}9.00</b></li>'


def listing(numbers: Sequence[int], title: str = "All pots") -> bytes:
    cards = "".join(map(card, numbers))
    return f"<html><body><h1>{title}</h1><ul>{cards}</ul></body></html>".encode()


def page(number: int, title: str = "", head: str = "") -> bytes:
    return (
        f'<html><head>{head}</head><body><main data-id="{number}"><h1>{title or f"Pot {number}"}</h1>'
        f'<p class="price">€{number}9.00</p></main></body></html>'
    ).encode()


class PotShop:
    """A shop with a list of all its pots below /pots, which its start page leads to."""

    def __init__(self, engine: sa.Engine, settings: Settings, server: OddShop) -> None:
        self.engine, self.settings, self.server = engine, settings, server
        server.serve(
            "/",
            b'<html><body><h1>Welcome</h1><a class=c href="/pots">Pots</a>'
            b'<p class="price">EUR 99.00</p></body></html>',
        )
        self.sell(*POTS)
        for number in POTS:
            server.serve(f"/p/{number}", page(number))

    def sell(self, *numbers: int) -> None:
        self.server.serve("/pots", listing(numbers))

    def define(self, identity: str) -> None:
        fields = {
            "title": {"css": "h1", "required": True},
            "price": {"css": ".price", "type": "price"},
        }
        site = Site.model_validate(
            {
                "name": "pots",
                "start": self.server.url("/"),
                "allow_private": True,
                "rate": "unlimited",
                "revisit": "0",
                "listing": {"products": "a.p", "listings": "a.c"},
                "product": {**IDS[identity], "fields": fields},
            }
        )
        with self.engine.begin() as connection:
            sites.store_definitions(connection, [site])

    def crawl(self, times: int = 1) -> None:
        for _ in range(times):
            with broker_of(self.engine, self.settings) as broker:
                broker.send(plan.open_now(self.engine, "pots", refetch=True).messages)
                broker.run()

    @property
    def listed(self) -> dict[str, str]:
        """The title of each product for sale, by its path."""
        found = rows(
            self.engine, "SELECT url, data ->> 'title' FROM products WHERE delisted_at IS NULL"
        )
        return {url.removeprefix(self.server.url()): title for url, title in found}

    @property
    def titles(self) -> set[str]:
        """Every title that was ever stored."""
        query = "SELECT data ->> 'title' FROM products UNION SELECT data ->> 'title' FROM product_versions"
        return {title for (title,) in rows(self.engine, query)}


@pytest.fixture
def shop(engine: sa.Engine, environment: Settings) -> Iterator[PotShop]:
    with OddShop() as server:
        yield PotShop(engine, environment, server)


HONEST = {f"Pot {number}" for number in POTS}
# Where pages lead.
DEPARTURES = {2: ("/pots", 301), 3: ("/", 302), 4: ("/p/5", 301)}
OTHER_ADDRESSES = {
    7: "/p/7/",
    8: "/de/p/8",
    9: "/p/9?lang=de&sid=4711",
    10: "/shop/p/10",
    11: "/P/11",
}


@pytest.mark.parametrize(
    ("identity", "still_named"),
    everyday(
        product(IDS, (False, True)), ("by url", False), ("none", True), ("on the page", False)
    ),
)
def test_products_that_lead_elsewhere_are_delisted_as_they_were(
    shop: PotShop, identity: str, still_named: bool
) -> None:
    """Others only changed their address: they stay, unless their address is their id."""
    shop.define(identity)
    shop.crawl()
    assert set(shop.listed.values()) == HONEST
    for number, (target, status) in DEPARTURES.items():
        shop.server.serve(f"/p/{number}", redirect(target, status))
    for number, target in OTHER_ADDRESSES.items() if identity != "none" else ():
        shop.server.serve(f"/p/{number}", redirect(target, 302))
        shop.server.serve(target, page(number))
    if not still_named:
        shop.sell(*(number for number in POTS if number not in DEPARTURES))
    shop.crawl(3)
    assert shop.titles == HONEST
    assert sorted(shop.listed.values()) == sorted(
        f"Pot {number}" for number in POTS if number not in DEPARTURES
    )


@pytest.mark.parametrize("identity", IDS)
def test_a_successor_that_no_listing_names_is_stored_as_itself(
    shop: PotShop, identity: str
) -> None:
    shop.define(identity)
    shop.crawl()
    shop.server.serve("/p/99", page(99))
    shop.server.serve("/p/2", redirect("/p/99", 301))
    shop.crawl(3)
    assert shop.titles == {*HONEST, "Pot 99"}
    listed = shop.listed
    assert listed.pop("/p/99") == "Pot 99"
    assert listed == {f"/p/{number}": f"Pot {number}" for number in POTS if number != 2}


@pytest.mark.parametrize("identity", ["by url", "none"])
def test_a_page_whose_canonical_link_is_the_category_overwrites_nothing(
    shop: PotShop, identity: str
) -> None:
    shop.define(identity)
    shop.crawl()
    head = '<link rel="canonical" href="/pots">'
    soft = page(6, "All pots", head).replace(b"69.00", b"11.00")
    shop.server.serve("/p/6", soft)
    shop.crawl(3)
    assert shop.titles == HONEST
    assert "/p/6" not in shop.listed


@pytest.mark.parametrize("identity", ["by url", "none"])
def test_canonical_links_that_are_wrong_on_all_pages_lose_no_product(
    shop: PotShop, identity: str
) -> None:
    shop.define(identity)
    head = '<link rel="canonical" href="/pots">'
    for number in POTS:
        shop.server.serve(f"/p/{number}", page(number, head=head))
    shop.crawl()
    for number in POTS:
        dearer = page(number, head=head).replace(b"9.00", b"8.00")
        shop.server.serve(f"/p/{number}", dearer)
    shop.crawl(2)
    assert set(shop.listed.values()) == HONEST


@pytest.mark.parametrize("identity", ["by url", "on the page"])
def test_a_shop_that_redirects_all_its_products_loses_none(shop: PotShop, identity: str) -> None:
    """Its listings link to numbers, and its pages have speaking addresses."""
    shop.define(identity)
    for number in POTS:
        shop.server.serve(f"/p/{number}", redirect(f"/pot-no-{number}.html", 301))
        shop.server.serve(f"/pot-no-{number}.html", page(number))
    shop.crawl()
    assert set(shop.listed.values()) == HONEST
    for number in POTS:
        shop.server.serve(f"/pot-no-{number}.html", page(number, f"Noé Pot {number}"))
    shop.crawl(3)
    assert set(shop.listed.values()) == {f"Noé Pot {number}" for number in POTS}


def test_a_product_that_moves_to_another_address_stays(shop: PotShop) -> None:
    shop.define("by url")
    shop.crawl()
    shop.server.serve("/p/2", redirect("/en/p/2-pot", 301))
    shop.server.serve("/en/p/2-pot", page(2))
    shop.crawl(3)
    assert set(shop.listed.values()) == HONEST


def test_a_redirect_to_a_login_says_nothing_of_the_product(shop: PotShop) -> None:
    shop.define("by url")
    shop.crawl()
    shop.server.serve("/p/2", redirect("/account?next=%2Fp%2F2", 302))
    shop.server.serve("/account?next=%2Fp%2F2", b"<html><h2>Your account</h2></html>")
    shop.crawl(3)
    assert shop.listed["/p/2"] == "Pot 2"


def test_a_soft_404_with_the_category_s_products_is_not_stored(shop: PotShop) -> None:
    shop.define("on the page")
    shop.crawl()
    shop.server.serve("/p/2", Answer(listing([1, 3, 4], "No longer available")))
    shop.crawl(2)
    assert shop.titles == HONEST


@pytest.mark.parametrize("identity", IDS)
def test_many_products_that_redirect_to_their_category_are_delisted(
    shop: PotShop, identity: str
) -> None:
    shop.define(identity)
    shop.crawl(2)
    for number in POTS[:5]:
        shop.server.serve(f"/p/{number}", redirect("/pots", 301))
    shop.sell(*POTS[5:])
    shop.crawl(4)
    assert shop.titles == HONEST
    assert shop.listed == {f"/p/{number}": f"Pot {number}" for number in POTS[5:]}


def test_a_shop_that_leads_home_from_every_page_is_out_of_order(shop: PotShop) -> None:
    """It blocks, or is being rebuilt: nothing is gone, and nothing of the home page is stored."""
    shop.define("by url")
    shop.crawl(2)
    for number in POTS:
        shop.server.serve(f"/p/{number}", redirect("/", 302))
    shop.crawl(3)
    assert shop.titles == HONEST
    assert set(shop.listed.values()) == HONEST
    report = rows(shop.engine, "SELECT suspect FROM crawls ORDER BY id DESC LIMIT 1")
    assert report == [(True,)]
    for number in POTS:
        shop.server.serve(f"/p/{number}", page(number))
    shop.crawl()
    assert set(shop.listed.values()) == HONEST


SOFT_404S = {
    "headed": "<html><head><title>Product not found!</title></head><body><h1>Product not found!</h1></body></html>",
    "nameless": "<html><head><title>Seite nicht gefunden</title></head><body><p>404</p></body></html>",
    "in a message": '<html><body><div class="alert" role=alert>Sorry. Product not found!</div></body></html>',
    "with others": '<html><body><h1>Nie znaleziono produktu</h1><p class="price">€39.00</p></body></html>',
}


@pytest.mark.parametrize(
    ("identity", "body", "number"),
    everyday(
        product(("by url", "none"), SOFT_404S, (1, 4)),
        ("by url", "headed", 4),
        ("none", "nameless", 1),
        ("by url", "in a message", 1),
        ("none", "with others", 4),
    ),
)
def test_pages_that_say_that_they_have_no_product_are_gone(
    shop: PotShop, identity: str, body: str, number: int
) -> None:
    """Each is answered with status 200, and all are equal."""
    shop.define(identity)
    shop.crawl()
    for pot in POTS[:number]:
        shop.server.serve(f"/p/{pot}", SOFT_404S[body].encode())
    shop.sell(*POTS[number:])
    shop.crawl(4)
    assert shop.titles == HONEST
    assert shop.listed == {f"/p/{pot}": f"Pot {pot}" for pot in POTS[number:]}


@pytest.mark.parametrize("still", [0, 2])
def test_a_shop_that_finds_no_product_is_out_of_order(shop: PotShop, still: int) -> None:
    shop.define("by url")
    shop.crawl(2)
    for pot in POTS[still:]:
        shop.server.serve(f"/p/{pot}", SOFT_404S["headed"].encode())
    shop.crawl(3)
    assert shop.titles == HONEST
    assert set(shop.listed.values()) == HONEST


def test_a_product_whose_page_says_that_it_is_not_sold_stays(shop: PotShop) -> None:
    shop.define("by url")
    shop.crawl()
    body = "<html><body><h1>Pot 2</h1><h2>This product is no longer available</h2></body></html>"
    shop.server.serve("/p/2", body.encode())
    shop.crawl(3)
    assert shop.listed["/p/2"] == "Pot 2"


def test_a_product_that_comes_back_is_listed_again(shop: PotShop) -> None:
    shop.define("by url")
    shop.crawl()
    shop.server.serve("/p/2", redirect("/", 302))
    shop.crawl(3)
    assert "/p/2" not in shop.listed
    shop.server.serve("/p/2", page(2))
    shop.crawl()
    assert shop.listed["/p/2"] == "Pot 2"
    assert shop.titles == HONEST


@pytest.mark.parametrize("status", [200, 503])
def test_a_page_that_is_away_for_one_crawl_stays(shop: PotShop, status: int) -> None:
    shop.define("by url")
    shop.crawl()
    shop.server.serve("/p/2", redirect("/busy", 302))
    shop.server.serve("/busy", Answer(b"<html><p>Back in a minute</p></html>", status))
    shop.crawl()
    shop.server.serve("/p/2", page(2))
    shop.crawl(2)
    assert set(shop.listed.values()) == HONEST
    assert shop.titles == HONEST


def test_redirects_that_go_round_in_circles_store_nothing(shop: PotShop) -> None:
    shop.define("by url")
    shop.crawl()
    shop.server.serve("/p/2", redirect("/p/2b", 302))
    shop.server.serve("/p/2b", redirect("/p/2", 302))
    shop.crawl(2)
    assert shop.titles == HONEST
