"""Prices of the sample shop that change while it serves."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scraper.plugins.demo.catalogue import Catalogue
from scraper.plugins.demo.changes import DAY_S, PriceChanges
from scraper.plugins.demo.faults import ShopOptions
from scraper.plugins.demo.shop import Shop

BEGIN = 1_800_000_000.0


def test_changes_come_as_often_as_asked() -> None:
    items = dict(Catalogue(2000, seed=7).at(1).items)
    changes = PriceChanges(items, 7)
    assert not changes.make_until(BEGIN, 0.5)
    assert changes.make_until(BEGIN + 20 * DAY_S, 0.5)
    assert len(changes.changes) / len(items) / 20 == pytest.approx(0.5, rel=0.15)
    assert all(items[number].price == Decimal(price) for _, number, price in _last(changes))


def test_without_a_rate_nothing_changes() -> None:
    items = dict(Catalogue(50, seed=7).at(1).items)
    changes = PriceChanges(items, 7)
    changes.make_until(BEGIN, 0)
    assert not changes.make_until(BEGIN + 100 * DAY_S, 0)


def test_pages_listings_and_the_truth_show_a_change_and_its_time() -> None:
    shop = Shop(Catalogue(50, seed=7), ShopOptions(change_rate=5), "http://shop.example")
    shop.change_prices(BEGIN)
    number, item = next(iter(shop.generation.items.items()))
    page, listing = shop.page(item.path.encode()), shop.page(b"/all?page=1")
    shop.change_prices(BEGIN + 10 * DAY_S)
    made = shop.answer_control("GET", "/_control/changes", {}, b"")
    assert isinstance(made, list)
    assert all(BEGIN < at <= BEGIN + 10 * DAY_S for at, *_ in made)
    price = [price for _, changed, price in made if changed == number][-1]
    assert price.encode() in shop.page(item.path.encode()).body.replace(b",", b"")
    assert shop.page(item.path.encode()).etag != page.etag
    assert shop.page(b"/all?page=1").etag != listing.etag
    truth = shop.answer_control("GET", "/_control/truth", {}, b"")
    assert isinstance(truth, list)
    assert price in [record["price"] for record in truth]
    # The catalogue itself is as before.
    assert shop.catalogue.at(1).items[number].price == item.price


def _last(changes: PriceChanges) -> list[tuple[float, int, str]]:
    return list({number: change for change in changes.changes for number in change[1:2]}.values())
