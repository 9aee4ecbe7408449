"""Shops by their platform's interface and by their pages: the pages add the fields that the
interface lacks, and lose no row if they fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.errors import DefinitionError, NotFoundError
from scraper.plugins.freshness.command import describe_plan
from scraper.plugins.freshness.rounds import visit_pages
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.sites.loader import load_text
from tests.support.broker import Broker
from tests.support.making import rows
from tests.support.shops.platform_shops import PlatformShop

Crawl = Callable[..., Any]
PAGES = {"name": "woocommerce", "pages": ["gtin"]}


def definition(shop: PlatformShop, **more: Any) -> Site:
    base = {
        "name": "shop",
        "start": f"{shop.url}/",
        "platform": PAGES,
        "allow_private": True,
        "rate": "unlimited",
        "revisit": "0",
        "limits": {"attempts": 2},
        "listing": {"products": ".card a"},
        "product": {
            "id": {"url": r"/p/(\d+)"},
            "fields": {"title": "h1", "price": {"css": ".price", "type": "price"}},
        },
    }
    return Site.model_validate(base | more)


@pytest.fixture
def shop() -> Iterator[PlatformShop]:
    with PlatformShop("woocommerce", 12, varied=0) as shop:
        yield shop


@pytest.fixture
def crawl(broker: Broker) -> Crawl:
    def run(shop: PlatformShop, **more: Any) -> Any:
        shop.asked.clear()
        return broker.crawl(definition(shop, **more))

    return run


def gtin_of(number: int) -> str:
    code = f"4006381{number:05}"
    check = -sum(int(digit) * (1, 3)[at % 2] for at, digit in enumerate(code)) % 10
    return f"{code}{check}"


def stored(engine: sa.Engine, field: str = "gtin") -> dict[int, Any]:
    """The values of a field by the shop's own number of each product."""
    query = "SELECT data FROM products WHERE delisted_at IS NULL"
    found = [row[0] for row in rows(engine, query)]
    return {int(data["url"].rpartition("/")[2]): data.get(field) for data in found}


def pages_asked(shop: PlatformShop) -> list[str]:
    return sorted(path for path in shop.asked if path.startswith("/p/"))


def change_pages(shop: PlatformShop, change: Callable[[str, int, str], Any]) -> None:
    """Lets `change(path, status, text)` answer instead."""
    answers = shop.answer

    def answer(path: str) -> Any:
        status, headers, text = answers(path)
        status, text = change(path, status, text)
        return status, headers, text

    shop.answer = answer  # type: ignore[method-assign]


def test_pages_add_what_the_interface_lacks_and_are_read_once(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine
) -> None:
    done = crawl(shop)
    assert (done.status, done.suspect, done.note) == ("completed", False, None)
    assert stored(engine) == {number: gtin_of(number) for number in range(1, 13)}
    assert stored(engine, "sku") == {number: f"SKU-{number}-0" for number in range(1, 13)}
    assert len(pages_asked(shop)) == 12
    change_pages(
        shop, lambda path, status, text: (status, text.replace('05", "sale', '15", "sale'))
    )
    for _ in range(2):
        done = crawl(shop)
        assert (done.status, done.suspect, done.reasons, done.note) == (
            "completed", False, None, None,
        )  # fmt: skip
        assert pages_asked(shop) == []
        assert stored(engine) == {number: gtin_of(number) for number in range(1, 13)}
    assert {str(price)[-2:] for price in stored(engine, "price").values()} == {"15"}
    assert {row[0] for row in rows(engine, "SELECT products FROM crawl_quality")} == {12}


def test_half_of_the_pages_fail_and_no_row_is_lost(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine
) -> None:
    broken = True

    def fail(path: str, status: int, text: str) -> tuple[int, str]:
        fails = broken and path.startswith("/p/") and int(path[3:]) % 2
        return (500, "no") if fails else (status, text)

    change_pages(shop, fail)
    done = crawl(shop)
    assert (done.status, done.suspect) == ("completed", False)
    assert stored(engine, "title").keys() == set(range(1, 13))
    assert stored(engine) == {n: None if n % 2 else gtin_of(n) for n in range(1, 13)}
    broken = False
    done = crawl(shop)
    assert pages_asked(shop) == sorted(f"/p/{n}" for n in range(1, 13, 2))
    assert stored(engine) == {number: gtin_of(number) for number in range(1, 13)}


def test_all_pages_fail(shop: PlatformShop, crawl: Crawl, engine: sa.Engine) -> None:
    change_pages(shop, lambda path, status, text: (404 if path.startswith("/p/") else status, text))
    for _ in range(3):
        done = crawl(shop)
        assert (done.status, done.suspect) == ("completed", False)
        assert stored(engine) == dict.fromkeys(range(1, 13))


RELATED = {"@type": "Product", "name": "Cup & saucer 1", "gtin13": gtin_of(1), "sku": "SKU-1-0"}


@pytest.mark.parametrize("fields", ["auto", {"title": "h1", "gtin": {"jsonld": "gtin13"}}])
def test_the_gtin_of_a_related_product_is_not_taken(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine, fields: Any
) -> None:
    """Product 3 has none; its page describes product 1, and shows its number."""
    block = f'<script type="application/ld+json">{json.dumps(RELATED)}</script>'
    shown = f"<div class=related>Cup &amp; saucer 1, EAN: {gtin_of(1)}</div>"

    def relate(path: str, status: int, text: str) -> tuple[int, str]:
        if path == "/p/3":
            text = text.replace("gtin13", "color")
            if fields != "auto":
                head, _, rest = text.partition("<script")
                text = head + rest.partition("</script>")[2]
        if path.startswith("/p/"):
            text = text.replace("</body>", f"{block}{shown}</body>")
        return status, text

    change_pages(shop, relate)
    crawl(shop, product={"id": {"url": r"/p/(\d+)"}, "fields": fields})
    assert stored(engine) == {n: None if n == 3 else gtin_of(n) for n in range(1, 13)}
    crawl(shop, product={"id": {"url": r"/p/(\d+)"}, "fields": fields})
    assert pages_asked(shop) == [], "a page that has none is not asked each time"


def test_a_page_without_a_price_has_its_number_all_the_same(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine
) -> None:
    change_pages(shop, lambda path, status, text: (status, text.replace('class="price"', "")))
    fields = {"title": "h1", "price": {"css": ".price", "type": "price", "required": True}}
    done = crawl(shop, product={"id": {"url": r"/p/(\d+)"}, "fields": fields})
    assert (done.status, done.suspect, done.note) == ("completed", False, None)
    assert stored(engine) == {number: gtin_of(number) for number in range(1, 13)}


@pytest.mark.parametrize("crawls", [1, 3])
def test_a_product_of_a_later_crawl_is_published_with_its_number(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine, crawls: int
) -> None:
    for _ in range(crawls):
        crawl(shop)
    shop.products = 15
    del shop._kept
    done = crawl(shop)
    assert (done.status, done.reasons) == ("completed", None)
    assert pages_asked(shop) == ["/p/13", "/p/14", "/p/15"]
    assert stored(engine) == {number: gtin_of(number) for number in range(1, 16)}
    query = (
        "SELECT c.event, p.data ->> 'gtin' FROM changes c JOIN products p ON p.id = c.product_id "
        f"WHERE c.crawl_id = {done.id}"
    )
    published = rows(engine, query)
    assert sorted(map(tuple, published)) == [("new", gtin_of(number)) for number in (13, 14, 15)]


def test_a_field_that_is_asked_for_later_is_read_from_known_pages(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine
) -> None:
    crawl(shop, revisit="30d", platform="woocommerce")
    assert pages_asked(shop) == []
    crawl(shop, revisit="30d")
    assert len(pages_asked(shop)) == 12
    wanted = {"name": "woocommerce", "pages": ["gtin", "brand"]}
    crawl(shop, revisit="30d", platform=wanted)
    assert len(pages_asked(shop)) == 12
    assert set(stored(engine, "brand").values()) == {"Cup & saucer AG"}
    assert stored(engine) == {number: gtin_of(number) for number in range(1, 13)}


def test_a_crawl_that_requests_the_interface_again_keeps_numbers_and_count(
    crawl: Crawl, engine: sa.Engine
) -> None:
    with PlatformShop("woocommerce", 120, varied=0) as shop:
        crawl(shop, platform="woocommerce")
        change_pages(
            shop, lambda path, status, text: (status, text.replace('05", "sale', '75", "sale'))
        )
        done = crawl(shop)
        assert done.suspect, "all prices have changed"
        assert len(shop.interface) > 2, "the interface was requested again"
        assert stored(engine) == {number: gtin_of(number) for number in range(1, 121)}
        assert {row[0] for row in rows(engine, "SELECT products FROM crawl_quality")} == {120}


def test_variants_do_not_share_the_code_of_their_page(crawl: Crawl, engine: sa.Engine) -> None:
    with PlatformShop("woocommerce", 12) as shop:
        crawl(shop, platform={"name": "woocommerce", "pages": ["gtin", "brand"]})
        query = "SELECT data ->> 'variant', data ->> 'gtin', data ->> 'brand' FROM products"
        found = rows(engine, query)
        assert len(found) == 20
        for variant, gtin, brand in found:
            assert (variant is None) == (gtin is not None)
            assert brand == "Cup & saucer AG"


@pytest.mark.parametrize("closed", [404, 500])
def test_a_closed_interface_still_leads_back_to_the_pages(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine, closed: int
) -> None:
    shop.closed = closed
    done = crawl(shop)
    assert "pages are read instead" in done.note
    query = "SELECT external_id FROM products WHERE data ->> 'title' LIKE 'Cup%'"
    assert {row[0] for row in rows(engine, query)} == {str(number) for number in range(1, 13)}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{name: woocommerce, pages: [colour]}", "platform.pages: no source gives colour (fix: "),
        ("{name: woocommerce, pages: [gtin, price]}", "platform.pages: price changes, and"),
        ("{name: woocommerce, page: [gtin]}", "platform.page: "),
        ("{name: prestashop, pages: [gtin]}", "platform.name: "),
        ("prestashop", "platform: "),
    ],
)
def test_a_wrong_key_names_its_place_and_a_fix(written: str, said: str, tmp_path: Path) -> None:
    text = (
        "name: shop\nstart: https://shop.example/\nlisting: {products: a}\n"
        f"platform: {written}\nproduct: {{fields: {{title: h1}}}}\n"
    )
    with pytest.raises(DefinitionError) as raised:
        load_text(text, tmp_path / "shop.yaml")
    (problem,) = str(raised.value).splitlines()[-1:]
    assert problem.startswith(f"{tmp_path / 'shop.yaml'}:4: {said}"), problem
    assert "(fix: " in problem


def test_a_budget_spends_nothing_on_pages_that_are_read_once(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine
) -> None:
    crawl(shop, budget="864000000/d")
    assert len(pages_asked(shop)) == 12
    visit_pages(engine, Settings())
    assert rows(engine, "SELECT trigger, product_total FROM crawls") == [("manual", 12)]
    assert rows(engine, "SELECT count(*) FROM page_visits") == [(0,)]
    with engine.connect() as connection, pytest.raises(NotFoundError, match="by `schedule`"):
        describe_plan(connection, "shop")
    change_pages(shop, lambda path, status, text: (status, text.replace("29.9", "19.9")))
    crawl(shop, budget="864000000/d")
    assert pages_asked(shop) == []
