"""Cards of listings and dates of sitemaps signal changed pages: read by a real worker from a real shop's pages, into a
real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.frontier import sites
from scraper.plugins.freshness.command import describe_plan
from scraper.plugins.freshness.rounds import visit_pages
from scraper.settings import Settings
from scraper.sites import loader
from tests.integration.conftest import CrawlSite
from tests.support.broker import Broker
from tests.support.making import rows
from tests.support.shops.static_shop import StaticShop

PRODUCTS = range(1, 31)
BUDGET = 144


def price_page(shop: StaticShop, number: int, price: str, *, card: str | None = None) -> None:
    """Sets a product's price on its page, and on its card unless the card says something else."""
    shop.pages[f"/p/{number}"] = f'<h1>Thing {number}</h1><b class="price">${price}</b>'
    CARDS[number] = card or f'<span class="price">${price}</span>'
    shop.pages["/all"] = "<h1>All</h1>" + "".join(
        f'<div class="card"><a href="/p/{n}"><img src="/i.png"></a><a href="/p/{n}">Thing {n}</a>'
        f"<s>$999.00</s>{text}</div>"
        for n, text in CARDS.items()
    )


def write_sitemap(shop: StaticShop, modified: Mapping[int, datetime]) -> None:
    """Names all products in the sitemap, modified at these times, else long ago."""
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    shop.pages["/map.xml"] = "<urlset>" + "".join(
        f"<url><loc>{shop.url}/p/{n}</loc>"
        f"<lastmod>{modified.get(n, long_ago).isoformat()}</lastmod></url>"
        for n in PRODUCTS
    )


CARDS: dict[int, str] = {}


@pytest.fixture
def shop() -> Iterator[StaticShop]:
    CARDS.clear()
    with StaticShop({}) as server:
        for number in PRODUCTS:
            price_page(server, number, f"{number}.00")
        write_sitemap(server, {})
        yield server


def define(shop: StaticShop) -> str:
    return f"""
name: shop
start: {shop.url}/all
rate: 1000/s
allow_private: true
budget: {BUDGET}/d
sitemap: {{urls: {shop.url}/map.xml, products: "/p/", follow: false}}
listing: {{products: ".card a"}}
product:
  id: {{url: "/p/(\\\\d+)"}}
  fields:
    title: {{css: h1, required: true}}
    price: {{css: .price, type: price, required: true}}
"""


def pass_days(engine: sa.Engine, days: float) -> None:
    """Makes all that is stored older."""
    with engine.begin() as connection:
        for table, columns in {
            "pages": ("fetched_at",),
            "page_visits": ("looked_at",),
            "page_cards": ("changed_at", "quiet_until", "read_at"),
            "page_dates": ("moved_at", "quiet_until", "read_at"),
            "site_plans": ("planned_at",),
        }.items():
            for column in columns:
                connection.execute(
                    sa.text(f"UPDATE {table} SET {column} = {column} - :days * interval '1 day'"),
                    {"days": days},
                )


class Rounds:
    """Runs rounds to their end by a real worker, without the pace of the plan."""

    def __init__(self, broker: Broker, crawl_site: CrawlSite) -> None:
        self.engine, self.broker, self.crawl_site = broker.engine, broker, crawl_site

    def crawl(self, shop: StaticShop) -> list[str]:
        """Crawls the whole site, and returns the paths asked for."""
        return self._paths(shop, lambda: self.crawl_site(define(shop).replace("144", "864000000")))

    def visit(self, shop: StaticShop) -> list[str]:
        return self._paths(shop, lambda: self._run_round(shop))

    def _run_round(self, shop: StaticShop) -> None:
        with self.engine.begin() as connection:
            site = loader.load_text(define(shop), "shop.yaml")
            sites.store_definitions(connection, [site])
        messages = visit_pages(self.engine, Settings())
        with self.engine.begin() as connection:
            connection.execute(
                sa.text("""
            UPDATE crawls SET rate_per_s = 1000, definition = CAST(jsonb_set(
                CAST(definition AS jsonb), '{rate}', '"1000/s"') AS json) WHERE status = 'running'
            """)
            )
        self.broker.send(messages)
        self.broker.run()

    def _paths(self, shop: StaticShop, run: Callable[[], object]) -> list[str]:
        shop.asked.clear()
        run()
        return sorted(path for path, _ in shop.asked if path.startswith("/p/"))


@pytest.fixture
def rounds(broker: Broker, crawl_site: CrawlSite) -> Rounds:
    return Rounds(broker, crawl_site)


def prices(engine: sa.Engine) -> dict[str, float]:
    found = rows(engine, "SELECT external_id, (data ->> 'price')::float FROM products")
    return {str(id_): float(str(price)) for id_, price in found}


def describe_sensor(engine: sa.Engine, name: str) -> dict[str, Any]:
    with engine.connect() as connection:
        sensor: dict[str, Any] = describe_plan(connection, "shop")[name]
    return sensor


def test_pages_whose_cards_have_changed_are_visited_first(
    engine: sa.Engine, rounds: Rounds, shop: StaticShop
) -> None:
    rounds.crawl(shop)
    rounds.visit(shop)
    assert rows(engine, "SELECT count(*) FROM page_visits") == [(len(PRODUCTS),)]
    pass_days(engine, 1)
    for number in (3, 17, 28):
        price_page(shop, number, f"{number}.50")
    # A crawl of the whole site reads the listing, and no product.
    assert rounds.crawl(shop) == []
    visited = rounds.visit(shop)
    assert len(visited) == 6
    assert {"/p/3", "/p/17", "/p/28"} <= set(visited)
    assert {prices(engine)[key] for key in ("3", "17", "28")} == {3.5, 17.5, 28.5}
    rounds.visit(shop)
    cards = describe_sensor(engine, "cards")
    assert cards["precision"] == 1 and cards["believed"]
    assert rows(engine, "SELECT count(*) FROM page_visits WHERE signalled") == [(0,)]


@pytest.mark.slow
def test_cards_that_always_change_lose_their_say(
    engine: sa.Engine, rounds: Rounds, shop: StaticShop
) -> None:
    rounds.crawl(shop)
    rounds.visit(shop)
    for day in range(6):
        pass_days(engine, 1)
        for number in PRODUCTS:
            lie = f'<span class="price">${number + 50 + day}.99</span>'
            price_page(shop, number, f"{number}.00", card=lie)
        rounds.crawl(shop)
        for _ in range(5):
            rounds.visit(shop)
    cards = describe_sensor(engine, "cards")
    assert cards["precision"] == 0 and not cards["believed"]
    # They are compared as before, but no visit is moved.
    pass_days(engine, 1)
    for number in PRODUCTS:
        price_page(shop, number, f"{number}.00", card=f'<b class="price">${number + 80}.99</b>')
    rounds.crawl(shop)
    rounds.visit(shop)
    assert rows(
        engine, "SELECT count(*) FROM page_visits WHERE signalled AND next_visit = 'epoch'"
    ) == [(0,)]


def test_a_card_that_shows_what_is_stored_signals_nothing(
    engine: sa.Engine, rounds: Rounds, shop: StaticShop
) -> None:
    rounds.crawl(shop)
    rounds.visit(shop)
    pass_days(engine, 1)
    price_page(shop, 5, "5.75")
    # A round finds the change before the listing is read again.
    with engine.begin() as connection:
        connection.execute(
            sa.text("""UPDATE page_visits SET next_visit = 'epoch' WHERE page_id =
                       (SELECT id FROM pages WHERE url LIKE '%/p/5')""")
        )
    assert "/p/5" in rounds.visit(shop)
    rounds.crawl(shop)
    visit_pages(engine, Settings())
    assert rows(
        engine,
        """SELECT count(*) FROM page_cards c JOIN page_visits v USING (site_id)
                    WHERE v.signalled""",
    ) == [(0,)]


def test_pages_whose_dates_have_moved_are_visited_first(
    engine: sa.Engine, rounds: Rounds, shop: StaticShop
) -> None:
    for number in PRODUCTS:
        price_page(shop, number, f"{number}.00", card="<i>new</i>")
    rounds.crawl(shop)
    rounds.visit(shop)
    pass_days(engine, 1)
    changed = {3, 17, 28}
    for number in changed:
        price_page(shop, number, f"{number}.50", card="<i>new</i>")
    write_sitemap(shop, dict.fromkeys(changed, datetime.now(UTC)))
    # A crawl of the whole site reads the sitemap, and no product.
    assert rounds.crawl(shop) == []
    visited = rounds.visit(shop)
    assert len(visited) == 6
    assert {f"/p/{number}" for number in changed} <= set(visited)
    rounds.visit(shop)
    dates = describe_sensor(engine, "dates")
    assert dates["precision"] == 1 and dates["believed"]
    assert rows(engine, "SELECT count(*) FROM page_visits WHERE dated") == [(0,)]


def test_a_date_before_the_last_look_signals_nothing(
    engine: sa.Engine, rounds: Rounds, shop: StaticShop
) -> None:
    rounds.crawl(shop)
    rounds.visit(shop)
    pass_days(engine, 1)
    write_sitemap(shop, {4: datetime(2026, 2, 1, 12, tzinfo=UTC), 5: datetime.now(UTC)})
    rounds.crawl(shop)
    visit_pages(engine, Settings())
    dated = "SELECT url FROM pages p JOIN page_visits v ON v.page_id = p.id WHERE v.dated"
    assert rows(engine, dated) == [(f"{shop.url}/p/5",)]


@pytest.mark.slow
def test_a_sitemap_that_stamps_every_page_today_loses_its_say(
    engine: sa.Engine, rounds: Rounds, shop: StaticShop
) -> None:
    rounds.crawl(shop)
    rounds.visit(shop)
    for _ in range(6):
        pass_days(engine, 1)
        write_sitemap(shop, dict.fromkeys(PRODUCTS, datetime.now(UTC)))
        rounds.crawl(shop)
        for _ in range(5):
            rounds.visit(shop)
    dates = describe_sensor(engine, "dates")
    assert dates["precision"] == 0 and not dates["believed"]
    pass_days(engine, 1)
    write_sitemap(shop, dict.fromkeys(PRODUCTS, datetime.now(UTC)))
    rounds.crawl(shop)
    rounds.visit(shop)
    assert rows(
        engine, "SELECT count(*) FROM page_visits WHERE dated AND next_visit = 'epoch'"
    ) == [(0,)]
