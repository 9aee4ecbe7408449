"""The views `prices` and `price_changes`, on products as crawls store them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.errors import ConfigError
from scraper.infra import migrations
from scraper.infra.database import make_engine
from tests.support.making import rows
from tests.support.shops.crawled_shop import A, B, Shop

COLUMNS = ["site", "id", "title", "price", "currency", "before", "percent", "at"]


def read_view(engine: sa.Engine, view: str) -> list[tuple[Any, ...]]:
    """All but the site and the time."""
    return rows(
        engine, f"SELECT id, title, price, currency, before, percent FROM {view} ORDER BY id, at"
    )


def euros(price: object) -> dict[str, object]:
    return {"name": "A lamp", "price": price, "price_currency": "EUR"}


def test_each_move_of_a_price_is_a_row(engine: sa.Engine) -> None:
    shop = Shop(engine)
    for price in (10, Decimal("7.50"), Decimal("7.50"), 15):
        shop.once(**euros(price))
    assert read_view(engine, "price_changes") == [
        ("7", "A lamp", Decimal("7.50"), "EUR", Decimal(10), Decimal("-25.00")),
        ("7", "A lamp", Decimal(15), "EUR", Decimal("7.50"), Decimal("100.00")),
    ]
    assert read_view(engine, "prices") == [
        ("7", "A lamp", Decimal(15), "EUR", Decimal("7.50"), Decimal("100.00"))
    ]
    for view in ("prices", "price_changes"):
        query = "SELECT column_name FROM information_schema.columns WHERE table_name = :view"
        with engine.connect() as connection:
            found = connection.execute(
                sa.text(f"{query} ORDER BY ordinal_position"), {"view": view}
            )
            assert list(found.scalars()) == COLUMNS
    (at,), (changed_at,) = (
        rows(engine, "SELECT max(at) FROM price_changes")[0],
        rows(engine, "SELECT changed_at FROM products")[0],
    )
    assert at == changed_at == rows(engine, "SELECT at FROM prices")[0][0]


def test_other_changes_and_other_currencies_make_no_rows(engine: sa.Engine) -> None:
    shop = Shop(engine)
    shop.once(**euros(10))
    shop.once(**euros(10) | {"name": "A lamp, new"})
    shop.once(**euros(8) | {"price_currency": "USD"})
    assert read_view(engine, "price_changes") == []
    assert read_view(engine, "prices") == [("7", "A lamp", Decimal(8), "USD", None, None)]


def test_a_price_that_was_away_is_compared_with_the_last_one(engine: sa.Engine) -> None:
    shop = Shop(engine)
    for price in (10, None, 12):
        shop.once(**euros(price))
    assert [row[2:5] for row in read_view(engine, "price_changes")] == [
        (Decimal(12), "EUR", Decimal(10))
    ]


@pytest.mark.parametrize("odd", ["12 EUR", [1, 2], {"a": 1}, True, None])
def test_only_a_number_is_a_price(engine: sa.Engine, odd: object) -> None:
    shop = Shop(engine)
    shop.once(**euros(odd))
    assert read_view(engine, "prices") == read_view(engine, "price_changes") == []


def test_free_things_have_no_percentage(engine: sa.Engine) -> None:
    shop = Shop(engine)
    for price in (0, 5):
        shop.once(**euros(price))
    assert read_view(engine, "price_changes") == [
        ("7", "A lamp", Decimal(5), "EUR", Decimal(0), None)
    ]


def test_a_price_of_another_name_is_found_by_its_currency(engine: sa.Engine) -> None:
    shop = Shop(engine)
    pages = shop.begin(A, B)
    shop.give(pages[A], "1", title="A", cost=3, cost_currency="EUR", weight=9)
    shop.give(pages[B], "2", title="B", price=4, cost=3, cost_currency="EUR")
    shop.end()
    assert [row[:4] for row in read_view(engine, "prices")] == [
        ("1", "A", Decimal(3), "EUR"),
        ("2", "B", Decimal(4), None),
    ]


def test_a_delisted_product_keeps_its_changes_alone(engine: sa.Engine) -> None:
    shop = Shop(engine)
    for price in (10, 8):
        shop.once(**euros(price))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE products SET delisted_at = now()"))
    assert read_view(engine, "prices") == [] and len(read_view(engine, "price_changes")) == 1


def test_a_question_of_one_product_is_merged_into_its_query(engine: sa.Engine) -> None:
    """No function is called for all rows, so an index can be used once there are many."""
    for view in ("prices", "price_changes"):
        with engine.connect() as connection:
            query = f"EXPLAIN SELECT * FROM {view} WHERE site = 'shop' AND id = '7'"
            plan = "\n".join(connection.execute(sa.text(query)).scalars())
        assert "price_change_rows" not in plan and "price_rows" not in plan
        assert "external_id = '7'::text" in plan, plan


def test_a_name_that_is_taken_is_said_and_nothing_is_lost(empty_database: str) -> None:
    engine = make_engine(empty_database)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE prices (mine text)"))
    with pytest.raises(ConfigError, match="'prices' of yours.*rename it"):
        migrations.upgrade(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE prices RENAME TO own_prices"))
    migrations.upgrade(engine)
    assert rows(engine, "SELECT * FROM prices") == rows(engine, "SELECT mine FROM own_prices")
    migrations.downgrade(engine, "base", "prices")
    migrations.upgrade(engine)
    engine.dispose()


def test_the_views_hold_up_no_migration_of_the_core(empty_database: str) -> None:
    """Nothing depends on the core's columns, so that its tables can go while the views are there."""
    engine = make_engine(empty_database)
    migrations.upgrade(engine)
    with engine.begin() as connection:
        for change in ("DROP VIEW product_history", "ALTER TABLE products DROP data"):
            connection.execute(sa.text(change))
    engine.dispose()
