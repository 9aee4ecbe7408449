"""The product upsert on a real PostgreSQL: one row a product, a version a real change, good data
never lost."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.domain import CrawlStatus, Status, Verdict
from scraper.frontier import crawls, leases
from scraper.results import products
from scraper.views import provenance
from tests.support.making import (
    GONE,
    a_site,
    add,
    at_once,
    claimed,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    with_product,
)
from tests.support.shops.crawled_shop import A, B, Shop


@pytest.fixture
def shop(engine: sa.Engine) -> Shop:
    return Shop(engine)


def test_the_same_content_writes_no_version(shop: Shop) -> None:
    for _ in range(3):
        shop.once(title="A", price=Decimal("9.90"))
    assert rows(shop.engine, "SELECT version, data ->> 'price' FROM products") == [(1, "9.90")]
    assert rows(shop.engine, "SELECT FROM product_versions") == []
    counted = rows(
        shop.engine, "SELECT products_new, products_changed, ok, unchanged FROM crawls ORDER BY id"
    )
    assert counted == [(1, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 1)]


def test_a_change_keeps_what_was_there(shop: Shop) -> None:
    for price in ("10.00", "12.00", "12.00", "11.00"):
        shop.once(price=Decimal(price))
    history = rows(
        shop.engine,
        "SELECT version, data ->> 'price', valid_to IS NULL FROM product_history ORDER BY 1",
    )
    assert history == [(1, "10.00", False), (2, "12.00", False), (3, "11.00", True)]
    gaps = rows(
        shop.engine,
        "SELECT valid_to - lead(valid_from) OVER (ORDER BY version) FROM product_history",
    )
    assert {gap.total_seconds() for (gap,) in gaps if gap is not None} == {0.0}  # type: ignore[attr-defined]


def test_the_order_of_fields_is_not_a_change(shop: Shop) -> None:
    shop.once(title="A", stock=3)
    shop.once(stock=3, title="A")
    assert rows(shop.engine, "SELECT version FROM products") == [(1,)]


def test_two_pages_of_one_product_do_not_fight(shop: Shop) -> None:
    """Whichever is stored first owns the product; the order in later crawls does not matter."""
    for order in ((A, B), (B, A), (B, A)):
        pages = shop.begin(A, B)
        for url in order:
            shop.give(pages[url], "7", seen_at=url)
        shop.end()
    assert rows(shop.engine, "SELECT data ->> 'seen_at', version FROM products") == [(A, 1)]


def test_two_pages_of_one_product_in_one_group(shop: Shop) -> None:
    pages = shop.begin(A, B)
    group = [
        with_product(settled(pages[u][0], shop.crawl, pages[u][1]), shop.crawl, "7", {"at": u})
        for u in (A, B)
    ]
    store(shop.engine, shop.crawl, group)
    first = min(pages, key=lambda url: pages[url][0])
    assert rows(shop.engine, "SELECT data ->> 'at' FROM products") == [(first,)]
    assert rows(shop.engine, "SELECT products_new, ok FROM crawls") == [(1, 2)]


def test_a_product_that_moved_is_taken_over(shop: Shop) -> None:
    shop.once(title="old address")
    # Its own page might have come yet, so what the other one says is read by the next crawl.
    shop.once(url=B, title="new address")
    assert rows(shop.engine, "SELECT data ->> 'title', missed_crawls FROM products") == [
        ("old address", 0)
    ]
    owner = "SELECT pages.url FROM pages JOIN products ON products.page_id = pages.id"
    assert rows(shop.engine, owner) == [(B,)]
    assert rows(shop.engine, "SELECT FROM changes WHERE event <> 'new'") == []
    shop.once(url=B, title="new address")
    assert rows(shop.engine, "SELECT data ->> 'title', missed_crawls FROM products") == [
        ("new address", 0)
    ]


def test_a_product_whose_page_is_gone_is_taken_over_at_once(shop: Shop) -> None:
    shop.once(title="old address")
    pages = shop.begin(A, B)
    store(shop.engine, shop.crawl, [settled(pages[A][0], shop.crawl, pages[A][1], GONE)])
    shop.give(pages[B], "7", title="new address")
    shop.end()
    assert rows(shop.engine, "SELECT data ->> 'title', version FROM products") == [
        ("new address", 2)
    ]


@pytest.mark.parametrize("gone", [False, True])
def test_the_page_of_another_product_does_not_take_over_a_missed_one(
    shop: Shop, gone: bool
) -> None:
    """A shop that shows one id everywhere shows that of a product that it no longer sells, too."""
    shop.once(title="A")
    shop.once(external_id="8", url=B, title="B")
    pages = shop.begin(A, B) if gone else shop.begin(B)
    if gone:
        store(shop.engine, shop.crawl, [settled(pages[A][0], shop.crawl, pages[A][1], GONE)])
    shop.give(pages[B], "7", title="B")
    shop.end()
    assert rows(shop.engine, "SELECT external_id, data ->> 'title' FROM products ORDER BY 1") == [
        ("7", "A"),
        ("8", "B"),
    ]
    for _ in range(4):
        shop.once(url=B, title="B")
    products_now = "SELECT external_id, data ->> 'title' FROM products WHERE delisted_at IS NULL"
    assert rows(shop.engine, products_now) == [("7", "B")], "the shop means it"


def test_delisted_after_two_complete_crawls_and_back_again(shop: Shop) -> None:
    shop.once(title="A")
    seen = []
    for _ in range(2):
        shop.once(external_id="8", url=B, title="B")
        seen += rows(
            shop.engine,
            "SELECT missed_crawls, delisted_at IS NOT NULL FROM products WHERE external_id = '7'",
        )
    assert seen == [(1, False), (2, True)]
    assert rows(shop.engine, "SELECT products_delisted FROM crawls ORDER BY id") == [
        (0,),
        (0,),
        (1,),
    ]
    shop.once(title="A")
    found = rows(
        shop.engine, "SELECT missed_crawls, delisted_at FROM products WHERE external_id = '7'"
    )
    assert found == [(0, None)]


def test_a_crawl_that_missed_a_listing_delists_nothing(shop: Shop) -> None:
    from scraper.domain import Kind

    shop.once(title="A")
    for _ in range(3):
        shop.crawl = open_crawl(shop.engine, shop.site)
        add(shop.engine, [new_page(shop.crawl, "https://shop.example/", Kind.LISTING)])
        (batch,) = lease_all(shop.engine, "shop.example")
        (page,) = claimed(shop.engine, batch).pages  # type: ignore[union-attr]
        dead = settled(page.id, shop.crawl, batch.id, Verdict(Status.DEAD, 0.0, True))
        store(shop.engine, shop.crawl, [dead])
        shop.end()
    assert rows(shop.engine, "SELECT missed_crawls, delisted_at FROM products") == [(0, None)]
    assert rows(shop.engine, "SELECT DISTINCT status FROM crawls WHERE id > 1") == [
        (CrawlStatus.FAILED,)
    ]


def test_a_failed_page_overwrites_nothing(shop: Shop) -> None:
    """Invariant 7."""
    shop.once(title="good")
    for status in (Status.INVALID, Status.DEAD, Status.GONE):
        pages = shop.begin(A)
        store(
            shop.engine,
            shop.crawl,
            [settled(*_fence(shop, pages[A]), Verdict(status, 0.0, True))],
        )
        shop.end()
    assert rows(shop.engine, "SELECT data ->> 'title', version FROM products") == [("good", 1)]


def _fence(shop: Shop, page: tuple[int, UUID]) -> tuple[int, tuple[int, int], UUID]:
    return page[0], shop.crawl, page[1]


def test_two_writers_meet_on_the_same_products(shop: Shop) -> None:
    """Opposite orders on two connections: neither a deadlock's error nor a lost product."""
    urls = [f"https://shop.example/p/{n}" for n in range(60)]
    pages = shop.begin(*urls)
    groups = [
        [
            with_product(settled(*_fence(shop, pages[url])), shop.crawl, str(i % 30), {"n": i % 30})
            for i, url in part
        ]
        for part in (list(enumerate(urls))[:30], list(enumerate(urls))[:29:-1])
    ]
    at_once([lambda group=group: store(shop.engine, shop.crawl, group) for group in groups])  # type: ignore[misc]
    assert rows(shop.engine, "SELECT count(*), count(DISTINCT external_id) FROM products") == [
        (30, 30)
    ]
    assert rows(shop.engine, "SELECT ok, products_new FROM crawls") == [(60, 30)]


def test_finishing_happens_once(shop: Shop) -> None:
    page = shop.begin(A)[A]
    with shop.engine.begin() as connection:
        assert crawls.lock_drained(connection, shop.crawl[1]) is None
    shop.give(page, "7", title="A")
    at_once([shop.end] * 3)
    assert rows(shop.engine, "SELECT status, finished_at IS NOT NULL FROM crawls") == [
        ("completed", True)
    ]
    with shop.engine.begin() as connection:
        assert leases.reclaim_expired(connection) == []


def test_exact_numbers_and_odd_text_survive(shop: Shop) -> None:
    shop.once(
        price=Decimal("12345678901234567890.120"),
        title='"quoted" \\ ünï ☃ 😀\u2028',
        tags=["a", "b"],
    )
    with shop.engine.connect() as connection:
        (row,) = products.export_products(connection, "shop", delisted=False)
    assert '"price": 12345678901234567890.120' in row.data
    stored = rows(shop.engine, "SELECT data ->> 'title' FROM products")
    assert stored == [('"quoted" \\ ünï ☃ 😀\u2028',)]


def test_the_last_crawl_that_reached_a_product_is_known(engine: sa.Engine) -> None:
    shop = Shop(engine)
    shop.once("7", title="Pot")
    crawl = rows(engine, "SELECT max(id) FROM crawls")[0][0]
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET status = 'completed', finished_at = now()"))
    later = open_crawl(engine, a_site())[1]
    for outcome, said in (("fresh", "listed it, not due"), ("not_modified", "found it unchanged")):
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "UPDATE pages SET crawl_id = :id, status = 'unchanged', last_outcome = :outcome"
                ),
                {"id": later, "outcome": outcome},
            )
            seen = provenance.crawls_of(connection, "shop", "7")
        assert [(row.crawl, row.what) for row in seen] == [
            (later, said),
            (crawl, "brought it, read it last"),
        ]
        assert all(row.at is not None for row in seen)
