"""A crawl's end reads each of its products a few times, whatever they have changed: its time does
not grow faster than the crawl, whatever PostgreSQL takes the crawl's tables for."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
import sqlalchemy as sa

from tests.support.judged_crawls import Crawl, Data, good, price, shop, without
from tests.support.plans import rows_read, take_tables_for_empty

pytestmark = pytest.mark.slow

PRODUCTS = 300
# What any part of any statement may read for each product. Joins of all with all read 300.
ROWS_A_PRODUCT = 50


@pytest.mark.usefixtures("own_database")
@pytest.mark.parametrize("seen_empty", [False, True], ids=["never seen", "seen empty"])
@pytest.mark.parametrize(
    "changed",
    [
        lambda number: price(number, "1.3"),
        lambda number: price(number, str(1 + number % 17 / 10)),
        lambda number: good(number, price=Decimal("9.99")),
        lambda number: good(number, name=f"x{number}"),
        lambda number: without(good(number), "brand"),
        lambda number: without(good(number), "price"),
        lambda number: None if number % 2 else good(number),
    ],
    ids=["a factor", "many factors", "one price", "names", "no brand", "no price", "invalid"],
)
def test_no_statement_reads_all_products_for_each(
    engine: sa.Engine, changed: Callable[[int], Data | None], seen_empty: bool
) -> None:
    numbers = range(1, PRODUCTS + 1)
    first = Crawl(engine, shop(), numbers)
    first.settle(good)
    first.end()
    crawl = Crawl(engine, shop(), numbers)
    crawl.settle(changed)
    with engine.begin() as connection:
        # The large tables have statistics; what the crawl has made has none.
        connection.execute(sa.text("ANALYZE products, pages"))
        if seen_empty:
            take_tables_for_empty(connection, but=["products", "pages"])
    with rows_read(engine) as read:
        crawl.end()
    assert len(read) > 10
    assert {
        statement: rows for statement, rows in read.items() if rows > ROWS_A_PRODUCT * PRODUCTS
    } == {}
