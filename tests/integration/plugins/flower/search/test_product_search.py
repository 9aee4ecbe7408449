"""The search over all shops: by code and word, by PostgreSQL's index alone, whatever is typed or
stored."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.plugins.flower.search import page
from tests.support.making import rows
from tests.support.shops.crawled_shop import Shop

pytestmark = pytest.mark.slow

PRODUCTS: dict[str, dict[str, object]] = {
    "K-1": {"name": "Copper Kettle 1.7 l", "gtin": "4006381333931", "sku": "AB-12/3"},
    "k-2": {"title": "Kettle's lid, T-Shirt Größe XL", "brand": "Hammer & Söhne", "mpn": "X_9"},
    "https://shop.example/3": {"name": "Rock'n'roll \\ pan", "gtin": "04006381333948"},
    "4": {"name": 17, "brand": ["x"], "sku": 4711, "gtin": None},
    "5": {"name": "", "sku": "", "brand": ""},
    "6": {"name": "endless " * 50_000, "sku": "s" * 10_000, "brand": "b" * 10_000},
    "8": {"name": "ﷺ" * 500, "sku": "ﷺ" * 100, "mpn": "́"},
    "7": {"name": "\u202e<b>\U0001f600</b> 'x' & | ! :* (", "sku": "'); DROP TABLE products --"},
}


@pytest.fixture
def filled(engine: sa.Engine) -> sa.Engine:
    shop = Shop(engine)
    for number, (external_id, data) in enumerate(PRODUCTS.items()):
        shop.once(external_id=external_id, url=f"https://shop.example/p/{number}", **data)
    return engine


def find(engine: sa.Engine, text: str) -> list[str]:
    with engine.begin() as connection:
        answer: dict[str, Any] = page.read(connection, {"q": text})
    return [row["id"] for row in answer["products"]]


FINDS: list[tuple[str, list[str]]] = [
    ("4006381333931", ["K-1"]),
    ("04006381333931", ["K-1"]),
    ("4006381333948", ["https://shop.example/3"]),
    ("04006381333948", ["https://shop.example/3"]),
    ("400638133393", ["K-1"]),
    ("ab-12/3", ["K-1"]),
    ("AB-12", ["K-1"]),
    ("k-1", ["K-1"]),
    ("x_9", ["k-2"]),
    ("4711", ["4"]),
    ("17", ["4"]),
    ("kettle", ["K-1", "k-2"]),
    ("COPP kettle", ["K-1"]),
    ("kettle 1.7", ["K-1"]),
    ("(Kettle)", ["K-1", "k-2"]),
    ("t-shirt größe", ["k-2"]),
    ("söhne & hammer", ["k-2"]),
    ("sohne GROSSE", ["k-2"]),
    ("so\u0308hne größ", ["k-2"]),
    ("kéttlè", ["K-1", "k-2"]),
    ("rock'n'roll", ["https://shop.example/3"]),
    ("endless", ["6"]),
    ("s" * 60, ["6"]),
    ("kettle pan", []),
    ("https", []),
    ("", []),
    (" \x00\ud800 :* & | ! ' \\ ", []),
    ("'); DROP TABLE products --", []),
]


def test_what_is_found(filled: sa.Engine) -> None:
    assert [(text, find(filled, text)) for text, _ in FINDS] == FINDS


def test_pages_have_each_product_once(filled: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(filled)
    for number in range(7):
        shop.once(f"t{number}", f"https://shop.example/t/{number}", name="Teapot")
    monkeypatch.setattr(page, "LIMIT", 3)
    seen: list[str] = []
    for number in range(1, 4):
        with filled.begin() as connection:
            answer = page.read(connection, {"q": "teapot", "page": str(number)})
        assert (answer["page"], answer["more"]) == (number, number < 3)
        seen += [row["id"] for row in answer["products"]]
    assert sorted(seen) == [f"t{number}" for number in range(7)]
    monkeypatch.setattr(page, "PAGES_MAX", 2)
    for asked, shown in (("2", 2), ("3", 2), ("9999", 2), ("0", 1), ("-1", 1), ("x", 1), ("", 1)):
        with filled.begin() as connection:
            answer = page.read(connection, {"q": "teapot", "page": asked})
        assert (answer["page"], answer["more"]) == (shown, shown < 2), asked


def test_what_is_typed_never_fails(filled: sa.Engine) -> None:
    rng = random.Random(7)
    signs = "ab4'\"\\:*&|!()<>-_/.@#%$\u202e\u0130ß\x00\ud800 \t\u3000"
    for _ in range(400):
        find(filled, "".join(rng.choices(signs, k=rng.randrange(1, 60))))
    assert rows(filled, "SELECT count(*) FROM products") == [(len(PRODUCTS),)]


def test_the_index_answers_and_the_products_are_bounded(filled: sa.Engine) -> None:
    with filled.begin() as connection:
        connection.execute(
            sa.text("""
            INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash)
            SELECT site_id, 'n' || n, n, crawl_id, url, jsonb_build_object('name', 'Common pot ' || n),
                   gen_random_uuid() FROM products, generate_series(1, 2000) AS n
             WHERE external_id = 'K-1'""")
        )
    with filled.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE products"))
    with filled.begin() as connection:
        answer = page.read(connection, {"q": "common pot"})
        assert len(answer["products"]) == page.LIMIT and answer["more"]
        for word in ("common", "rare", "4006381333931"):
            values = {"codes": f"'{word}':*", "words": word, "most": 51, "after": 0}
            plan = "\n".join(
                connection.execute(sa.text(f"EXPLAIN {page.FIND.text}"), values).scalars()
            )
            assert "products_words_idx" in plan and "Seq Scan on products" not in plan, plan
