"""Doubt is resolved within the crawl: pages whose changes surprise are requested once more before
the crawl ends, and what someone at the shop decided is published by the crawl that saw it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.coordinator.finish import finish
from scraper.coordinator.reap import reap
from scraper.plugins.confirm import second_readings
from scraper.quality import report as reports
from scraper.settings import Settings
from tests.support import making
from tests.support.judged_crawls import (
    Crawl,
    Data,
    crawled,
    events,
    good,
    held,
    shop,
    stored,
    versions,
)

NUMBERS = range(100, 200)
CENT = Decimal("0.01")


def times(data: Data, factor: str) -> Data:
    return data | {"price": (data["price"] * Decimal(factor)).quantize(CENT)}


def brand_dearer(n: int) -> Data:
    return times(good(n), "1.05") if n % 30 in (1, 2) else good(n)


DECIDED: dict[str, Callable[[int], Data]] = {
    "brands dearer": brand_dearer,
    "another ending": lambda n: good(n, price=Decimal(f"{n}.85")),
    "another tax": lambda n: times(good(n), "1.0084"),
    "a part dearer": lambda n: times(good(n), "1.1") if n % 10 == 7 else good(n),
}
LIES: dict[str, Callable[[int], Data]] = {
    "without tax": lambda n: times(good(n), "0.8403"),
    "half without tax": lambda n: times(good(n), "0.8403") if n % 2 else good(n),
    "a part without tax": lambda n: times(good(n), "0.8403") if n % 10 == 7 else good(n),
    "without cents": lambda n: good(n, price=Decimal(n)),
    "another shop's": lambda n: times(good(n), "0.5") if n % 5 < 2 else good(n),
}


@pytest.fixture
def known(engine: sa.Engine) -> sa.Engine:
    """A shop that was crawled well twice."""
    for _ in range(2):
        assert not crawled(engine, shop(), NUMBERS).row.suspect
    return engine


def all_of(data: Callable[[int], Data]) -> dict[str, Data]:
    return {str(n): data(n) for n in NUMBERS}


@pytest.mark.parametrize("case", DECIDED)
def test_what_the_shop_decided_is_published_once_a_second_reading_confirms_it(
    known: sa.Engine, case: str
) -> None:
    crawl = crawled(known, shop(), NUMBERS, DECIDED[case])
    assert 0 < len(crawl.again) <= 10 and not crawl.row.suspect
    assert stored(known) == all_of(DECIDED[case]) and held(known) == []
    assert {reason["level"] for reason in crawl.row.reasons or ()} <= {"notice"}
    row = crawl.row
    assert row.product_total == row.product_done == row.ok + row.unchanged == len(NUMBERS)
    assert row.fetches == len(NUMBERS) + len(crawl.again)
    assert crawl.fields["price"].records == len(NUMBERS), "a page counts once"
    assert not crawled(known, shop(), NUMBERS, DECIDED[case]).again


@pytest.mark.parametrize("case", LIES)
def test_what_has_the_shape_of_an_error_waits_unasked(known: sa.Engine, case: str) -> None:
    crawl = crawled(known, shop(), NUMBERS, LIES[case])
    assert crawl.again == set() and crawl.row.suspect and stored(known) == all_of(good)


@pytest.mark.parametrize(("brands", "believed"), [(3, True), (5, False)])
def test_several_brands_that_become_one_wait(
    engine: sa.Engine, brands: int, believed: bool
) -> None:
    """Six products of a hundred, which is too few for a doubt about the field."""
    changed = [n for n in NUMBERS if n % 10 < brands][:6]

    def branded(n: int) -> Data:
        return good(n, brand=f"b{n % 10}")

    def as_one(n: int) -> Data:
        return good(n, brand="The Shop") if n in changed else branded(n)

    for _ in range(2):
        crawled(engine, shop(), NUMBERS, branded)
    crawl = crawled(engine, shop(), NUMBERS, as_one)
    assert crawl.again == set() and not crawl.row.suspect
    assert stored(engine) == all_of(as_one if believed else branded)


@pytest.mark.parametrize("names", ["as before", "translated"])
def test_texts_in_new_words_are_a_rewrite_if_nothing_else_changes(
    engine: sa.Engine, names: str
) -> None:
    def described(n: int) -> Data:
        return good(n, name=f"kettle {n}", tag=f"solid oak, oiled by hand, for soup number {n}")

    def rewritten(n: int) -> Data:
        if n % 4:
            return described(n)
        name = f"kettle {n}" if names == "as before" else f"bouilloire {n}"
        return good(n, name=name, tag=f"votre compagne fidele pour cuisiner mieux, modele {n}")

    for _ in range(2):
        crawled(engine, shop(), NUMBERS, described)
    crawl = crawled(engine, shop(), NUMBERS, rewritten)
    if names == "as before":
        assert 0 < len(crawl.again) <= 10 and not crawl.row.suspect
        assert stored(engine) == all_of(rewritten)
    else:
        assert crawl.row.suspect and stored(engine) == all_of(described)


def test_what_is_only_true_for_a_while_waits(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    crawl.settle(brand_dearer)
    crawl.end(again=lambda n: brand_dearer(n) if n % 30 == 1 else good(n))
    assert stored(known) == all_of(good)
    # What the second reading took back is no longer held.
    assert {(int(str(number)) % 30, reason) for number, _, reason in held(known)} == {
        (1, "changed")
    }


def test_the_pages_are_taken_from_the_whole_time_of_the_crawl(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, DECIDED["another tax"])
    # The other two requests are for listings.
    assert len(crawl.again) == 8
    by_time = [sorted(NUMBERS).index(n) // 10 for n in sorted(crawl.again)]
    assert len(set(by_time)) >= 7


def test_a_field_of_few_products_is_requested_again_too(engine: sa.Engine) -> None:
    fields = {"name": "h1", "price": {"css": ".p", "type": "price"}}
    site = making.a_site(
        start="https://shop.example/",
        product={"fields": fields | {"list_price": {"css": ".l", "type": "price"}}},
    )

    def reduced(n: int) -> Data:
        return good(n, list_price=Decimal(n + 10)) if n % 20 == 3 else good(n)

    def dearer(n: int) -> Data:
        prices = {name: value for name, value in reduced(n).items() if name.endswith("price")}
        return reduced(n) | {
            name: times({"price": prices[name]}, "1.02")["price"] for name in prices
        }

    for _ in range(2):
        assert not crawled(engine, site, NUMBERS, reduced).row.suspect
    crawl = crawled(engine, site, NUMBERS, dearer)
    assert sum(n % 20 == 3 for n in crawl.again) == 2 and len(crawl.again) <= 12
    assert not crawl.row.suspect and stored(engine) == all_of(dearer)


def test_a_definition_may_wait_or_publish(known: sa.Engine) -> None:
    waits = crawled(known, shop(quality={"doubt": "wait"}), NUMBERS, brand_dearer)
    assert waits.again == set() and waits.row.suspect and stored(known) == all_of(good)
    without_tax = LIES["without tax"]
    published = crawled(known, shop(quality={"doubt": "publish"}), NUMBERS, without_tax)
    assert published.again == set() and not published.row.suspect
    assert stored(known) == all_of(without_tax)


def test_a_finish_that_is_rolled_back_or_doubled_requests_once(
    known: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    crawl.settle(brand_dearer)

    def dies(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("scraper.frontier.crawls.begin_asking", dies)
        with pytest.raises(RuntimeError):
            finish(known, crawl.id)
    assert making.rows(known, "SELECT FROM pages WHERE status = 'due'") == []
    assert {reason for _, _, reason in held(known)} == {None}, "marks are taken back as well"
    assert len(finish(known, crawl.id)) == 1 and finish(known, crawl.id) == []
    due = making.rows(known, "SELECT count(*) FROM pages WHERE status = 'due'")[0][0]
    # A worker that dies with the pages gives them back, and another one confirms them.
    with known.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET not_before = now()"))
    leased = crawl.lease()
    with known.begin() as connection:
        connection.execute(sa.text("UPDATE leases SET until = now() - interval '1 hour'"))
    reap(known, Settings())
    pages = [crawl.page(n, page, brand_dearer(n)) for n, page in leased]
    making.store(known, crawl.ids, pages)
    assert making.rows(known, "SELECT FROM held_values WHERE confirmed") == [], "fenced"
    again = [crawl.page(n, page, brand_dearer(n)) for n, page in crawl.lease()]
    assert len(again) == due
    for _ in range(2):
        making.store(known, crawl.ids, again)
    assert finish(known, crawl.id) == []
    assert not crawl.row.suspect and stored(known) == all_of(brand_dearer)
    changed = sum(brand_dearer(n) != good(n) for n in NUMBERS)
    assert versions(known) == changed == len(events(known)) - len(NUMBERS)


def test_a_report_answers_three_questions_first(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, LIES["without tax"])
    with known.connect() as connection:
        answers = reports.read_report(connection, crawl.id).answers
    assert answers == [
        "withheld: 100 price, all delistings",
        "why: changed on 100 of 100 products, usually on 0% at most",
        "if you do nothing: the next crawl publishes what it reads again",
    ]


def test_a_page_that_dies_at_its_second_reading_confirms_nothing(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    crawl.settle(brand_dearer)
    crawl.end(again=lambda _: None)
    assert crawl.row.suspect and stored(known) == all_of(good)


def test_rewritten_names_are_a_notice_and_another_language_is_not(known: sa.Engine) -> None:
    def named(word: str) -> Callable[[int], Data]:
        return lambda n: good(n, name=f"{word} n{n}", brand=f"brand {n % 30}")

    first = crawled(known, shop(), NUMBERS, named("quiet lamp"))
    assert first.row.suspect, "none of its words is known"
    assert not crawled(known, shop(), NUMBERS, named("quiet lamp")).row.suspect
    other = crawled(known, shop(), NUMBERS, named("brand lamp"))
    assert not other.row.suspect and other.again == set()
    assert [reason["level"] for reason in other.row.reasons] == ["notice"]
    assert stored(known) == all_of(named("brand lamp"))


def test_a_sale_ends_with_its_former_price(engine: sa.Engine) -> None:
    fields = {
        "name": {"css": "h1", "required": True},
        "price": {"css": ".p", "type": "price"},
        "list_price": {"css": ".was", "type": "price"},
    }
    site = making.a_site(start="https://shop.example/", product={"fields": fields})

    def sale(n: int) -> Data:
        price = Decimal(f"{n}.90")
        now = {"name": f"n{n}", "price": price, "price_currency": "EUR"}
        if n % 4 == 0:
            return now
        off = (price * Decimal("0.8")).quantize(CENT)
        return now | {"price": off, "list_price": price, "list_price_currency": "EUR"}

    def over(n: int) -> Data:
        return {"name": f"n{n}", "price": Decimal(f"{n}.90"), "price_currency": "EUR"}

    for _ in range(3):
        crawled(engine, site, NUMBERS, sale)
    ended = crawled(engine, site, NUMBERS, over)
    assert not ended.row.suspect and stored(engine) == all_of(over) and held(engine) == []
    assert not crawled(engine, site, NUMBERS, over).row.suspect
    # A former price that only disappears is a broken selector.
    for _ in range(3):
        crawled(engine, site, NUMBERS, sale)
    broken = crawled(engine, site, NUMBERS, lambda n: {**over(n), "price": sale(n)["price"]})
    assert broken.row.suspect and stored(engine) == all_of(sale)


@pytest.mark.parametrize(
    ("former", "believed"), [("as before", True), ("none", False), ("of all", False)]
)
def test_a_sale_at_one_price_shows_the_former_ones(
    engine: sa.Engine, former: str, believed: bool
) -> None:
    fields = {
        "name": {"css": "h1", "required": True},
        "price": {"css": ".p", "type": "price"},
        "list_price": {"css": ".was", "type": "price", "floor": 0},
    }
    site = making.a_site(start="https://shop.example/", product={"fields": fields})

    def usual(n: int) -> Data:
        return {"name": f"n{n}", "price": Decimal(f"{n}.90"), "price_currency": "EUR"}

    def sale(n: int) -> Data:
        if n % 20 != 7:
            return usual(n)
        shown: Data = {"list_price_currency": "EUR"} if former != "none" else {}
        if shown:
            before = usual(n)["price"]
            shown["list_price"] = before if former == "as before" else Decimal("250.00")
        return usual(n) | {"price": Decimal("59.99")} | shown

    for _ in range(2):
        crawled(engine, site, NUMBERS, usual)
    crawl = crawled(engine, site, NUMBERS, sale)
    prices = [float(data["price"]) for n, data in stored(engine).items() if int(n) % 20 == 7]
    assert (set(prices) == {59.99}) is believed
    assert crawl.row.suspect is not believed


CLEARED = {
    # The factor, whether the former price is shown, whether the second reading says it too; then
    # whether it is believed, and whether it is requested again.
    "with the former price": ("0.1", True, True, True, True),
    "with the former price, for a while": ("0.1", True, False, False, True),
    "alone": ("0.07", False, True, False, False),
    "dearer": ("75", True, True, False, False),
}


@pytest.mark.parametrize("case", CLEARED)
def test_a_price_that_leaps_is_requested_again(engine: sa.Engine, case: str) -> None:
    factor, shown, stays, believed, asked = CLEARED[case]
    fields = {
        "name": {"css": "h1", "required": True},
        "price": {"css": ".p", "type": "price"},
        "list_price": {"css": ".was", "type": "price", "floor": 0},
    }
    site = making.a_site(start="https://shop.example/", product={"fields": fields})

    def usual(n: int) -> Data:
        return {"name": f"n{n}", "price": Decimal(f"{n}.90"), "price_currency": "EUR"}

    def cleared(n: int) -> Data:
        if n != 137:
            return usual(n)
        former = {"list_price": usual(n)["price"], "list_price_currency": "EUR"} if shown else {}
        return times(usual(n), factor) | former

    for _ in range(2):
        crawled(engine, site, NUMBERS, usual)
    crawl = Crawl(engine, site, NUMBERS)
    crawl.settle(cleared)
    crawl.end(again=cleared if stays else usual)
    assert crawl.again == ({137} if asked else set()) and not crawl.row.suspect
    assert stored(engine)["137"] == (cleared if believed else usual)(137)


def test_limits_of_the_cost() -> None:
    assert second_readings.PAGES_MAX <= 30 and second_readings.SHARE_MAX <= 0.2
