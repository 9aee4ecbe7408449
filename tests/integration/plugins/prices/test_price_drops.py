"""Price drops of a day over all shops: the largest first, by the price of a day ago, and bounded."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from scraper.plugins.prices import drops
from tests.support.judged_crawls import priced
from tests.support.shops.crawled_shop import B, Shop


def fell(engine: sa.Engine) -> list[tuple[str, float, str, str]]:
    with engine.connect() as connection:
        rows = drops.read_drops(connection)["drops"]
    return [(row["id"], row["percent"], row["before"], row["price"]) for row in rows]


def run(engine: sa.Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(statement))


def test_the_price_of_a_day_ago_counts(engine: sa.Engine) -> None:
    assert fell(engine) == []
    shop = Shop(engine)
    priced(shop, "40.00", "20.00", "30.00", "15.00")
    priced(shop, "10.00", "12.00", "9.00", external_id="8", url=B)
    run(engine, "UPDATE products SET delisted_at = NULL")
    assert fell(engine) == [
        ("7", -62.5, "40.00 EUR", "15.00 EUR"),
        ("8", -10.0, "10.00 EUR", "9.00 EUR"),
    ]
    # Only the fall from 20 to 30 to 15 is of the last day.
    run(
        engine,
        "UPDATE product_versions SET valid_to = now() - interval '25 hours' WHERE version = 1",
    )
    assert fell(engine) == [
        ("7", -25.0, "20.00 EUR", "15.00 EUR"),
        ("8", -25.0, "12.00 EUR", "9.00 EUR"),
    ]
    run(engine, "UPDATE products SET delisted_at = now() WHERE external_id = '8'")
    assert [row[0] for row in fell(engine)] == ["7"]
    run(engine, "UPDATE products SET changed_at = now() - interval '25 hours'")
    assert fell(engine) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"price": 20, "price_currency": "EUR"}', '{"price": 10, "price_currency": "USD"}'),
        ('{"price": 0, "price_currency": "EUR"}', '{"price": 0, "price_currency": "EUR"}'),
        ('{"price": 0}', '{"price": -1}'),
        ('{"price": "20"}', '{"price": "10"}'),
        ('{"price": 20}', '{"price": null}'),
        ('{"name": "x"}', '{"price": 10}'),
        ('{"price": 20}', '{"price": 0}'),
        ('{"price": 10}', '{"price": 10}'),
    ],
)
def test_other_changes_do_not_count(engine: sa.Engine, before: str, after: str) -> None:
    priced(Shop(engine), "2.00", "1.00")
    assert len(fell(engine)) == 1
    run(engine, f"UPDATE product_versions SET data = '{before.replace(':', chr(92) + ':')}'")
    run(engine, f"UPDATE products SET data = '{after.replace(':', chr(92) + ':')}'")
    assert fell(engine) == []


def test_the_work_is_bounded(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(engine)
    priced(shop, "2.00", "1.00")
    priced(shop, "4.00", "1.00", external_id="8", url=B)
    with engine.connect() as connection:
        assert drops.read_drops(connection)["complete"]
        monkeypatch.setattr(drops, "COMPARED_MAX", 1)
        answer = drops.read_drops(connection)
    assert len(answer["drops"]) == 1 and not answer["complete"]
