"""Pages with several products: real crawls of a shop whose products have variants, which vanish,
come back, change, move to other pages, and cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.coordinator import plan
from scraper.domain import Outcome
from scraper.frontier import leases, sites
from scraper.results import rejection
from scraper.results.transaction import PageResult
from scraper.settings import Settings
from tests.support.aging import age
from tests.support.broker import Broker
from tests.support.making import (
    OK,
    a_site,
    add,
    claimed,
    expire,
    lease_all,
    new_page,
    open_crawl,
    rows,
    store,
    with_product,
)
from tests.support.servers.forked import run_command
from tests.support.shops.variant_shop import Variant, VariantShop

Crawl = Callable[..., Any]
FIELDS = {"title": {"css": "h1", "required": True}}
OWN = {"size": ".size", "amount": {"css": ".amount", "type": "price", "required": True}}
ROWS = {"css": "table.variants tr", "id": "::attr(data-sku)", "fields": OWN}
JSONLD = {
    "jsonld": "ProductGroup.hasVariant",
    "id": "sku",
    "fields": {
        "size": "size",
        "amount": {"path": "offers.price", "type": "price", "required": True},
    },
}


@pytest.fixture
def environment(environment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """With an archive, for definitions that ask for it."""
    monkeypatch.setenv("SCRAPER_ARCHIVE", str(tmp_path / "archive"))
    settings_module.load.cache_clear()
    return settings_module.load()


@pytest.fixture
def shop() -> Iterator[VariantShop]:
    with VariantShop() as shop:
        yield shop


@pytest.fixture
def crawl(broker: Broker, shop: VariantShop) -> Crawl:
    def run(items: dict[str, Any] | None = None, refetch: bool = False, **more: Any) -> Any:
        shop.asked.clear()
        product = {"fields": FIELDS, "items": items or ROWS}
        definition = shop.definition(**{"product": product} | more)
        return broker.crawl(definition, refetch=refetch)

    return run


def listed(engine: sa.Engine) -> dict[str, float]:
    """The amounts of the products that are listed, by their ids."""
    found = rows(
        engine,
        "SELECT external_id, data ->> 'amount' FROM products WHERE delisted_at IS NULL ORDER BY 1",
    )
    return {str(key): float(str(amount)) for key, amount in found}


def events(engine: sa.Engine, crawl_id: int) -> list[tuple[object, ...]]:
    return rows(
        engine,
        f"""SELECT p.external_id, c.event FROM changes c JOIN products p ON p.id = c.product_id
             WHERE c.crawl_id = {crawl_id} ORDER BY 1, 2""",
    )


@pytest.mark.parametrize("items", [ROWS, JSONLD], ids=["rows", "jsonld"])
def test_variants_are_products_of_their_own_for_good(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl, items: dict[str, Any]
) -> None:
    first = crawl(items)
    assert (first.status, first.product_done, first.products_new, first.suspect) == (
        "completed", 3, 9, False
    )  # fmt: skip
    assert listed(engine)["2-L"] == 22.5
    assert rows(engine, "SELECT data FROM products WHERE external_id = '2-L'") == [
        ({"title": "No. 2", "size": "L", "amount": 22.5, "amount_currency": "EUR"},)
    ]
    age(engine, 2)
    second = crawl(items)
    assert (second.not_modified, second.products_new, second.products_changed) == (3, 0, 0)
    assert rows(engine, "SELECT DISTINCT crawl_id, missed_crawls FROM products") == [(second.id, 0)]

    shop.variants[2]["2-L"].price = "20.00 €"
    third = crawl(items)
    assert (third.products_changed, third.not_modified) == (1, 2)
    assert events(engine, third.id) == [("2-L", "changed")]
    assert rows(engine, "SELECT DISTINCT product_id IS NULL, version FROM product_versions") == [
        (False, 1)
    ]


@pytest.mark.parametrize("hours", [0, 2])
def test_a_variant_that_vanishes_is_delisted_at_the_second_reading_and_comes_back(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl, hours: float
) -> None:
    crawl()
    gone = shop.variants[1].pop("1-M")
    age(engine, hours)
    second = crawl()
    assert (second.status, second.products_delisted) == ("completed", 0)
    assert rows(
        engine,
        "SELECT external_id, missed_crawls FROM products WHERE absent_since IS NOT NULL",
    ) == [("1-M", 1)]
    age(engine, hours)
    third = crawl()
    assert (third.products_delisted, third.not_modified) == (1, 3), "the server confirms the page"
    assert len(listed(engine)) == 8 and events(engine, third.id) == [("1-M", "delisted")]
    age(engine, hours)
    assert events(engine, crawl().id) == []

    shop.variants[1]["1-M"] = gone
    age(engine, hours)
    back = crawl()
    assert events(engine, back.id) == [("1-M", "relisted")]
    assert (len(listed(engine)), back.products_new) == (9, 0)
    assert rows(engine, "SELECT count(*) FROM products WHERE absent_since IS NOT NULL") == [(0,)]
    assert rows(engine, "SELECT count(*) FROM product_versions") == [(0,)]
    age(engine, hours)
    assert events(engine, crawl().id) == []


def test_a_variant_that_comes_back_with_another_price_is_listed_with_it(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    gone = shop.variants[1].pop("1-M")
    crawl(), crawl()
    assert "1-M" not in listed(engine)
    shop.variants[1]["1-M"] = Variant(gone.size, "12.00 €")
    back = crawl()
    assert (listed(engine)["1-M"], back.products_changed) == (12.0, 1)
    assert events(engine, back.id) == [("1-M", "relisted")]
    assert rows(engine, "SELECT DISTINCT absent_since FROM products") == [(None,)]
    assert crawl().not_modified == 3


def test_one_reading_without_it_delists_nothing_however_often_the_page_is_not_due(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    gone = shop.variants[1].pop("1-M")
    crawl()
    for _ in range(3):
        fresh = crawl(revisit="7d")
        assert (fresh.fresh, fresh.products_delisted) == (3, 0)
    assert rows(engine, "SELECT max(missed_crawls) FROM products") == [(1,)]
    shop.variants[1]["1-M"] = gone
    assert crawl().products_delisted == 0
    assert rows(engine, "SELECT max(missed_crawls), max(absent_since) FROM products") == [(0, None)]


def test_variants_go_with_their_page(engine: sa.Engine, shop: VariantShop, crawl: Crawl) -> None:
    crawl()
    shop.listed.remove(3)
    assert [crawl().products_delisted for _ in range(2)] == [0, 0], "its page is there still"
    assert crawl().products_delisted == 3
    assert {key[0] for key in listed(engine)} == {"1", "2"}
    shop.listed.append(3)
    assert len(events(engine, crawl().id)) == 3 and len(listed(engine)) == 9


def test_a_broken_variant_is_left_as_it_was_and_its_siblings_are_stored(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    shop.variants[2]["2-M"].price = None
    shop.variants[2]["2-S"].price = "20.00 €"
    for _ in range(3):
        after = crawl()
        assert (after.status, after.products_delisted, after.invalid) == ("completed", 0, 0)
        assert shop.statuses() == {200: 1, 304: 2}, "it is read again: something was missing"
    assert (listed(engine)["2-M"], listed(engine)["2-S"]) == (21.5, 20.0)
    assert rows(engine, "SELECT error FROM pages WHERE error IS NOT NULL") == [
        ("amount: nothing matched css '.amount' (1 of 3 items, such as 2-M)",)
    ]


def test_an_item_without_an_id_makes_no_other_missed(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    gone = shop.variants[1].pop("1-M")
    shop.rows[1] = f"<tr><td class=size>{gone.size}</td><td class=amount>{gone.price}</td></tr>"
    crawl()
    assert crawl().products_delisted == 0
    assert rows(engine, "SELECT max(missed_crawls), max(absent_since) FROM products") == [(0, None)]


def test_a_page_without_items_is_invalid_and_its_variants_stay(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    shop.variants[1].clear()
    for _ in range(3):
        after = crawl()
        assert (after.invalid, after.products_delisted) == (1, 0)
    assert len(listed(engine)) == 9
    assert rows(engine, "SELECT last_outcome, error FROM pages WHERE status = 'invalid'") == [
        ("not_extracted", "items: none of them has an id or a field of its own")
    ]


def test_pages_without_variants_are_products_where_items_are_optional(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    product = {
        "id": "body::attr(data-id)",
        "fields": FIELDS | {"amount": {"css": ".price", "type": "price"}},
        "items": ROWS | {"css": "table.variants tr[data-sku]", "optional": True},
    }
    variants = shop.variants[1]
    shop.variants[1] = {}
    assert crawl(product=product).products_new == 7
    assert listed(engine)["1"] == 1.9 and listed(engine)["2-S"] == 20.5
    shop.variants[1] = variants
    crawl(product=product)
    assert crawl(product=product).products_delisted == 1
    assert "1" not in listed(engine) and len(listed(engine)) == 9


def test_a_variant_on_two_pages_is_the_first_ones_until_that_gives_it_no_more(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    shop.variants[2]["1-M"] = Variant("M", "99.00 €")
    amounts = {1: 11.5, 2: 99.0}
    assert crawl().products_new == 9

    def owner() -> int:
        ((url,),) = rows(engine, "SELECT url FROM products WHERE external_id = '1-M'")
        return int(str(url)[-1])

    first = owner()
    other = 3 - first
    assert listed(engine)["1-M"] == amounts[first]
    again = crawl()
    assert shop.statuses() == {200: 2, 304: 1}, "both may have to stand in for the other"
    assert (again.products_changed, listed(engine)["1-M"]) == (0, amounts[first])
    del shop.variants[first]["1-M"]
    crawl(), crawl()
    assert (owner(), listed(engine)["1-M"]) == (other, amounts[other])
    shop.listed.remove(other)
    crawl(), crawl(), crawl()
    assert "1-M" not in listed(engine)


def test_a_variant_that_moves_is_never_missed(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    shop.variants[3]["1-M"] = shop.variants[1].pop("1-M")
    for _ in range(3):
        assert crawl().products_delisted == 0
    assert rows(engine, "SELECT url, missed_crawls FROM products WHERE external_id = '1-M'") == [
        (shop.url("/p/3"), 0)
    ]


def test_a_page_with_more_items_than_are_read_says_so_and_misses_none(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    gone = shop.variants[1].pop("1-M")
    shop.variants[1] |= {f"1-{number}": Variant("S", "1.00 €") for number in range(10_000)}
    shop.variants[1]["1-M"] = gone
    after = crawl(limits={"body": 5_000_000})
    assert (after.status, after.products_new, after.products_delisted) == ("completed", 2497, 0)
    assert rows(engine, "SELECT error FROM pages WHERE error IS NOT NULL") == [
        ("items: 10,004 on the page, the first 2,500 are read",)
    ]
    assert rows(engine, "SELECT max(missed_crawls) FROM products") == [(0,)]


def test_variants_that_vanish_everywhere_at_once_are_doubted(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    """As they do where a redesign shows the first one alone."""
    shop.grow(30)
    for _ in range(2):
        crawl()
    for number, variants in shop.variants.items():
        del variants[f"{number}-M"], variants[f"{number}-L"]
    after = crawl()
    assert after.suspect and after.products_delisted == 0
    assert [reason["what"] for reason in after.reasons] == ["missed"]
    assert len(listed(engine)) == 90


def test_messages_that_come_twice_change_nothing_twice(
    engine: sa.Engine, environment: Settings, shop: VariantShop
) -> None:
    product = {"fields": FIELDS, "items": ROWS}

    def crawled() -> Any:
        broker = Broker(engine, environment, lambda message: [message, message])
        with engine.begin() as connection:
            sites.store_definitions(connection, [shop.definition(product=product)])
        opened = plan.open_now(engine, "shop")
        broker.send(opened.messages)
        broker.run()
        broker.close()
        return rows(
            engine,
            "SELECT status, fetches, product_done, products_new, products_changed, products_delisted"
            f" FROM crawls WHERE id = {opened.crawl_id}",
        )[0]

    assert crawled() == ("completed", 4, 3, 9, 0, 0)
    del shop.variants[1]["1-M"]
    shop.variants[2]["2-L"].price = "20.00 €"
    assert crawled() == ("completed", 4, 3, 0, 1, 0)
    assert rows(engine, "SELECT max(missed_crawls) FROM products") == [(1,)]
    assert crawled() == ("completed", 4, 3, 0, 0, 1)
    assert rows(engine, "SELECT event, count(*) FROM changes GROUP BY 1 ORDER BY 1") == [
        ("changed", 1), ("delisted", 1), ("new", 9)
    ]  # fmt: skip
    assert rows(engine, "SELECT count(*) FROM product_versions") == [(1,)]


def test_a_worker_that_lost_its_lease_marks_nothing(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site(product={"fields": FIELDS, "items": ROWS}))
    add(engine, [new_page(crawl, "https://shop.example/p/1")])
    (lost,) = lease_all(engine, "shop.example")
    lease = claimed(engine, lost)
    assert lease is not None
    page_id = lease.pages[0].id
    expire(engine, lost.id)
    with engine.begin() as connection:
        leases.reclaim_expired(connection)
    (living,) = lease_all(engine, "shop.example")
    claimed(engine, living)
    good = PageResult(page_id, crawl[1], living.id, Outcome.FETCHED, OK, 200, named=["A"])
    store(engine, crawl, [with_product(good, crawl, "A", {"title": "a"})])
    late = PageResult(page_id, crawl[1], lost.id, Outcome.FETCHED, OK, 200, named=["B"])
    store(engine, crawl, [with_product(late, crawl, "B", {"title": "b"})])
    assert rows(engine, "SELECT external_id, absent_since FROM products") == [("A", None)]


def run(*words: str, code: int = 0) -> str:
    """As it is typed: a process of its own, which ends its sessions."""
    result = run_command(["scraper", *words])
    assert result.returncode == code, result.stderr
    return result.stdout


def test_each_variant_is_a_product_in_every_command(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl, environment: Settings
) -> None:
    crawl(archive=True)
    shop.variants[2]["2-L"].price = "20.00 €"
    del shop.variants[1]["1-M"]
    crawl(archive=True), crawl(archive=True)
    exported = [
        json.loads(line) for line in run("export", "shop", "--format", "jsonl").splitlines()
    ]
    assert [row["id"] for row in exported if row["id"].startswith("2")] == ["2-L", "2-M", "2-S"]
    assert len(exported) == 8
    changes = [
        (row["id"], row["event"])
        for line in run("changes", "shop", "--since", "0", "--json").splitlines()
        if "id" in (row := json.loads(line))
    ]
    assert changes[-2:] == [("2-L", "changed"), ("1-M", "delisted")]
    why = json.loads(run("why", "shop", "2-L", "amount", "--json"))
    (amount,) = why["fields"]
    assert (amount["value"], amount["source"], amount["version"]) == (20.0, "css '.amount'", 2)
    assert amount["sources"] == ["css '.amount' in css 'table.variants tr'"]
    assert run("history", "shop", "2-L", "--json").count('"version"') == 2

    own = OWN | {"upper": {"css": ".size", "regex": "[SML]"}}
    text = json.dumps(
        shop.definition(
            archive=True, product={"fields": FIELDS, "items": ROWS | {"fields": own}}
        ).model_dump(mode="json", exclude_unset=True)
    )
    (environment.sites_dir / "shop.yaml").write_text(text)
    preview = json.loads(run("reextract", "shop", "--json"))
    changed = preview["products"]
    assert changed["changed"] == 8, preview
    assert (changed["new"], changed["vanished"]) == (0, 0), preview


def test_a_delisting_that_is_taken_back_takes_two_readings_again(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl()
    del shop.variants[1]["1-M"]
    crawl()
    delisting = crawl()
    assert delisting.products_delisted == 1
    with engine.begin() as connection:
        outcome = rejection.reject_crawl(connection, delisting.id)
    assert outcome is not None and outcome.delisted == 1
    assert len(listed(engine)) == 9
    assert rows(engine, "SELECT max(absent_since) FROM products") == [(None,)]
    assert crawl(refetch=True).products_delisted == 0
    assert crawl(refetch=True).products_delisted == 1


def test_a_definition_that_finds_items_replaces_the_product_of_the_page(
    engine: sa.Engine, shop: VariantShop, crawl: Crawl
) -> None:
    crawl(product={"id": "body::attr(data-id)", "fields": FIELDS})
    assert len(rows(engine, "SELECT FROM products")) == 3
    assert crawl().products_new == 9
    last = crawl()
    assert (last.suspect, last.products_delisted) in ((False, 3), (True, 0))
    crawl()
    assert {key[1:2] for key in listed(engine)} == {"-"} and len(listed(engine)) == 9
