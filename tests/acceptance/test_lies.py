"""Nothing wrong is ever published: a shop goes wrong in many ways, and surprises in others.

`make lies` shows tables of both; `PRODUCTS=` of each site, `SEED=` for another shop.
"""

from __future__ import annotations

import os

import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.lies.harness import run, table
from tests.acceptance.lies.ways import LIES, SURPRISES

PRODUCTS = int(os.environ.get("LIES_PRODUCTS", "60"))
SEED = os.environ.get("LIES_SEED", "1")
AT_ONCE = 9


@pytest.mark.timeout(1800)
def test_no_lie_is_published(engine: sa.Engine, environment: Settings) -> None:
    results = run(engine, environment, LIES, PRODUCTS, SEED)
    print("\n" + table(results))
    assert {result.way.name: result.examples[:3] for result in results if result.wrong} == {}
    assert {result.way.name for result in results if result.delisted} == set()


def test_another_language_is_held_after_one_good_crawl(
    engine: sa.Engine, environment: Settings
) -> None:
    ways = [way for way in LIES if way.name == "another language"]
    [result] = run(engine, environment, ways, PRODUCTS, SEED, good_crawls=1)
    assert result.wrong == 0, result.examples[:3]


def test_a_listing_that_is_not_full_makes_its_crawl_suspect_once(
    engine: sa.Engine, environment: Settings
) -> None:
    ways = [way for way in LIES if way.name == "three products on a page in mid-category"]
    [result] = run(engine, environment, ways, PRODUCTS + 40, SEED)
    assert (result.verdicts[0], result.delisted, result.wrong) == ("5", 0, 0)
    assert result.verdicts[1:] == ["0"] * (len(result.verdicts) - 1)
    with engine.connect() as connection:
        noted = sa.text("SELECT note FROM crawls WHERE note IS NOT NULL")
        assert "it names 3 products, and named" in connection.execute(noted).scalar_one()


@pytest.mark.timeout(1800)
def test_what_is_true_comes_at_most_a_crawl_late(engine: sa.Engine, environment: Settings) -> None:
    results = run(engine, environment, SURPRISES, PRODUCTS, SEED)
    print("\n" + table(results))
    assert not any(result.wrong or result.delisted for result in results)
    late = {result.way.name: result.late for result in results}
    assert all(crawls is not None and crawls <= 1 for crawls in late.values()), late
    assert sum(crawls == 0 for crawls in late.values()) >= AT_ONCE, late
