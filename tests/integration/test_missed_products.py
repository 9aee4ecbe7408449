"""Listings that are not whole delist nothing: those that name no product any more, and those that
suddenly miss many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.settings import Settings
from scraper.settle import crawl_quality
from scraper.sites.definition import Site
from tests.integration.test_quality import crawled, good, shop
from tests.integration.test_worker import Broker
from tests.making import rows
from tests.odd_shop import OddShop, listing, product

CAPTCHA = b"<html><title>Hold on</title><p>Are you human?</p></html>"


class Shop:
    """Two categories, the second of three products only."""

    def __init__(self, server: OddShop, engine: sa.Engine, settings: Settings) -> None:
        self.server, self.engine, self.settings = server, engine, settings
        links = '<a class="c" href="/c/a">a</a> <a class="c" href="/c/b">b</a>'
        server.serve("/", listing([], links))
        self.nav = links
        for number in range(100):
            page = product(str(number), f"thing {number}", f"{number}.90 €").encode()
            server.serve(f"/p/{number}", page)
        self.sell(range(97), range(97, 100))

    def sell(self, a: range, b: range) -> None:
        for name, numbers in {"a": a, "b": b}.items():
            page = listing([f"/p/{number}" for number in numbers], self.nav)
            self.server.serve(f"/c/{name}", page)

    def crawl(self) -> tuple[bool, int, str | None]:
        """Whether it is suspect, how many products it has delisted, its note."""
        definition = {
            "name": "shop",
            "start": self.server.url("/"),
            "allow_private": True,
            "robots": False,
            "rate": "unlimited",
            "revisit": "0",
            "limits": {"attempts": 2},
            "listing": {"products": "a.p", "listings": "a.c"},
            "product": {"fields": {"title": "h1", "price": {"css": ".price", "type": "price"}}},
        }
        with self.engine.begin() as connection:
            sites.sync(connection, [Site.model_validate(definition)])
        broker = Broker(self.engine, self.settings, lambda message: [message])
        opened = plan.open_now(self.engine, "shop", refetch=True)
        broker.send(opened.messages)
        broker.run()
        broker.worker.close()
        self.id = opened.crawl_id
        query = f"SELECT suspect, products_delisted, note FROM crawls WHERE id = {self.id}"
        ((suspect, delisted, note),) = rows(self.engine, query)
        return bool(suspect), int(str(delisted)), None if note is None else str(note)


@pytest.fixture
def live(engine: sa.Engine, environment: Settings) -> Iterator[Shop]:
    with OddShop() as server:
        shop = Shop(server, engine, environment)
        for _ in range(2):
            assert shop.crawl() == (False, 0, None)
        yield shop


def test_a_captcha_for_a_listing_never_delists(live: Shop) -> None:
    live.server.serve("/c/b", CAPTCHA)
    for _ in range(4):
        suspect, delisted, note = live.crawl()
        assert suspect and delisted == 0
        assert note is not None and live.server.url("/c/b") in note
        assert "it names no product, and named 3 before" in note
    assert live.server.asked().count("/c/b") == 2 + 4 * 2, "each crawl tries it again"
    live.sell(range(97), range(97, 100))
    assert live.crawl() == (False, 0, None)
    assert rows(live.engine, "SELECT FROM products WHERE missed_crawls > 0") == []


def test_a_person_may_say_that_it_is_empty(live: Shop) -> None:
    live.server.serve("/c/b", CAPTCHA)
    assert live.crawl()[0]
    with live.engine.begin() as connection:
        assert crawl_quality.accept(connection, live.id)
    assert [live.crawl()[:2] for _ in range(2)] == [(False, 0), (False, 3)]


def test_a_category_that_becomes_empty_is_believed_the_second_time(live: Shop) -> None:
    live.sell(range(97), range(0))
    crawls = [live.crawl() for _ in range(4)]
    assert [crawl[:2] for crawl in crawls] == [(False, 0), (False, 0), (False, 3), (False, 0)]
    assert crawls[0][2] is not None and crawls[1][2] is None


def test_many_products_that_are_missed_at_once_count_when_they_are_missed_twice(
    live: Shop,
) -> None:
    live.sell(range(80), range(97, 100))
    assert [live.crawl()[:2] for _ in range(4)] == [(True, 0), (False, 17), (False, 0), (False, 0)]
    (reason,) = rows(live.engine, "SELECT reasons -> 0 ->> 'text' FROM crawls WHERE suspect")
    assert reason == ("17 of 100 products are not listed any more, usually 0% at most",)


def test_a_listing_that_is_whole_again_has_missed_nothing(live: Shop) -> None:
    live.sell(range(80), range(97, 100))
    assert live.crawl()[0]
    live.sell(range(97), range(97, 100))
    assert live.crawl() == (False, 0, None)
    assert rows(live.engine, "SELECT FROM products WHERE missed_crawls > 0") == []


def test_what_goes_every_day_is_missed_at_once(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(200))
    delisted = [crawled(engine, shop(), range(8 * n, 200), good).row for n in range(1, 6)]
    assert not any(row.suspect for row in delisted)
    assert [row.products_delisted for row in delisted] == [0, 8, 8, 8, 8]
