"""What nothing explains is found in one pass, however many prices change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from scraper.plugins.confirm import shapes
from scraper.plugins.confirm.hooks import UNEXPLAINED, read_unexplained
from scraper.results.judgement.plausibility import ONE_FACTOR
from tests.support.judged_crawls import NUMBERS, Crawl, crawled, price, shop


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def test_groups_of_prices_are_added_up_once(engine: sa.Engine) -> None:
    crawled(engine, shop(), NUMBERS)
    crawl = Crawl(engine, shop(), NUMBERS)
    crawl.settle(lambda number: price(number, "1.3"))
    values = {"id": crawl.id, "prices": ["price"], "groups": ["brand"]}
    values |= {"one_factor": ONE_FACTOR, "small": shapes.SMALL}
    values |= {"least": shapes.GROUP_LEAST, "most": len(NUMBERS)}
    explained = sa.text(f"EXPLAIN (ANALYZE, FORMAT JSON) {UNEXPLAINED.text}")
    with engine.connect() as connection:
        found = read_unexplained(connection, crawl.id, len(NUMBERS), ["price"], ["brand"])
        (plan,) = connection.execute(explained, values).scalar_one()
    assert found["price"].changed > len(NUMBERS) / 2
    loops = [node["Actual Loops"] for node in nodes(plan["Plan"]) if "Agg" in node["Node Type"]]
    assert loops and max(loops) == 1
