"""What a crawl changes waits until it is judged: what is believed is one version and one entry of
the feed, what is not stays held, and nothing in between is ever seen."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.coordinator.finish import finish
from scraper.coordinator.reap import reap
from scraper.domain import Outcome
from scraper.feed import reader as feed
from scraper.frontier import crawls
from scraper.infra.database import dumps
from scraper.quality import report as reports
from scraper.results import held_values
from scraper.results.judgement import crawl_quality
from scraper.results.products import parse_data
from tests.support import making
from tests.support.judged_crawls import (
    ALL,
    NUMBERS,
    Crawl,
    Data,
    crawled,
    events,
    good,
    held,
    price,
    shop,
    stored,
    versions,
    without,
)


def test_nothing_is_reported_before_the_crawl_has_ended(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    crawl.settle(lambda n: good(n, name=f"new {n}", brand="x") if n == 7 else good(n))
    assert stored(known) == ALL and versions(known) == 0 and len(events(known)) == len(NUMBERS)
    assert held(known) == [("7", "brand", None), ("7", "name", None)]
    crawl.end()
    assert stored(known) == ALL | {"7": good(7, name="new 7", brand="x")}
    assert held(known) == [] and events(known)[len(NUMBERS) :] == [("changed", "7", 2)]
    assert crawl.row.products_changed == 1


def test_a_judgement_that_is_rolled_back_has_released_nothing(
    known: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    crawl.settle(lambda n: good(n, name=f"new {n}") if n < 2 else good(n))

    def dies(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(crawls, "end_crawl", dies)
        with pytest.raises(RuntimeError):
            finish(known, crawl.id)
    assert stored(known) == ALL and len(held(known)) == 2 and versions(known) == 0
    crawl.end()
    finish(known, crawl.id)
    assert versions(known) == 2 and events(known)[len(NUMBERS) :] == [
        ("changed", str(n), 2) for n in range(2)
    ]


def test_a_page_that_is_settled_twice_is_one_change(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    pages = [crawl.page(n, page, good(n, name=f"new {n}")) for n, page in crawl.lease()]
    for _ in range(2):
        making.store(known, crawl.ids, pages[:2])
    assert len(held(known)) == 2
    making.store(known, crawl.ids, pages)
    crawl.end()
    assert versions(known) == 0 and crawl.why == {("name", "changed")}


LEAPS = {
    "a point is lost": (lambda n: price(n, "100"), "leap"),
    "a point too many": (lambda n: price(n, "0.1"), "leap"),
    "for nothing": (lambda n: good(n, price=Decimal(0)), "zero"),
    "another currency": (lambda n: good(n, price_currency="USD"), "currency"),
    "no currency": (lambda n: without(good(n), "price_currency"), "currency"),
    "another encoding": (lambda n: good(n, name="cafÃ©"), "encoding"),
    "an empty page": (lambda n: {"name": f"n{n}"}, "lacking"),
    "another product": (lambda n: good(n + 1), "other"),
}


@pytest.mark.parametrize("case", LEAPS)
def test_single_values_that_cannot_be_are_held(known: sa.Engine, case: str) -> None:
    data, reason = LEAPS[case]
    crawl = crawled(known, shop(), NUMBERS, lambda n: data(n) if n == 33 else good(n))
    assert stored(known) == ALL and versions(known) == 0 and not crawl.row.suspect
    assert {row[2] for row in held(known)} == {reason} and {row[0] for row in held(known)} == {"33"}
    # The next crawl reads the page whole, however fresh it is, and finds it as it was.
    assert making.rows(known, "SELECT url FROM pages WHERE fetched_at IS NULL") == [
        ("https://shop.example/p/33",)
    ]
    crawled(known, shop(), NUMBERS)
    assert held(known) == [] and versions(known) == 0


@pytest.mark.parametrize("case", LEAPS)
def test_what_a_second_crawl_says_too_is_believed(known: sa.Engine, case: str) -> None:
    data, _ = LEAPS[case]
    for _ in range(2):
        crawl = crawled(known, shop(), NUMBERS, lambda n: data(n) if n == 33 else good(n))
    assert stored(known) == ALL | {"33": data(33)} and held(known) == []
    assert versions(known) == 1 == crawl.row.products_changed
    assert events(known)[len(NUMBERS) :] == [("changed", "33", 2)]


def test_what_the_second_crawl_says_otherwise_waits_again(known: sa.Engine) -> None:
    for factor in ("100", "1000", "100"):
        crawled(known, shop(), NUMBERS, lambda n, f=factor: price(n, f) if n == 3 else good(n))
        assert stored(known) == ALL and held(known) == [("3", "price", "leap")]


def test_one_price_in_ten_without_its_point_makes_the_crawl_suspect(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, lambda n: price(n, "100") if n % 10 == 1 else good(n))
    assert crawl.why == {("price", "implausible")} and stored(known) == ALL
    assert crawl.fields["price"].held == 6 and versions(known) == 0


def test_the_prices_of_other_products_are_held_and_a_sale_is_not(known: sa.Engine) -> None:
    mixed = list(NUMBERS)
    Random(1).shuffle(mixed)
    crawl = crawled(known, shop(), NUMBERS, lambda n: good(n, price=good(mixed[n])["price"]))
    assert ("price", "changed") in crawl.why and stored(known) == ALL and versions(known) == 0
    random = Random(2)
    factors = {n: str(round(random.uniform(0.6, 0.95), 2)) for n in NUMBERS}
    sale = crawled(known, shop(), NUMBERS, lambda n: price(n, factors[n]))
    assert not sale.row.suspect and versions(known) == len(NUMBERS) and held(known) == []


def test_one_promotion_on_every_page_is_held(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, lambda n: good(n, price=Decimal("9.99")))
    assert crawl.row.suspect and stored(known) == ALL and len(held(known)) == len(NUMBERS)
    examples = making.rows(known, "SELECT problem, known FROM crawl_examples ORDER BY url")
    assert len(examples) == 3 and examples[0] == ("it came as 9.99 EUR", "0.90 EUR")


def test_products_of_one_price_get_another_one_together(engine: sa.Engine) -> None:
    def alike(n: int) -> Data:
        return good(n, price=Decimal("12.00")) if n % 9 == 4 else good(n)

    def reduced(n: int) -> Data:
        return good(n, price=Decimal("11.49")) if n % 9 == 4 else good(n)

    assert sum(n % 9 == 4 for n in NUMBERS) >= 5
    for _ in range(2):
        crawled(engine, shop(), NUMBERS, alike)
    crawl = crawled(engine, shop(), NUMBERS, reduced)
    assert not crawl.row.suspect and held(engine) == [], crawl.why
    assert stored(engine) == {str(n): reduced(n) for n in NUMBERS}


def test_an_example_of_another_currency_names_both(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, lambda n: good(n, price_currency="USD"))
    assert crawl.row.suspect and stored(known) == ALL
    examples = making.rows(known, "SELECT problem, known FROM crawl_examples WHERE field = 'price'")
    assert len(examples) == 3
    for problem, before in examples:
        assert problem.replace("USD", "EUR") == f"it came as {before}" and problem.endswith(" USD")
    with known.connect() as connection:
        (held_price,) = reports.read_report(connection, crawl.id).held
    assert (held_price.known, held_price.value) == ("0.90 EUR", "0.90 USD")


def test_all_prices_with_tax_wait_for_a_second_crawl(known: sa.Engine) -> None:
    first = crawled(known, shop(), NUMBERS, lambda n: price(n, "1.2"))
    assert first.why == {("price", "changed")} and stored(known) == ALL
    second = crawled(known, shop(), NUMBERS, lambda n: price(n, "1.2"))
    assert not second.row.suspect and stored(known) == {str(n): price(n, "1.2") for n in NUMBERS}


def test_a_field_that_changes_every_day_is_believed(engine: sa.Engine) -> None:
    for day in range(5):
        crawl = crawled(engine, shop(), NUMBERS, lambda n, d=day: good(n, brand=f"{n} {d}"))
        assert not crawl.row.suspect and held(engine) == []
    assert versions(engine) == 4 * len(NUMBERS)


def test_a_sold_out_product_has_one_version(known: sa.Engine) -> None:
    """Its price vanishes together with a change, and both wait for a second crawl."""
    sold_out = without(good(7, brand="sold out"), "price")
    crawl = crawled(known, shop(), NUMBERS, lambda n: sold_out if n == 7 else good(n))
    assert stored(known) == ALL and not crawl.row.suspect
    assert held(known) == [("7", "brand", "vanished"), ("7", "price", "vanished")]
    crawl = crawled(known, shop(), NUMBERS, lambda n: sold_out if n == 7 else good(n))
    assert stored(known) == ALL | {"7": sold_out} and not crawl.row.suspect
    assert events(known)[len(NUMBERS) :] == [("changed", "7", 2)]


def test_true_changes_are_reported_though_others_of_the_field_are_held(known: sa.Engine) -> None:
    lower = {3: price(3, "0.9"), 4: price(4, "0.8")}
    crawl = crawled(
        known,
        shop(),
        NUMBERS,
        lambda n: price(n, "100") if n % 10 == 1 else lower.get(n, good(n)),
    )
    assert crawl.why == {("price", "implausible")} and versions(known) == 2
    assert stored(known) == ALL | {str(n): data for n, data in lower.items()}


def test_a_person_accepts_what_is_held(known: sa.Engine) -> None:
    crawl = crawled(known, shop(), NUMBERS, lambda n: price(n, "100"))
    assert crawl.row.suspect and stored(known) == ALL
    with known.begin() as connection:
        assert crawl_quality.accept_crawl(connection, crawl.id)
    assert stored(known) == {str(n): price(n, "100") for n in NUMBERS} and held(known) == []
    assert versions(known) == len(NUMBERS) == crawl.row.products_changed


def test_an_old_crawl_that_is_accepted_lists_nothing_that_was_delisted_since(
    known: sa.Engine,
) -> None:
    crawl = crawled(known, shop(), NUMBERS, lambda n: price(n, "100") if n == 3 else good(n))
    for _ in range(2):
        crawled(known, shop(), [n for n in NUMBERS if n != 3])
    with known.begin() as connection:
        assert crawl_quality.accept_crawl(connection, crawl.id)
    delisted = "SELECT external_id FROM products WHERE delisted_at IS NOT NULL"
    assert making.rows(known, delisted) == [("3",)] and held(known) == []


def test_a_stopped_crawl_is_judged_too(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    crawl.settle(lambda n: good(n, name=f"new {n}") if n in (1, 2) else good(n), pages=59)
    with known.begin() as connection:
        assert crawls.stop_crawl(connection, crawl.id, "by hand")
    assert versions(known) == 0
    reap(known, settings_module.load())
    assert versions(known) >= 1 and held(known) == []


def test_a_crawl_that_cannot_be_judged_does_not_stop_reap(
    known: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    with known.begin() as connection:
        assert crawls.stop_crawl(connection, crawl.id, "by hand")

    def fails(*_: Any, **__: Any) -> None:
        raise TypeError("Integer exceeds 64-bit range")

    with monkeypatch.context() as patched:
        patched.setattr(crawl_quality, "judge_data", fails)
        assert reap(known, settings_module.load()) == []
    assert crawl.row.judged_at is None
    reap(known, settings_module.load())
    assert crawl.row.judged_at is not None


def test_integers_of_more_than_64_bits_are_like_other_values(known: sa.Engine) -> None:
    huge = Decimal(10**20 - 1)
    for name in ("n60", "another"):
        crawled(
            known,
            shop(),
            range(61),
            lambda n, name=name: good(n, name=name, tag=huge) if n == 60 else good(n),
        )
    assert stored(known)["60"] == good(60, name="another", tag=huge) and held(known) == []
    (*_, change) = feed.read(known, 0)
    assert change.before == {"name": "n60"} and parse_data(dumps(change.data)) == change.data


def test_quality_none_holds_nothing(engine: sa.Engine) -> None:
    site = shop(quality="none")
    for _ in range(2):
        crawled(engine, site, NUMBERS)
    crawl = crawled(engine, site, NUMBERS, lambda n: price(n, "100"))
    assert not crawl.row.suspect and held(engine) == []
    assert stored(engine) == {str(n): price(n, "100") for n in NUMBERS}


def test_a_field_that_the_definition_drops_goes_at_once(known: sa.Engine) -> None:
    fields = {"name": "h1", "price": {"css": ".p", "type": "price"}}
    site = making.a_site(start="https://shop.example/", product={"fields": fields})
    crawl = crawled(known, site, NUMBERS, lambda n: without(good(n), "brand"))
    assert not crawl.row.suspect
    assert stored(known) == {str(n): without(good(n), "brand") for n in NUMBERS}


def test_a_delisted_product_comes_back_with_one_event(known: sa.Engine) -> None:
    for _ in range(2):
        crawled(known, shop(), range(59))
    assert events(known)[-1] == ("delisted", "59", 1)
    crawl = Crawl(known, shop(), NUMBERS)
    crawl.settle(lambda n: good(n, name="back") if n == 59 else good(n))
    assert events(known)[-1] == ("delisted", "59", 1), "its new name is not judged yet"
    crawl.end()
    assert events(known)[-1] == ("relisted", "59", 2) and stored(known)["59"]["name"] == "back"


def test_a_delisted_product_that_is_not_believed_comes_back_as_it_was(known: sa.Engine) -> None:
    for _ in range(2):
        crawled(known, shop(), range(59))
    crawled(known, shop(), NUMBERS, lambda n: price(n, "100") if n == 59 else good(n))
    assert events(known)[-1] == ("relisted", "59", 1) and stored(known) == ALL
    assert held(known) == [("59", "price", "leap")]


def test_two_workers_that_settle_one_product_at_once(known: sa.Engine) -> None:
    crawl = Crawl(known, shop(), NUMBERS)
    pages = [crawl.page(n, page, good(n, name=f"new {n % 2}")) for n, page in crawl.lease()]
    making.at_once(
        [lambda part=part: making.store(known, crawl.ids, pages[part::4]) for part in range(4)]
    )  # type: ignore[misc]
    assert len(held(known)) == len(NUMBERS) and stored(known) == ALL


def test_an_answer_that_is_not_modified_says_nothing_again(known: sa.Engine) -> None:
    crawled(known, shop(), NUMBERS, lambda n: price(n, "100") if n == 3 else good(n))
    crawl = Crawl(known, shop(), NUMBERS)

    pages = [
        replace(
            crawl.page(n, page, good(n)),
            products=[],
            outcome=Outcome.NOT_MODIFIED,
            observations=None,
        )
        for n, page in crawl.lease()
    ]
    making.store(known, crawl.ids, pages)
    crawl.end()
    assert stored(known) == ALL and held(known) == [("3", "price", "leap")]


def test_marks_are_of_their_crawl_alone(known: sa.Engine) -> None:
    first = crawled(known, shop(), NUMBERS, lambda n: price(n, "100") if n == 3 else good(n))
    crawled(known, shop(), range(40, 60), lambda n: price(n, "100") if n == 50 else good(n))
    with known.begin() as connection:
        held_values.accept_values(connection, first.id)
        held_values.release_values(connection, first.id)
    assert held(known) == [("50", "price", "leap")] and stored(known)["3"] == price(3, "100")


def test_a_fifth_of_the_shop_sold_out_is_not_a_broken_selector(engine: sa.Engine) -> None:
    fields = {"name": "h1", "brand": ".b", "tag": {"css": ".t", "type": "bool"}}
    site = making.a_site(start="https://shop.example/", product={"fields": fields})

    def sold(n: int, out: bool) -> Data:
        data = {"name": f"n{n}", "tag": not out}
        return data if out else data | {"brand": f"b{n}"}

    for _ in range(2):
        crawled(engine, site, NUMBERS, lambda n: sold(n, False))
    gone = {str(n): sold(n, n % 3 == 0) for n in NUMBERS}
    first = Crawl(engine, site, NUMBERS)
    first.settle(lambda n: sold(n, n % 3 == 0))
    first.end(again=lambda n: sold(n, n == 0))
    assert first.again and first.fields["tag"].held > 0, "a third of the shop at once"
    assert stored(engine) == {str(n): sold(n, False) for n in NUMBERS}, "not half of a change"
    second = crawled(engine, site, NUMBERS, lambda n: sold(n, n % 3 == 0))
    assert not second.row.suspect and stored(engine) == gone and held(engine) == []
    assert versions(engine) == 20
    assert not crawled(engine, site, NUMBERS, lambda n: sold(n, n % 3 == 0)).row.suspect


def stock_shop(switch: str) -> Any:
    fields = {
        "name": {"css": "h1", "required": True},
        "price": {"css": ".p", "type": "price"},
        switch: {"css": ".s", "type": "bool"},
    }
    return making.a_site(start="https://shop.example/", product={"fields": fields})


def in_stock(number: int, switch: str, *, out: bool, priced: bool = True) -> Data:
    data = good(number) | {switch: not out}
    return without(data, "brand") if priced else without(data, "brand", "price", "price_currency")


@pytest.mark.parametrize("said", [True, False])
def test_sold_out_products_have_the_same_stock_of_zero(engine: sa.Engine, said: bool) -> None:
    """A zero that the products' availability does not explain is a wrong selector's."""
    fields = {
        "name": {"css": "h1", "required": True},
        "tag": {"css": ".n", "type": "int"},
        "in_stock": {"css": ".s", "type": "bool"},
    }
    site = making.a_site(start="https://shop.example/", product={"fields": fields})

    def counted(n: int, new: bool) -> Data:
        out = new and n % 20 == 3
        available = n % 20 != 1 and not (out and said)
        return {"name": f"n{n}", "tag": 0 if out else n + 5, "in_stock": available}

    numbers = range(200)
    for _ in range(2):
        crawled(engine, site, numbers, lambda n: counted(n, False))
    crawl = crawled(engine, site, numbers, lambda n: counted(n, True))
    assert stored(engine) == {str(n): counted(n, said) for n in numbers}
    assert crawl.row.suspect is not said


@pytest.mark.parametrize("every", [20, 3])
def test_a_sold_out_product_that_hides_its_price_is_stored_without_it(
    engine: sa.Engine, every: int
) -> None:
    site = stock_shop("in_stock")
    for _ in range(2):
        crawled(engine, site, NUMBERS, lambda n: in_stock(n, "in_stock", out=n % every == 0))

    def hidden(n: int) -> Data:
        return in_stock(n, "in_stock", out=n % every == 0, priced=n % every != 0)

    crawl = crawled(engine, site, NUMBERS, hidden)
    assert stored(engine) == {str(n): hidden(n) for n in NUMBERS} and held(engine) == []
    assert not crawl.row.suspect and versions(engine) == len(NUMBERS) // every


@pytest.mark.parametrize("lost", [NUMBERS, range(3)])
@pytest.mark.parametrize("switch", ["in_stock", "on_sale"])
def test_a_price_that_vanishes_from_products_for_sale_is_not_explained(
    engine: sa.Engine, switch: str, lost: range
) -> None:
    """Few are sold out, or a field that is false says nothing of stock."""
    site = stock_shop(switch)
    out = 20 if switch == "in_stock" else 1

    def shown(n: int) -> Data:
        return in_stock(n, switch, out=n % out == 0)

    def broken(n: int) -> Data:
        return in_stock(n, switch, out=n % out == 0, priced=n not in lost)

    for _ in range(2):
        crawled(engine, site, NUMBERS, shown)
    crawled(engine, site, NUMBERS, broken)
    assert stored(engine) == {str(n): shown(n) for n in NUMBERS}


def test_a_product_back_in_stock_does_not_lose_its_price(engine: sa.Engine) -> None:
    site = stock_shop("in_stock")
    for _ in range(2):
        crawled(engine, site, NUMBERS, lambda n: in_stock(n, "in_stock", out=n == 7))
    crawled(engine, site, NUMBERS, lambda n: in_stock(n, "in_stock", out=False, priced=n != 7))
    assert stored(engine)["7"] == in_stock(7, "in_stock", out=True)
