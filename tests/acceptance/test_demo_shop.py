"""The sample shop crawled by a coordinator and workers on two queues: every stored row against the
shop's own truth."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.plugins.demo.catalogue import Catalogue
from scraper.plugins.demo.faults import ShopOptions, choose_fault
from scraper.views import crawl_progress as progress
from tests.acceptance.commands import Commands, assert_counted
from tests.acceptance.conftest import SampleShop
from tests.acceptance.truth import TIMES, as_truth

PRODUCTS = 400
SEED = 7
FAIL_SHARE = 0.06
FIELDS = [
    "id",
    "url",
    "name",
    "price",
    "price_currency",
    "old_price",
    "old_price_currency",
    "brand",
    "sku",
    "stock",
]
FIELDS += ["rating", "available", "category", "description", "image"]
DEFUSED = ("=", "+", "-", "@", "\t", "\r")


# each crawl waits for pages that fail on purpose, and for the pace that they cost the host
@pytest.mark.timeout(900)
def test_a_shop_over_four_crawls(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop], tmp_path: Any
) -> None:
    shop = sample_shop(
        *(
            "--products",
            str(PRODUCTS),
            "--seed",
            str(SEED),
            "--fail-share",
            str(FAIL_SHARE),
            "--latency-ms",
            "4",
        )
    )
    run.coordinator()
    run.worker("residential")
    run.worker("datacenter")

    first = run.crawl(engine, "demo")
    assert (
        first["status"] == "completed" and first["products_new"] == PRODUCTS and first["dead"] == 0
    )
    assert first["gone"] == 3 and first["products_changed"] == 0
    assert_counted(engine, first)
    assert_is_the_truth(run, shop)
    assert_fetched_as_often_as_explained(shop, visit=1)
    broken = Counter(status for _, _, status in shop.log())
    assert (
        0 < broken[500] + broken[503] <= first["retries"] <= broken[500] + broken[503] + broken[0]
    )

    before = rows_of(run)
    shop.forget()
    second = run.crawl(engine, "demo")
    assert second["status"] == "completed"
    assert second["products_new"] == second["products_changed"] == second["retries"] == 0
    assert (
        second["product_total"] == first["product_total"]
        and second["discovery_total"] == first["discovery_total"]
    )
    asked = Counter(status for _, target, status in shop.log() if target.startswith("/p/"))
    assert second["unchanged"] == PRODUCTS == second["not_modified"] + asked[301], (
        "only where a page has moved it is read"
    )
    assert (asked[304], asked[200]) == (second["not_modified"], asked[301]) and asked[
        304
    ] > 0.9 * PRODUCTS
    assert f"{asked[304]} product pages answered 304 or the same bytes" in progress.summarize_crawl(
        progress.read_one(engine, second["id"])
    )
    assert_counted(engine, second)
    assert rows_of(run) == before, "a crawl that finds nothing new writes nothing"
    assert versions(engine) == []

    truth_before = shop.truth()
    shop.visit()
    truth_now = shop.truth()
    shop.forget()
    third = run.crawl(engine, "demo")
    repriced = {
        i for i in truth_now.keys() & truth_before.keys() if truth_now[i] != truth_before[i]
    }
    vanished, arrived = (
        truth_before.keys() - truth_now.keys(),
        truth_now.keys() - truth_before.keys(),
    )
    assert len(repriced) > 20 and vanished and arrived, "the shop changes enough to see it"
    assert (third["products_changed"], third["products_new"]) == (len(repriced), len(arrived))
    assert third["products_delisted"] == 0, "missed once is not delisted yet"
    assert_counted(engine, third)
    assert_fetched_as_often_as_explained(shop, visit=2)
    stored = versions(engine)
    assert {(v.external_id, v.price) for v in stored} == {
        (i, truth_before[i]["price"]) for i in repriced
    }
    assert len(stored) == len(repriced) and all(
        v.version == 1 and v.crawl_id == third["id"] for v in stored
    )

    fourth = run.crawl(engine, "demo")
    assert (fourth["products_delisted"], fourth["products_changed"]) == (0, 0), "listings name it"
    assert_counted(engine, fourth)
    fifth = run.crawl(engine, "demo")
    assert fifth["products_delisted"] == len(vanished) and fifth["products_changed"] == 0
    assert_is_the_truth(run, shop)
    every = [
        json.loads(line) for line in run.scraper("export", "demo", "--delisted").stdout.splitlines()
    ]
    assert {row["id"] for row in every if row["delisted_at"]} == vanished
    assert len(every) == len(truth_now) + len(vanished)

    product = min(repriced)
    history = run.json("history", "demo", product)
    assert [(v["version"], str(v["data"]["price"])) for v in history] == [
        (1, truth_before[product]["price"]),
        (2, truth_now[product]["price"]),
    ]
    assert history[0]["valid_to"] == history[1]["valid_from"] and history[1]["valid_to"] is None
    shown = run.scraper("history", "demo", product).stdout
    assert truth_before[product]["price"] in shown and truth_now[product]["price"] in shown
    crawls = run.crawls("demo")
    assert [c["id"] for c in crawls] == [
        fifth["id"],
        fourth["id"],
        third["id"],
        second["id"],
        first["id"],
    ]
    for crawl in crawls:
        assert crawl["status"] == crawl["phase"] == "completed"
        assert crawl["total"] == crawl["done"] == crawl["discovery_total"] + crawl["product_total"]
    assert_counted(engine, crawls[0])


def rows_of(run: Commands) -> list[dict[str, Any]]:
    lines = run.scraper("export", "demo").stdout.splitlines()
    return [json.loads(line, parse_float=Decimal) for line in lines]


def assert_is_the_truth(run: Commands, shop: SampleShop) -> None:
    """JSON lines and CSV hold the same rows as the shop: each product, each field, each digit."""
    truth = shop.truth()
    rows = rows_of(run)
    assert [list(row) for row in rows] == [[*FIELDS, *TIMES]] * len(rows)
    assert [row["id"] for row in rows] == sorted(truth)
    for row in rows:
        assert as_truth(row) == truth[row["id"]]
        assert row["first_seen_at"] and row["fetched_at"] and row["delisted_at"] is None
    table = list(
        csv.DictReader(
            io.StringIO(run.scraper("export", "demo", "--format", "csv").stdout, newline="")
        )
    )
    assert [row["id"] for row in table] == sorted(truth)
    for line in table:
        assert list(line) == [*FIELDS, *TIMES]
        assert {name: line[name] for name in FIELDS} == {
            name: as_cell(truth[line["id"]][name]) for name in FIELDS
        }


def as_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(DEFUSED) else text


def assert_fetched_as_often_as_explained(shop: SampleShop, visit: int) -> None:
    """Every listing once; every product as often as its own failures make it, tried by the shop's
    own rules."""
    counts = Counter(target for _, target, _ in shop.log())
    generation = Catalogue(PRODUCTS, SEED).at(visit)
    options = ShopOptions(fail_share=FAIL_SHARE)
    chains = [(item.linked_path, item.path) for item in generation.items.values()]
    chains += [(path, path) for path in generation.gone.values()]
    tries: Counter[str] = Counter()

    def fails(path: str) -> bool:
        tries[path] += 1
        return choose_fault(options, SEED, path, visit, tries[path]) is not None

    for linked, path in chains:
        while fails(linked) or (path != linked and fails(path)):
            pass
    products = {target: n for target, n in counts.items() if target.startswith("/p/")}
    moved = {item.linked_path for item in generation.items.values() if item.old_slug}
    assert {t: n for t, n in products.items() if t not in moved} == {
        t: n for t, n in tries.items() if t not in moved
    }
    # A redirect's target that breaks off a reused connection is asked again at once, without its
    # redirect.
    assert moved <= products.keys() and all(
        1 <= products[target] <= tries[target] for target in moved
    )
    listings = {target: n for target, n in counts.items() if target.startswith(("/all", "/c/"))}
    assert len(listings) > PRODUCTS // 24 and set(listings.values()) == {1}
    assert set(counts) - set(products) - set(listings) <= {"/robots.txt"}


def versions(engine: sa.Engine) -> list[Any]:
    query = """
        SELECT p.external_id, v.version, v.crawl_id, v.data ->> 'price' AS price
          FROM product_versions v JOIN products p ON p.id = v.product_id ORDER BY 1, 2"""
    with engine.connect() as connection:
        return list(connection.execute(sa.text(query)))


@pytest.mark.parametrize("pool", ["processes", "solo"])
def test_other_pools(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop], pool: str
) -> None:
    """The same truth from a worker on another of Celery's pools."""
    shop = sample_shop("--products", "60", changes={"concurrency: 16": "concurrency: 8"})
    run.coordinator()
    run.worker("residential,datacenter", "-P", pool, "-c", "2")
    crawl = run.crawl(engine, "demo")
    assert crawl["status"] == "completed" and crawl["dead"] == crawl["invalid"] == 0
    assert_counted(engine, crawl)
    assert_is_the_truth(run, shop)
