"""A crawl's end reads each of its products a few times, whatever they have changed: its time does
not grow faster than the crawl, not even while PostgreSQL has no statistics yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.judged_crawls import Crawl, Data, good, price, shop, without

PRODUCTS = 300
# What any part of any statement may read for each product. Joins of all with all read 300.
ROWS_A_PRODUCT = 50
READS = re.compile(r"\s*(?:--.*\n\s*)*(?:WITH|SELECT)\b(?!.*\b(?:INSERT|UPDATE|DELETE)\b)", re.S)


def rows_read(plan: dict[str, Any]) -> Iterator[float]:
    removed = sum(plan.get(f"Rows Removed by {by}", 0) for by in ("Filter", "Join Filter"))
    yield (plan.get("Actual Rows", 0) + removed) * plan.get("Actual Loops", 0)
    for below in plan.get("Plans", ()):
        yield from rows_read(below)


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
    engine: sa.Engine, changed: Callable[[int], Data | None]
) -> None:
    numbers = range(1, PRODUCTS + 1)
    first = Crawl(engine, shop(), numbers)
    first.settle(good)
    first.end()
    crawl = Crawl(engine, shop(), numbers)
    crawl.settle(changed)
    read: dict[str, float] = {}

    def explain(
        _connection: Any, cursor: Any, statement: str, values: Any, _context: Any, _many: bool
    ) -> None:
        if READS.match(statement):
            explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
            ((plans,),) = cursor.connection.execute(explained, values).fetchall()
            read[statement] = max(read.get(statement, 0), *rows_read(plans[0]["Plan"]))

    sa.event.listen(engine, "before_cursor_execute", explain)
    try:
        crawl.end()
    finally:
        sa.event.remove(engine, "before_cursor_execute", explain)
    assert len(read) > 10
    assert {
        statement: rows for statement, rows in read.items() if rows > ROWS_A_PRODUCT * PRODUCTS
    } == {}
