"""A crawl says how much of the shop it has found, and is suspect if that is too little."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from scraper.frontier.progress import read_progress
from scraper.quality.report import Report, read_report
from tests.integration.conftest import CrawlSite
from tests.support.making import rows
from tests.support.shops.static_shop import StaticShop

MENU = "".join(f'<a href="/about/{n}">About {n}</a>' for n in range(4))
PRODUCTS = range(1, 41)
PER_PAGE = 10


def _write_list(numbers: range, page: int, of: int) -> str:
    cards = "".join(f'<p class="card"><a href="/p/{n}">Thing {n}</a></p>' for n in numbers)
    last = min(page * PER_PAGE, of)
    text = f"Showing <b>{(page - 1) * PER_PAGE + 1}</b> to <b>{last}</b> of <b>{of}</b> (4 Pages)"
    following = f'<a class="next" href="/all?page={page + 1}">next</a>' if last < of else ""
    return f"<nav>{MENU}</nav><h1>All</h1>{cards}<p>{text}</p>{following}"


@pytest.fixture
def shop() -> Iterator[StaticShop]:
    pages = {
        f"/p/{n}": f'<nav>{MENU}</nav><h1>Thing {n}</h1><b class="price">${n}.00</b>'
        for n in PRODUCTS
    }
    for page in range(1, 5):
        address = "/all" if page == 1 else f"/all?page={page}"
        numbers = range((page - 1) * PER_PAGE + 1, page * PER_PAGE + 1)
        pages[address] = _write_list(numbers, page, len(PRODUCTS))
    with StaticShop(pages) as server:
        yield server


def write_sitemap(shop: StaticShop, numbers: range, lastmod: str = "2026-01-01") -> str:
    """Writes the shop's sitemap, and returns its key for a definition."""
    named = "".join(
        f"<url><loc>{shop.url}/p/{n}</loc><lastmod>{lastmod}</lastmod></url>" for n in numbers
    )
    shop.pages["/map.xml"] = f"<urlset>{named}<url><loc>{shop.url}/about/1</loc></url></urlset>"
    return f"sitemap: {{urls: {shop.url}/map.xml, products: '/p/', follow: false}}"


def define(shop: StaticShop, more: str = "", following: str = ".next") -> str:
    return f"""
name: shop
start: {shop.url}/all
rate: 1000/s
concurrency: 4
allow_private: true
{more}
listing: {{products: ".card a", next: "{following}"}}
product:
  id: {{url: "/p/(\\\\d+)"}}
  fields:
    title: {{css: h1, required: true}}
    price: {{css: .price, type: price, required: true}}
"""


def report_on(engine: sa.Engine, crawl_id: int) -> Report:
    with engine.connect() as connection:
        return read_report(connection, crawl_id)


def test_a_crawl_that_found_all_says_by_which_evidence(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop
) -> None:
    more = write_sitemap(shop, PRODUCTS)
    report = report_on(engine, crawl_site(define(shop, more)))
    coverage = report.coverage
    assert coverage is not None and (coverage.products, coverage.expected) == (40, 40)
    assert "sitemap 40" in coverage.evidence
    assert "1 of 1 lists name as many as they count" in coverage.evidence
    assert not report.suspect and report.note is None
    with engine.connect() as connection:
        (crawl,) = read_progress(connection)
    assert crawl.coverage == coverage
    # The sitemap was read for its number alone, and its other pages were not requested.
    assert "/map.xml" in shop.paths and "/about/1" not in shop.paths
    assert rows(engine, "SELECT count(*) FROM coverage_claims") == [(0,)]


def test_a_product_in_two_sitemaps_counts_once(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop
) -> None:
    more = write_sitemap(shop, PRODUCTS)
    shop.pages["/pictures.xml"] = shop.pages["/map.xml"]
    urls = f"[{shop.url}/map.xml, {shop.url}/pictures.xml]"
    more = more.replace(f"{shop.url}/map.xml", urls)
    report = report_on(engine, crawl_site(define(shop, more)))
    assert report.coverage is not None
    assert (report.coverage.products, report.coverage.expected) == (40, 40)
    assert "sitemap 40" in report.coverage.evidence and "/pictures.xml" in shop.paths


@pytest.mark.parametrize("evidence", ["sitemap", "list"])
def test_a_first_crawl_well_below_the_count_is_suspect(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop, evidence: str
) -> None:
    more = write_sitemap(shop, PRODUCTS) if evidence == "sitemap" else ""
    text = define(shop, more, following=".turn")
    report = report_on(engine, crawl_site(text))
    assert report.coverage is not None
    assert (report.coverage.products, report.coverage.expected) == (10, 40)
    assert report.suspect and [reason["what"] for reason in report.reasons] == ["coverage"]
    assert "found only 10 of 40 products" in report.reasons[0]["text"]
    assert f"1 of 1 lists name fewer than they count: 10 of 40 in {shop.url}/all" in str(
        report.coverage
    )


def test_a_crawl_that_finds_less_of_the_shop_than_usual_is_suspect(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop
) -> None:
    text = define(shop, write_sitemap(shop, PRODUCTS))
    crawl_site(text)
    # The last page no longer names four products, which is too few to be far fewer than before.
    shop.pages["/all?page=4"] = _write_list(range(31, 37), 4, len(PRODUCTS))
    for number in range(37, 41):
        shop.pages.pop(f"/p/{number}")
    report = report_on(engine, crawl_site(text))
    assert report.suspect, report.coverage
    assert "found 36 of 40 products" in report.reasons[0]["text"]
    assert "usually 100%" in report.reasons[0]["text"]


def test_a_sitemap_that_is_only_counted_may_fail(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop
) -> None:
    text = define(shop, write_sitemap(shop, PRODUCTS))
    for body in ("<html>sorry</html>", None):
        if body is None:
            shop.pages.pop("/map.xml")
        else:
            shop.pages["/map.xml"] = body
        report = report_on(engine, crawl_site(text))
        assert report.status == "completed" and not report.suspect
        assert report.coverage is not None and report.coverage.products == 40
        assert "could not be read" not in (report.note or "")


def test_a_challenge_instead_of_a_listing_makes_a_first_crawl_suspect(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop
) -> None:
    whole = shop.pages["/all?page=3"]
    shop.pages["/all?page=3"] = "<title>Just a moment</title><p>Please wait.</p>"
    report = report_on(engine, crawl_site(define(shop)))
    assert report.suspect
    assert "it names no product, and has no link of the shop's pages" in (report.note or "")
    shop.pages["/all?page=3"] = whole
    report = report_on(engine, crawl_site(define(shop)))
    assert report.coverage is not None and report.coverage.products == 40 and not report.suspect


def test_an_empty_category_of_the_shop_is_believed(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop
) -> None:
    shop.pages["/all?page=4"] = f"<nav>{MENU}</nav><h1>All</h1><p>Nothing here yet.</p>"
    shop.pages["/all?page=3"] = shop.pages["/all?page=3"].replace("of <b>40</b>", "of <b>30</b>")
    report = report_on(engine, crawl_site(define(shop)))
    assert report.status == "completed" and report.note is None


def test_lastmod_is_stored_and_measured(
    engine: sa.Engine, crawl_site: CrawlSite, shop: StaticShop
) -> None:
    text = define(shop, write_sitemap(shop, PRODUCTS))
    crawl_site(text)
    moved = write_sitemap(shop, range(1, 11), "2026-02-01")
    assert moved in text
    for number in (*range(1, 6), 20):
        shop.pages[f"/p/{number}"] = shop.pages[f"/p/{number}"].replace(".00", ".50")
    crawl_id = crawl_site(text)
    # Ten moved, five of them changed; the sixth changed product is no longer in the sitemap.
    query = f"SELECT moved, moved_changed, changed FROM crawl_coverage WHERE crawl_id = {crawl_id}"
    assert rows(engine, query) == [(10, 5, 5)]
    assert rows(engine, "SELECT count(*), count(earlier) FROM sitemap_entries") == [(40, 10)]


def test_products_of_an_interface_count_and_have_their_own_url(
    engine: sa.Engine, crawl_site: CrawlSite
) -> None:
    def write(numbers: range) -> str:
        return json.dumps([
            {
                "id": n, "name": f"Thing &amp; {n}", "type": "simple", "is_in_stock": True,
                "permalink": f"{server.url}/product/thing-{n}/",
                "prices": {"price": "500", "currency_minor_unit": 2, "currency_code": "EUR"},
            }
            for n in numbers
        ])  # fmt: skip

    address = "/wp-json/wc/store/v1/products?per_page=100&page=1"
    with StaticShop({}) as server:
        server.pages[address] = write(range(1, 13))
        text = define(server, "platform: woocommerce")
        report = report_on(engine, crawl_site(text))
        assert report.products == 12 and not report.suspect
        assert rows(
            engine, "SELECT DISTINCT data->>'title' = 'Thing & ' || external_id FROM products"
        ) == [(True,)]
        query = "SELECT url FROM products WHERE external_id = '7'"
        assert rows(engine, query) == [(f"{server.url}/product/thing-7/",)]
        server.pages[address] = write(range(1, 11))
        report = report_on(engine, crawl_site(text))
    assert report.products == 10
    assert not any("2 of 2" in reason["text"] for reason in report.reasons)


@pytest.fixture
def two_lists() -> Iterator[StaticShop]:
    """Two lists of the same ten products. A product's address and breadcrumb name its list."""
    pages = {
        "/all": f'<nav>{MENU}</nav><a class="list" href="/l/a">a</a><a class="list" href="/l/b">b</a>'
    }
    for name in "ab":
        cards = "".join(
            f'<p class="card"><a href="/p/{n}?from={name}">Thing {n}</a></p>' for n in range(1, 11)
        )
        pages[f"/l/{name}"] = f"<nav>{MENU}</nav>{cards}<p>Showing 1 to 10 of 10</p>"
        for n in range(1, 11):
            pages[f"/p/{n}?from={name}"] = (
                f'<h1>Thing {n}</h1><b class="price">${n}.00</b><i class="list">{name}</i>'
            )
    with StaticShop(pages) as server:
        yield server


def define_lists(shop: StaticShop, more: str = "one_address: true") -> str:
    text = define(shop, more).replace('next: ".next"', 'listings: ".list"')
    return text + "    category: .list\n"


def read_products(shop: StaticShop) -> list[str]:
    """Returns the paths of products that were asked for, and forgets them."""
    paths = sorted(path for path in shop.paths if path.startswith("/p/"))
    shop.asked.clear()
    return paths


def test_products_are_counted_and_not_their_pages(
    engine: sa.Engine, crawl_site: CrawlSite, two_lists: StaticShop
) -> None:
    more = write_sitemap(two_lists, range(1, 11))
    named = "".join(
        f"<url><loc>{two_lists.url}/p/{n}?from={name}</loc></url>"
        for n in range(1, 11)
        for name in "ab"
    )
    two_lists.pages["/map.xml"] = f"<urlset>{named}</urlset>"
    report = report_on(engine, crawl_site(define_lists(two_lists, more)))
    assert len(read_products(two_lists)) == 20
    assert report.coverage is not None
    assert (report.coverage.products, report.coverage.expected) == (10, 10)
    assert not report.suspect


def test_a_product_of_several_addresses_is_read_at_one_and_the_same(
    engine: sa.Engine, crawl_site: CrawlSite, two_lists: StaticShop
) -> None:
    text = define_lists(two_lists)
    for _ in range(3):
        report = report_on(engine, crawl_site(text))
        assert report.coverage is not None and report.coverage.products == 10
        first = read_products(two_lists)
        assert len(first) == 10
        categories = rows(engine, "SELECT external_id, data->>'category' FROM products")
        assert {f"/p/{key}?from={name}" for key, name in categories} == set(first)
    assert rows(engine, "SELECT count(*) FROM product_versions") == [(0,)]


def test_an_address_that_fails_or_loses_its_links_is_replaced(
    engine: sa.Engine, crawl_site: CrawlSite, two_lists: StaticShop
) -> None:
    text = define_lists(two_lists)
    crawl_site(text)
    known = read_products(two_lists)
    failing, unlinked = known[0], known[1]
    others = {path: path[:-1] + ("b" if path[-1] == "a" else "a") for path in known}
    two_lists.pages.pop(failing)
    two_lists.pages[f"/l/{unlinked[-1]}"] = re.sub(
        rf'<p class="card"><a href="{re.escape(unlinked)}">.*?</p>',
        "",
        two_lists.pages[f"/l/{unlinked[-1]}"],
    ).replace("10 of 10", "9 of 9")
    crawl_site(text)
    assert set(read_products(two_lists)) == set(known)
    crawl_site(text)
    replaced = {*known[2:], others[failing], others[unlinked]}
    assert set(read_products(two_lists)) - {failing} == replaced
    assert rows(engine, "SELECT count(*) FROM products WHERE delisted_at IS NULL") == [(10,)]
