"""A crawl that is taken back: its values, its new products, its delistings; and what stays."""

from __future__ import annotations

import json
from decimal import Decimal
from importlib import import_module

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.feed import reader as feed
from scraper.results import rejection
from scraper.results.judgement import crawl_quality
from scraper.results.rejection import Rejection
from tests.support import making
from tests.support.judged_crawls import (
    NUMBERS,
    Crawl,
    Data,
    crawled,
    good,
    held,
    price,
    shop,
    stored,
    versions,
)

ALL = {str(number): good(number) for number in NUMBERS}


@pytest.fixture
def known(engine: sa.Engine) -> sa.Engine:
    for _ in range(2):
        crawled(engine, shop(), NUMBERS)
    return engine


def taken_back(engine: sa.Engine, crawl: Crawl, *fields: str, dry: bool = False) -> Rejection:
    with engine.begin() as connection:
        outcome = rejection.reject_crawl(connection, crawl.id, fields or None, dry=dry)
    assert outcome is not None
    return outcome


def three(n: int) -> Data:
    """Three products have another price, and two of these another name."""
    data = price(n, "0.9") if n in (5, 6, 7) else good(n)
    return data | {"name": f"new {n}"} if n in (6, 7) else data


def test_values_go_back_with_a_version_and_an_entry_of_the_feed(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, three)
    assert stored(known)["6"] == three(6) and versions(known) == 3
    dry = taken_back(known, crawl, dry=True)
    assert (dry.products, dry.values) == (3, {"price": 3, "name": 2}) and versions(known) == 3
    assert stored(known)["6"] == three(6) and not crawl.row.suspect
    assert taken_back(known, crawl) == dry
    assert stored(known) == ALL and versions(known) == 6 and crawl.row.suspect
    entries = [(one.event, one.id, one.version) for one in feed.read(known, 0)]
    assert sorted(entries[-3:]) == [("reverted", str(n), 3) for n in (5, 6, 7)]
    *_, last = feed.read(known, 0)
    assert last.data == good(int(last.id)) and "price" in last.changed
    with known.begin() as connection:
        assert rejection.reject_crawl(connection, crawl.id) is None, "once"
    # It is not what is usual, and what the shop says is judged again.
    again = crawled(known, shop(), NUMBERS, three)
    assert again.row.products_changed == 3 and stored(known)["6"] == three(6)


def test_what_has_changed_since_stays(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, three)
    crawled(known, shop(), NUMBERS, lambda n: three(n) | ({"brand": "later"} if n == 6 else {}))
    crawled(known, shop(), NUMBERS, lambda n: price(n, "0.8") if n == 5 else three(n))
    assert taken_back(known, crawl).products == 2, "the price of 5 is a later crawl's"
    assert stored(known)["5"] == price(5, "0.8") and stored(known)["7"] == good(7)
    assert stored(known)["6"]["name"] == "n6"


def test_certain_fields_only(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, three)
    assert taken_back(known, crawl, "name").values == {"name": 2}
    assert stored(known)["6"] == price(6, "0.9") and not crawl.row.suspect
    assert taken_back(known, crawl).values == {"price": 3}


def test_new_products_and_delistings(known: sa.Engine) -> None:
    crawled(known, shop(), range(59))
    crawl = crawled(known, shop(), [*range(59), 70])
    assert crawl.row.products_delisted == 1 and "70" in stored(known)
    outcome = taken_back(known, crawl)
    assert (outcome.new, outcome.delisted) == (1, 1)
    delisted = "SELECT external_id FROM products WHERE delisted_at IS NOT NULL"
    assert making.rows(known, delisted) == [("70",)]
    last = [(one.event, one.id) for one in feed.read(known, 0)][-2:]
    assert sorted(last) == [("delisted", "70"), ("relisted", "59")]


def test_what_was_accepted_and_rejected_goes_back_to_the_beginning(known: sa.Engine) -> None:
    """Such a product was changed twice: when the crawl ended, and when it was accepted."""
    crawl = crawled(
        known,
        shop(),
        NUMBERS,
        lambda n: good(n, name="x", price=Decimal(9000)) if n == 3 else good(n),
    )
    assert held(known) == [("3", "price", "leap")] and stored(known)["3"]["name"] == "x"
    with known.begin() as connection:
        assert crawl_quality.accept_crawl(connection, crawl.id)
    assert stored(known)["3"]["price"] == 9000
    assert taken_back(known, crawl).products == 1
    assert stored(known) == ALL


def test_what_is_held_goes_with_it(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, lambda n: price(n, "100") if n == 3 else good(n))
    assert taken_back(known, crawl).held == 1 and held(known) == []


@pytest.mark.usefixtures("environment")
def test_the_commands(known: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        import_module("scraper.plugins.confirm.decisions"), "open_engine", lambda: known
    )

    def said(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return done.output

    crawl = crawled(known, shop(), NUMBERS, lambda n: price(n, "100") if n in (8, 9) else three(n))
    assert json.loads(said("accept", "shop", "--field", "price", "--dry-run", "--json")) == {
        "crawl": crawl.id, "released": 2, "dry": True
    }  # fmt: skip
    assert "0 held values and products are released" in said(
        "accept", str(crawl.id), "--field", "name"
    )
    assert len(held(known)) == 2
    assert "2 held values and products are released" in said("accept", "shop", "--field", "price")
    assert stored(known)["8"] == price(8, "100") and crawl.row.accepted_at is None
    assert "would be taken back: values of 5 products" in said("reject", "shop", "--dry-run")
    shown = said("reject", str(crawl.id))
    assert "taken back: values of 5 products" in shown and "https://shop.example/p/" in shown
    assert stored(known) == ALL
    assert "rejected before" in said("reject", str(crawl.id), code=1)
    assert "no crawl has the id 4711" in said("reject", "4711", code=2)
