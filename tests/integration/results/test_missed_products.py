"""Listings that are not whole delist nothing: those that name no product any more, and those that
suddenly miss many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.coordinator.finish import finish
from scraper.frontier import sites
from scraper.results.judgement import crawl_quality
from scraper.settings import Settings
from scraper.sites.definition import Site
from tests.support.broker import Broker
from tests.support.judged_crawls import Crawl, crawled, good, shop
from tests.support.making import rows
from tests.support.shops.odd_shop import Answer, OddShop, listing, product

CAPTCHA = b"<html><title>Hold on</title><p>Are you human?</p></html>"


class Shop:
    """Two categories, the second of three products only."""

    def __init__(self, server: OddShop, engine: sa.Engine, settings: Settings) -> None:
        self.server, self.engine = server, engine
        self.broker = Broker(engine, settings, lambda message: [message])
        links = '<a class="c" href="/c/a">a</a> <a class="c" href="/c/b">b</a>'
        server.serve("/", listing([], links))
        self.nav = links
        self.sell(range(97), range(97, 100))

    def sell(self, a: range, b: range, *, alive: bool = False) -> None:
        """What is not sold any more has no page, unless that is `alive`."""
        for number in range(100):
            page = product(str(number), f"thing {number}", f"{number}.90 €").encode()
            there = alive or number in a or number in b
            self.server.serve(f"/p/{number}", page if there else Answer(b"gone", 404))
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
            sites.store_definitions(connection, [Site.model_validate(definition)])
        opened = plan.open_now(self.engine, "shop", refetch=True)
        self.broker.send(opened.messages)
        self.broker.run()
        self.id = opened.crawl_id
        query = f"SELECT suspect, products_delisted, note FROM crawls WHERE id = {self.id}"
        ((suspect, delisted, note),) = rows(self.engine, query)
        return bool(suspect), int(str(delisted)), None if note is None else str(note)


@pytest.fixture
def live(engine: sa.Engine, environment: Settings) -> Iterator[Shop]:
    with OddShop() as server:
        shop = Shop(server, engine, environment)
        try:
            for _ in range(2):
                assert shop.crawl() == (False, 0, None)
            yield shop
        finally:
            shop.broker.close()


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
    live.sell(range(97), range(0))
    live.server.serve("/c/b", CAPTCHA)
    assert live.crawl()[0]
    with live.engine.begin() as connection:
        assert crawl_quality.accept_crawl(connection, live.id)
    assert [live.crawl()[:2] for _ in range(2)] == [(False, 0), (False, 3)]


def test_a_category_that_becomes_empty_is_believed_the_second_time(live: Shop) -> None:
    live.sell(range(97), range(0))
    crawls = [live.crawl() for _ in range(4)]
    assert [crawl[:2] for crawl in crawls] == [(True, 0), (False, 0), (False, 3), (False, 0)]
    assert crawls[0][2] is not None and crawls[1][2] is None


def test_a_listing_that_loses_its_products_is_named_and_believed_the_second_time(
    live: Shop,
) -> None:
    """Six of a hundred: no more than may leave a shop any day, but all of one listing's."""
    live.sell(range(90), range(90, 100))
    assert live.crawl() == (False, 0, None)
    live.sell(range(90), range(96, 100), alive=True)
    suspect, delisted, _ = live.crawl()
    (reasons,) = rows(live.engine, f"SELECT reasons FROM crawls WHERE id = {live.id}")
    assert (suspect, delisted) == (True, 0)
    expected = f"{live.server.url('/c/b')} names 4 products, and 6 that it named are in no listing"
    assert [reason["text"] for reason in reasons[0]] == [expected]  # type: ignore[attr-defined]
    live.sell(range(90), range(96, 100))
    assert [live.crawl()[:2] for _ in range(2)] == [(False, 6), (False, 0)]


def test_products_that_leave_a_whole_category_empty_its_last_page_without_doubt(
    live: Shop,
) -> None:
    """Those that were on it are on the page before now."""
    live.sell(range(5, 97), range(97, 100))
    live.server.serve("/c/b", listing(["/p/97"], live.nav))
    live.server.serve("/c/a", listing([f"/p/{n}" for n in (*range(5, 97), 98, 99)], live.nav))
    assert live.crawl()[:2] == (False, 0)


def test_many_products_that_are_missed_at_once_count_when_they_are_missed_twice(
    live: Shop,
) -> None:
    live.sell(range(80), range(97, 100), alive=True)
    assert live.crawl()[:2] == (True, 0)
    live.sell(range(80), range(97, 100))
    assert [live.crawl()[:2] for _ in range(3)] == [(False, 17), (False, 0), (False, 0)]
    (reason,) = rows(live.engine, "SELECT reasons -> 0 ->> 'text' FROM crawls WHERE suspect")
    assert reason == ("17 of 100 products are no longer listed, usually 0% at most",)


def test_many_products_whose_pages_are_gone_are_believed(live: Shop) -> None:
    live.sell(range(60), range(97, 100))
    before = len(live.server.asked())
    assert live.crawl() == (False, 0, None)
    asked = [target for target in live.server.asked()[before:] if target.startswith("/p/")]
    assert len(asked) == 63 + 6, "a tenth is requested"
    assert [live.crawl()[:2] for _ in range(2)] == [(False, 37), (False, 0)]


def test_one_page_that_is_alive_makes_missed_products_suspect(live: Shop) -> None:
    live.sell(range(86), range(97, 100))
    page = product("90", "thing 90", "90.90 €").encode()
    live.server.serve("/p/90", page)
    suspect, delisted, _ = live.crawl()
    asked = [target for target in live.server.asked() if target == "/p/90"]
    assert (suspect, delisted) == (len(asked) > 2, 0)


def test_a_requested_page_that_is_no_longer_good_was_read_when_it_was(live: Shop) -> None:
    live.sell(range(60), range(97, 100))
    for number in range(60, 97):
        live.server.serve(f"/p/{number}", b"<p>closed for today")
    live.crawl()
    states = "SELECT count(*), count(fetched_at) FROM pages WHERE status = 'invalid'"
    assert rows(live.engine, states) == [(6, 6)]


def test_products_whose_pages_are_alive_are_delisted_by_a_third_crawl(live: Shop) -> None:
    live.sell(range(94), range(97, 100), alive=True)
    crawls = [live.crawl() for _ in range(4)]
    assert [crawl[:2] for crawl in crawls] == [(False, 0), (False, 0), (False, 3), (False, 0)]
    assert [crawl[2] for crawl in (crawls[0], *crawls[2:])] == [None] * 3
    assert crawls[1][2] is not None
    assert crawls[1][2].startswith("3 of 3 products that no listing names still exist, such as")
    assert [live.server.asked().count(f"/p/{number}") for number in (94, 95, 96)] == [3] * 3


def test_a_listing_that_is_cut_short_in_two_crawls_delists_nothing(live: Shop) -> None:
    live.sell(range(20), range(97, 100), alive=True)
    assert live.crawl()[:2] == (True, 0)
    assert live.crawl()[:2] == (False, 0)
    asked = [target for target in live.server.asked() if target.startswith("/p/")]
    assert len(asked) == 2 * 100 + 2 * 23 + 2 + 77, "each that is missed, once, and a tenth before"
    live.sell(range(97), range(97, 100))
    assert live.crawl()[:2] == (False, 0)
    assert rows(live.engine, "SELECT FROM products WHERE missed_crawls > 0") == []


def test_pages_that_are_gone_while_listings_name_them(live: Shop) -> None:
    """A third of the shop answers 404 for two crawls."""
    whole = {n: product(str(n), f"thing {n}", f"{n}.90 €").encode() for n in range(33)}
    for number in whole:
        live.server.serve(f"/p/{number}", Answer(b"no", 404))
    assert live.crawl()[:2] == (True, 0)
    assert live.crawl()[1] == 0
    for number, page in whole.items():
        live.server.serve(f"/p/{number}", page)
    assert live.crawl()[:2] == (False, 0)
    assert rows(live.engine, "SELECT FROM products WHERE missed_crawls > 0") == []


def test_a_listing_that_is_whole_again_has_missed_nothing(live: Shop) -> None:
    live.sell(range(80), range(97, 100), alive=True)
    assert live.crawl()[0]
    live.sell(range(97), range(97, 100))
    assert live.crawl() == (False, 0, None)
    assert rows(live.engine, "SELECT FROM products WHERE missed_crawls > 0") == []


def test_requested_pages_go_where_the_crawls_definition_says(engine: sa.Engine) -> None:
    """The queue from before may have no worker any more."""
    for numbers in (range(40), range(39)):
        crawled(engine, shop(), numbers)
    crawl = Crawl(engine, shop(queue="residential", priority=9), range(39))
    crawl.settle(good)
    assert finish(engine, crawl.id)
    due = "SELECT url, queue, priority FROM pages WHERE status = 'due'"
    assert rows(engine, due) == [("https://shop.example/p/39", "residential", 18)]


def test_what_goes_every_day_is_missed_at_once(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(200))
    delisted = [crawled(engine, shop(), range(8 * n, 200), good).row for n in range(1, 6)]
    assert not any(row.suspect for row in delisted)
    assert [row.products_delisted for row in delisted] == [0, 8, 8, 8, 8]
