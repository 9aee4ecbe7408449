"""Products that were unknown wait until their crawl is judged, and longer where it is not believed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from scraper.coordinator.finish import finish
from scraper.coordinator.reap import reap
from scraper.errors import NotFoundError
from scraper.frontier import crawls
from scraper.quality import report as reports
from scraper.results import rejection
from scraper.results.judgement import crawl_quality
from scraper.settings import load
from scraper.views import provenance
from tests.support import making
from tests.support.judged_crawls import (
    ALL,
    HOST,
    NUMBERS,
    Crawl,
    crawled,
    events,
    good,
    price,
    shop,
    stored,
    without,
)

NEW = range(60, 66)
MORE = range(66)


def held(engine: sa.Engine) -> list[tuple[object, ...]]:
    query = "SELECT external_id, reason FROM held_products ORDER BY CAST(external_id AS int)"
    return making.rows(engine, query)


def test_what_is_new_is_stored_when_its_crawl_ends(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), MORE)
    crawl.settle(good)
    assert stored(known) == ALL and held(known) == [(str(n), None) for n in NEW]
    assert len(events(known)) == len(NUMBERS) and crawl.row.products_new == 0
    crawl.end()
    assert stored(known) == {str(n): good(n) for n in MORE} and held(known) == []
    assert events(known)[len(NUMBERS) :] == [("new", str(n), 1) for n in NEW]
    assert (crawl.row.products_new, crawl.row.suspect) == (len(NEW), False)


def test_a_first_crawl_stores_at_once(engine: sa.Engine) -> None:
    crawl = Crawl(engine, shop(), NUMBERS)
    crawl.settle(good)
    assert stored(engine) == ALL and held(engine) == []


def test_a_suspect_crawls_new_products_wait_for_the_next(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), MORE, lambda n: price(n, "100"))
    assert crawl.row.suspect and stored(known) == ALL
    assert held(known) == [(str(n), "crawl") for n in NEW]
    with known.connect() as connection:
        (new,) = [h for h in reports.read_report(connection, crawl.id).held if h.field is None]
    assert (new.number, new.reason) == (len(NEW), "crawl") and new.url.startswith("https://")
    crawled(known, shop(), MORE)
    assert stored(known) == {str(n): good(n) for n in MORE} and held(known) == []


def test_what_two_crawls_say_is_stored(known: sa.Engine) -> None:
    for suspect in (True, False):
        assert crawled(known, shop(), MORE, lambda n: price(n, "100")).row.suspect is suspect
    assert stored(known) == {str(n): price(n, "100") for n in MORE} and held(known) == []


def test_what_the_next_crawl_does_not_read_is_forgotten(known: sa.Engine) -> None:
    crawled(known, shop(), MORE, lambda n: price(n, "100"))
    crawled(known, shop(), NUMBERS)
    assert stored(known) == ALL and held(known) == []


def test_another_currency_waits_by_itself(known: sa.Engine) -> None:
    def in_dollars(n: int) -> dict[str, object]:
        return good(n, price_currency="USD") if n == 65 else good(n)

    assert not crawled(known, shop(), MORE, in_dollars).row.suspect
    assert held(known) == [("65", "currency")] and "64" in stored(known)
    with known.connect() as connection, pytest.raises(NotFoundError) as error:
        provenance.read(connection, "shop", "65")
    assert "it waits: no other product has its currency" in str(error.value)
    crawled(known, shop(), MORE, in_dollars)
    assert held(known) == [] and stored(known)["65"] == in_dollars(65)


def test_ids_that_change_are_not_new_products(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    for number, leased in crawl.lease():
        result = crawl.page(number, leased, good(number))
        renamed = [replace(product, external_id=f"1{number:03}") for product in result.products]
        making.store(known, crawl.ids, [replace(result, products=renamed)])
    crawl.end()
    assert crawl.row.suspect and stored(known) == ALL and ("1000", "page") in held(known)
    assert (None, "pages") in crawl.why
    assert "60 of 60 product pages were another product's before" in str(crawl.row.reasons)


def test_a_field_in_breach_does_not_store_new_products_without_it(
    known: sa.Engine,
) -> None:
    for _ in range(3):
        crawl = crawled(known, shop(), MORE, lambda n: without(good(n), "price"))
        assert crawl.row.suspect and stored(known) == ALL
    with known.begin() as connection:
        assert crawl_quality.accept_crawl(connection, crawl.id)
    assert len(stored(known)) == len(MORE) and held(known) == []


def test_accepted_and_rejected(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), MORE, lambda n: price(n, "100"))
    with known.begin() as connection:
        outcome = rejection.reject_crawl(connection, crawl.id, dry=True)
        assert outcome is not None and outcome.held == len(MORE) and len(held(known)) == len(NEW)
        assert rejection.reject_crawl(connection, crawl.id) is not None
    assert held(known) == [] and stored(known) == ALL
    crawl = crawled(known, shop(), MORE, lambda n: price(n, "100"))
    with known.begin() as connection:
        assert crawl_quality.accept_crawl(connection, crawl.id)
    assert stored(known) == {str(n): price(n, "100") for n in MORE} and held(known) == []


def test_a_stopped_crawl_releases_what_it_has_read(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), MORE)
    crawl.settle(good)
    with known.begin() as connection:
        crawls.stop_crawl(connection, crawl.id, "by hand")
    assert stored(known) == ALL
    reap(known, load())
    assert stored(known) == {str(n): good(n) for n in MORE} and held(known) == []


def test_a_page_that_is_settled_twice_is_one_new_product(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), MORE)
    pages = [crawl.page(n, page, good(n)) for n, page in crawl.lease()]
    for _ in range(2):
        making.store(known, crawl.ids, pages)
    crawl.end()
    finish(known, crawl.id)
    assert events(known)[len(NUMBERS) :] == [("new", str(n), 1) for n in NEW]


def test_an_end_that_is_rolled_back_has_stored_nothing(
    known: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(known, shop(), MORE)
    crawl.settle(good)

    def dies(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(crawls, "end_crawl", dies)
        with pytest.raises(RuntimeError):
            finish(known, crawl.id)
    assert stored(known) == ALL and len(held(known)) == len(NEW)
    crawl.end()
    assert len(stored(known)) == len(MORE) and crawl.row.products_new == len(NEW)


def test_a_site_with_new_ids_in_its_definition_begins_again(known: sa.Engine) -> None:
    site = making.a_site(
        start=f"https://{HOST}/",
        product={"id": {"url": r"(\d+)$"}, "fields": {"name": "h1"}},
    )
    crawl = Crawl(known, site, MORE)
    assert not crawl.row.holds_new
