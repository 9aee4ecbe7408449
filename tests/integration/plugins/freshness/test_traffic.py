"""Limits of bytes and of money for proxies: kept by real rounds, counted by the shop itself."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from scraper.frontier import sites
from scraper.plugins.freshness.command import describe_plan
from scraper.plugins.freshness.rounds import visit_pages
from scraper.settings import Settings
from scraper.sites import loader
from tests.integration.conftest import CrawlSite
from tests.support.broker import Broker
from tests.support.shops.static_shop import StaticShop

PRODUCTS = 30
BODY = 20_000
AGED = {
    "pages": ("fetched_at",),
    "page_visits": ("looked_at", "next_visit"),
    "site_plans": ("planned_at",),
    "crawls": ("created_at",),
}


def define(shop: StaticShop, budget: str) -> str:
    return f"""
name: shop
start: {shop.url}/all
rate: 1000/s
allow_private: true
conditional: false
budget: {budget}
listing: {{products: a}}
product:
  id: {{url: "/p/(\\\\d+)"}}
  fields:
    title: {{css: h1, required: true}}
"""


def run(engine: sa.Engine, text: str, **values: Any) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(text), values)


def pass_hour(engine: sa.Engine) -> None:
    # PostgreSQL moves the sums of ten minutes one by one, in any order: so that no two meet, all move
    # far ahead first.
    run(engine, "UPDATE site_traffic SET at = at + interval '1000 days'")
    for table, columns in AGED.items():
        for column in columns:
            run(engine, f"UPDATE {table} SET {column} = {column} - interval '1 hour'")
    run(engine, "UPDATE site_traffic SET at = at - interval '1000 days 1 hour'")


def run_round(engine: sa.Engine, environment: Settings) -> None:
    messages = visit_pages(engine, Settings())
    run(
        engine,
        """UPDATE crawls SET rate_per_s = 1000, definition = CAST(jsonb_set(
           CAST(definition AS jsonb), '{rate}', '"1000/s"') AS json) WHERE status = 'running'""",
    )
    broker = Broker(engine, environment, lambda message: [message])
    try:
        broker.send(messages)
        broker.run()
    finally:
        broker.close()


def count_bytes(shop: StaticShop) -> int:
    """Returns the bytes that the shop has sent since the last time."""
    sent = sum(len(shop.pages.get(path, "")) for path in shop.paths)
    shop.asked.clear()
    return sent


@pytest.mark.slow
def test_a_limit_of_bytes_is_kept_in_every_day(
    engine: sa.Engine, environment: Settings, crawl_site: CrawlSite
) -> None:
    pages = {f"/p/{n}": f"<h1>Thing {n}</h1>{'x' * BODY}" for n in range(1, PRODUCTS + 1)}
    pages["/all"] = "".join(f'<a href="{path}">{path}</a>' for path in pages)
    with StaticShop(pages) as shop:
        crawl_site(define(shop, "{bytes: 900TB/d}"))
        hours = [count_bytes(shop)]
        assert hours[0] > PRODUCTS * BODY
        with engine.begin() as connection:
            limited = loader.load_text(define(shop, "{requests: 900/d, bytes: 1MB/d}"), "s.yaml")
            sites.store_definitions(connection, [limited])
        for _ in range(30):
            run_round(engine, environment)
            hours[-1] += count_bytes(shop)
            hours.append(0)
            pass_hour(engine)
        with engine.connect() as connection:
            facts = describe_plan(connection, "shop")
    days = [sum(hours[begin : begin + 24]) for begin in range(7)]
    assert max(days) <= 1_000_000
    # What the crawl of the whole shop left was used, and then the rounds stopped until it was a day
    # ago.
    assert days[0] > 900_000
    assert sum(hours[18:24]) == 0 < hours[25]
    assert facts["binds"] == "bytes"
    assert 35 < facts["visits_a_day"] < 50
