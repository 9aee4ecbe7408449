"""`dedup: bloom` as an operator lives through it: real commands, a coordinator, two workers, and a
Redis that is emptied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until, until_completed
from tests.acceptance.conftest import SampleShop
from tests.support.aging import age_filters

PRODUCTS = 300


def products(shop: SampleShop) -> list[str]:
    return [
        target for _, target, status in shop.log() if target.startswith("/p/") and status == 200
    ]


def left(engine: sa.Engine) -> dict[str, int]:
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT status, count(*) FROM pages GROUP BY status"))
        return {row.status: row.count for row in found}


def known(engine: sa.Engine) -> set[Any]:
    with engine.connect() as connection:
        return set(connection.execute(sa.text("SELECT external_id FROM products")).scalars())


@pytest.mark.timeout(900)
def test_a_shop_whose_pages_leave_the_frontier(
    run: Commands, engine: sa.Engine, environment: Settings, sample_shop: Callable[..., SampleShop]
) -> None:
    shop = sample_shop(
        *("--products", str(PRODUCTS), "--latency-ms", "4", "--fail-share", "0.02"),
        changes={"revisit: ": "dedup: bloom\nrevisit: 7d  # was "},
    )
    run.coordinator()
    for _ in range(2):
        run.worker("residential")
        run.worker("datacenter")

    first = run.crawl(engine, "demo")
    assert first["status"] == "completed" and first["products_new"] == PRODUCTS
    assert (
        first["product_done"] == first["product_total"]
        and first["discovery_done"] == first["discovery_total"]
    )
    assert known(engine) == shop.truth().keys()
    until(lambda: not left(engine), 30)

    told = run.json("dedup", "show", "demo")
    assert (
        PRODUCTS - 3 <= told["urls"] <= PRODUCTS + 3
        and told["false_positives"] < 0.001
        and told["warning"] is None
    )
    assert {part["form"] for generation in told["generations"] for part in generation["parts"]} == {
        "bitmap"
    }
    assert "URLs remembered" in run.scraper("dedup", "show", "demo").stdout

    shop.forget()
    second = run.crawl(engine, "demo")
    assert second["status"] == "completed" and second["ok"] == second["discovery_total"]
    assert products(shop) == []

    age_filters(environment.valkey_url, 7.1 * 86_400)
    shop.forget()
    third = run.crawl(engine, "demo")
    assert third["status"] == "completed" and len(set(products(shop))) == PRODUCTS
    assert third["products_new"] == 0

    run.scraper("dedup", "reset", "demo")
    assert run.json("dedup", "show", "demo")["urls"] == 0
    shop.forget()
    crawl_id = int(run.scraper("crawl", "demo").stdout)
    until(lambda: len(products(shop)) > PRODUCTS // 4, 120)
    with redis.Redis.from_url(environment.valkey_url) as client:
        client.flushdb()  # the queues too
    until_completed(engine, crawl_id, 240)
    (fourth,) = (each for each in run.crawls() if each["id"] == crawl_id)
    assert len(set(products(shop))) == PRODUCTS
    assert fourth["product_done"] == fourth["product_total"] >= PRODUCTS
    until(lambda: not left(engine), 30)
    assert known(engine) == shop.truth().keys()


def test_what_cannot_be(run: Commands, environment: Settings) -> None:
    (environment.sites_dir / "one.yaml").write_text(
        "start: http://127.0.0.1:1/\nrevisit: 0\ndedup: bloom\nlisting: {products: a}\nproduct: {fields: {title: h1}}\n"
    )
    told = run.scraper("sites", "check", code=2)
    assert "a filter remembers pages for as long as `revisit` says" in told.stdout + told.stderr
    assert "no site named 'none'" in run.scraper("dedup", "show", "none", code=None).stderr
