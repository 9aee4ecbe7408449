"""Conditions on products, which also choose what is deleted: each meets what its reader expects."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from scraper.errors import ConfigError
from scraper.views import products
from tests.support.making import rows
from tests.support.shops.crawled_shop import Shop

MEETING: dict[str, list[str]] = {
    "sku=12345": ["2", "100"],
    "sku=12345.0": ["100"],
    "sku!=12345": ["30", "x"],
    "sku!=9": ["2", "30", "100"],
    "sku<=12345": ["100"],
    "sku~123": ["2", "100"],
    "id=2": ["2"],
    "id=02": [],
    "id!=2": ["30", "100", "x"],
    "id>=30": ["30", "100"],
    "id<30": ["2"],
    "changed_at>2026-11-01": ["x"],
    "changed_at<=2026-11-01T00:30+01:00": ["2", "30", "100"],
    "changed_at~2030-05": ["x"],
    "delisted_at>2026-11-01T12:00": ["30"],
    "_url=a": ["2"],
    "_url!=a": ["30", "100", "x"],
    "_url~B": ["100"],
}


@pytest.fixture
def shop(engine: sa.Engine) -> Shop:
    """Four products; an SKU is a text, a number, another text, and missing."""
    shop = Shop(engine)
    skus: dict[str, dict[str, object]] = {
        "2": {"sku": "12345", "url": "a"},
        "100": {"sku": 12345, "url": "b"},
        "x": {"sku": "9"},
        "30": {},
    }
    pages = shop.begin(*(f"https://shop.example/p/{name}" for name in skus))
    for (name, data), page in zip(skus.items(), pages.values(), strict=True):
        shop.give(page, name, title=name, **data)
    shop.end()
    return shop


def test_a_condition_meets_numbers_in_texts_ids_and_times(engine: sa.Engine, shop: Shop) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE products SET changed_at = CASE external_id WHEN 'x' THEN '2030-05-01Z'"
                " ELSE '2026-10-31 23:30Z' END::timestamptz, delisted_at = CASE external_id"
                " WHEN '30' THEN '2026-11-01 12:01Z'::timestamptz END"
            )
        )
    stored = rows(engine, "SELECT id, external_id FROM products")
    with engine.connect() as connection:
        for text, ids in MEETING.items():
            where = [products.parse_condition(text)]
            read = products.read(connection, "shop", where=where, delisted=True)
            assert [row.external_id for row in read] == ids, text
            chosen = products.row_ids(connection, "shop", where)
            assert {name for key, name in stored if key in chosen} == set(ids), text
        read = products.read(connection, "shop", sort="-_url", delisted=True)
        assert [row.external_id for row in read] == ["100", "2", "30", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price", "is not a condition"),
        ("price<x", "does not compare with a number"),
        ("id>x", "does not compare with a number"),
        ("url<5", "compares an address"),
        ("changed_at>5", "does not compare with a time"),
        ("changed_at!=2026-11-01", "compares a time"),
    ],
)
def test_a_condition_that_says_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        products.parse_condition(text)


def test_a_field_that_the_site_does_not_have_chooses_nothing(engine: sa.Engine, shop: Shop) -> None:
    with engine.connect() as connection, pytest.raises(ConfigError, match="no field 'skv'"):
        products.row_ids(connection, "shop", [products.parse_condition("skv!=9")])
