"""Shops by their platform's interface: every variant with every field right, in few requests; and by
their pages where it is closed or stops."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, get_args

import pytest
import sqlalchemy as sa

from scraper.domain import Fetched, Kind
from scraper.extract import compile_site
from scraper.plugins.platforms.adapters import ADAPTERS
from scraper.plugins.platforms.keys import PlatformName
from scraper.sites.definition import Site
from tests.support.broker import Broker
from tests.support.machine import everyday
from tests.support.making import rows
from tests.support.shops.platform_shops import NO_JSON, PlatformShop

pytestmark = pytest.mark.slow

Crawl = Callable[..., Any]


def definition(shop: PlatformShop, **more: Any) -> Site:
    base = {
        "name": "shop",
        "start": f"{shop.url}/",
        "platform": shop.name,
        "allow_private": True,
        "rate": "unlimited",
        "revisit": "0",
        "listing": {"products": ".card a"},
        "product": {
            "id": {"url": r"/p/(\d+)"},
            "fields": {"title": "h1", "price": {"css": ".price", "type": "price"}},
        },
    }
    return Site.model_validate(base | more)


@pytest.fixture(params=ADAPTERS)
def shop(request: pytest.FixtureRequest) -> Iterator[PlatformShop]:
    with PlatformShop(request.param) as shop:
        yield shop


@pytest.fixture
def crawl(broker: Broker) -> Crawl:
    def run(shop: PlatformShop, **more: Any) -> Any:
        shop.asked.clear()
        return broker.crawl(definition(shop, **more))

    return run


def stored(engine: sa.Engine) -> dict[str, Any]:
    return dict(rows(engine, "SELECT external_id, data FROM products WHERE delisted_at IS NULL"))  # type: ignore[arg-type]


def check(found: dict[str, dict[str, Any]], shop: PlatformShop) -> None:
    truth = shop.truth
    assert found.keys() == truth.keys()
    numbers = ("price", "list_price")
    for key, row in truth.items():
        data = {
            name: Decimal(str(value)) if name in numbers else value
            for name, value in found[key].items()
            if name not in ("url", "product_id")
        }
        expected = {
            name: Decimal(value) if name in numbers else value for name, value in row.items()
        }
        assert data == expected
        assert found[key]["url"].startswith(shop.url)


def test_each_platform_has_an_adapter() -> None:
    assert set(get_args(PlatformName)) == ADAPTERS.keys()


@pytest.mark.parametrize("name", everyday(ADAPTERS, "shopify"))
def test_ten_thousand_products_in_a_hundred_requests(name: str) -> None:
    with PlatformShop(name, 10_000) as shop:
        found, requests = by_hand(shop)
        check(found, shop)
        variants = 100 if name == "woocommerce" else 0
        assert requests <= 100 + variants


def test_woocommerce_is_asked_for_variations_only_where_it_has_some() -> None:
    with PlatformShop("woocommerce", 10_000, varied=0) as shop:
        found, requests = by_hand(shop)
        check(found, shop)
        assert requests == 100


def by_hand(shop: PlatformShop) -> tuple[dict[str, Any], int]:
    """What the interface gives, as a crawl without fetcher and database."""
    extractor = compile_site(definition(shop))
    due, found, requests = [shop.url + ADAPTERS[shop.name].first], {}, 0
    seen = set(due)
    while due:
        url = due.pop()
        status, headers, body = shop.answer(url.removeprefix(shop.url))
        requests += 1
        page = Fetched(
            url, status, {key.lower(): value for key, value in headers.items()}, body.encode()
        )
        extracted = extractor.extract(Kind.LISTING, page, page_url=url, depth=1)
        assert extracted.complete, extracted.problems
        due += [link.url for link in extracted.links if link.url not in seen]
        seen.update(due)
        found |= {product.external_id: dict(product.data) for product in extracted.products}
    return found, requests


def test_a_crawl_stores_every_variant_and_reads_no_page(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine
) -> None:
    shop.slow_down = 1
    done = crawl(shop)
    assert (done.status, done.note) == ("completed", None)
    check(stored(engine), shop)
    assert not [path for path in shop.asked if path == "/" or path.startswith("/p/")]
    shop.products = 9
    for _ in range(2):
        assert crawl(shop, quality="none").note is None
    assert len(stored(engine)) == len(shop.truth), "what is listed no more is delisted"


@pytest.mark.parametrize(
    "closed", everyday((401, 403, 404, NO_JSON, '{"products": [', "[]"), 403, '{"products": [')
)
def test_a_closed_interface_leads_back_to_the_pages(
    shop: PlatformShop, crawl: Crawl, engine: sa.Engine, closed: int | str
) -> None:
    shop.closed = closed
    began = time.monotonic()
    done = crawl(shop)
    assert (done.status, done.suspect, done.reasons) == ("completed", False, None)
    assert "pages are read instead" in done.note
    assert stored(engine).keys() == {str(n) for n in range(1, 13)}
    assert len(shop.interface) <= 4
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("closed", [500, 404, NO_JSON])
def test_an_interface_that_stops_half_way_loses_nothing(
    crawl: Crawl, engine: sa.Engine, closed: int | str
) -> None:
    with PlatformShop("magento", 205) as shop:
        crawl(shop)
        before = stored(engine)
        shop.closed, shop.closed_from = closed, 3
        for _ in range(2):
            done = crawl(shop)
            assert "pages are read instead" in done.note
        after = stored(engine)
        assert before.keys() <= after.keys()
        assert {str(n) for n in range(1, 13)} <= after.keys()


def test_an_interface_that_stops_has_given_products_if_no_page_is_good(
    crawl: Crawl, engine: sa.Engine
) -> None:
    with PlatformShop("magento", 205) as shop:
        crawl(shop)
        answers = shop.answer
        shop.answer = lambda path: (  # type: ignore[method-assign]
            (404, {}, "gone") if path.startswith("/p/") else answers(path)
        )
        shop.closed, shop.closed_from = 404, 3
        done = crawl(shop)
        assert "pages are read instead" in done.note
        assert "not one" not in done.note
        assert done.status == "completed"
        assert rows(engine, "SELECT products FROM crawl_quality ORDER BY crawl_id") == [
            (341,),
            (332,),
        ]


def test_a_product_that_moves_to_another_page_is_still_written(
    crawl: Crawl, engine: sa.Engine
) -> None:
    with PlatformShop("magento", 205) as shop:
        crawl(shop, quality="none")
        answers = shop.answer

        def swapped(path: str) -> Any:
            """The first two pages in each other's place, and everything a cent cheaper."""
            status, headers, text = answers(path)
            return status, headers, text.replace('.05, "currency"', '.04, "currency"')

        def answer(path: str) -> Any:
            for here, there in (("1", "2"), ("2", "1")):
                mark = f"currentPage%3A{here}%29"
                if mark in path:
                    status, headers, text = swapped(path.replace(mark, f"currentPage%3A{there}%29"))
                    return (
                        status,
                        headers,
                        text.replace(f'"current_page": {there}', f'"current_page": {here}'),
                    )
            return swapped(path)

        shop.answer = answer  # type: ignore[method-assign]
        done = crawl(shop, quality="none")
        assert done.note is None
        found = stored(engine)
        assert found.keys() == shop.truth.keys()
        assert {Decimal(str(row["price"])) % 1 for row in found.values()} == {Decimal("0.04")}


def test_a_shop_that_does_not_say_its_currency_is_read_without(
    crawl: Crawl, engine: sa.Engine
) -> None:
    with PlatformShop("shopify") as shop:
        shop.says_currency = False
        done = crawl(shop)
        assert (done.status, done.note) == ("completed", None)
        found = stored(engine)
        assert found.keys() == shop.truth.keys()
        assert {row.get("price_currency") for row in found.values()} == {None}


@pytest.mark.parametrize("closed", [401, 403, 404])
def test_a_first_crawl_of_the_pages_is_not_suspect_for_what_they_never_have(
    crawl: Crawl, engine: sa.Engine, closed: int
) -> None:
    """`auto` reads what a shop has: these pages have no picture, rating or availability."""
    with PlatformShop("woocommerce") as shop:
        shop.closed = closed
        product = {"id": {"url": r"/p/(\d+)"}, "fields": "auto"}
        for _ in range(2):
            done = crawl(shop, product=product)
            assert (done.status, done.suspect, done.reasons) == ("completed", False, None)
        assert stored(engine)["7"]["title"] == "Cup & saucer 7"


ESCAPED = "Cr&egrave;me &#8211; &#x201E;br&#251;l&eacute;e&#8220; &amp; &quot;tart&quot; 1&#215;2"
READ = 'Crème – „brûlée“ & "tart" 1×2'
AUTO = "auto"
BY_PATH = {
    "title": {"jsonld": "name"},
    "brand": {"jsonld": "brand.name"},
    "category": {"jsonld": "category"},
}


@pytest.mark.parametrize(
    "fields", [AUTO, BY_PATH, BY_PATH | {"title": {"meta": "og:title"}}, BY_PATH | {"title": "h1"}]
)
def test_what_pages_escape_is_stored_as_people_read_it(
    crawl: Crawl, engine: sa.Engine, fields: Any
) -> None:
    with PlatformShop("woocommerce") as shop:
        shop.closed, shop.escaped = 404, ESCAPED
        crawl(shop, product={"id": {"url": r"/p/(\d+)"}, "fields": fields})
        row = stored(engine)["7"]
        read = (row["title"], row["brand"], row["category"])
        assert read == (f"{READ} 7", f"{READ} AG", READ)


@pytest.mark.parametrize("escaped", [ESCAPED, ESCAPED.replace("&", "&amp;")])
def test_what_an_interface_escapes_is_stored_as_people_read_it(
    crawl: Crawl, engine: sa.Engine, escaped: str
) -> None:
    with PlatformShop("woocommerce", varied=0) as shop:
        answers = shop.answer

        def answer(path: str) -> Any:
            status, headers, text = answers(path)
            if path in shop.interface:
                products = json.loads(text)
                for product in products:
                    product["brands"] = product["categories"] = [{"name": escaped}]
                text = json.dumps(products)
            return status, headers, text

        shop.answer = answer  # type: ignore[method-assign]
        shop.escaped = escaped
        crawl(shop)
        row = stored(engine)["70"]
        assert (row["title"], row["brand"], row["category"]) == (f"{READ} 7", READ, READ)


def test_shares_are_of_products_and_changes_name_their_pages(
    crawl: Crawl, engine: sa.Engine
) -> None:
    with PlatformShop("woocommerce", 240, varied=0) as shop:
        crawl(shop, quality={"doubt": "wait"})
        answers = shop.answer
        shop.answer = lambda path: (
            *answers(path)[:2],
            answers(path)[2].replace('05", "sale', '0500", "sale'),
        )  # type: ignore[method-assign]
        done = crawl(shop, quality={"doubt": "wait"})
        assert done.suspect
        assert [reason["text"] for reason in done.reasons] == [
            "240 of 240 products got values that are not believed"
        ]
        assert {row[0] for row in rows(engine, "SELECT products FROM crawl_quality")} == {240}
        query = "SELECT p.url FROM changes c JOIN products p ON p.id = c.product_id"
        urls = {row[0] for row in rows(engine, query)}
        assert urls == {f"{shop.url}/p/{number}" for number in range(1, 241)}
