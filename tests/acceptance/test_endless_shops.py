"""Shops whose listings go on for ever, crawled by real workers: they end soon, and the catalogue
next to them is whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.support.making import rows
from tests.support.shops.odd_shop import Answer, OddShop, listing

PAGES, PER_PAGE = 12, 5
PRIVATE = 200


def link(href: str, sort: str = "c") -> str:
    return f'<a class="{sort}" href="{href}">on</a>'


def page_of(target: str) -> bytes | Answer | None:
    """A catalogue, and next to it: session ids, a calendar, a page that is the same under any number,
    and links that robots.txt disallows."""
    parts = urlsplit(target)
    number = int(parse_qs(parts.query).get("page", ["0"])[0])
    match parts.path:
        case "/robots.txt":
            return Answer(
                b"User-agent: *\nDisallow: /private\nDisallow: /*?visit=\n",
                headers=("Content-Type: text/plain",),
            )
        case "/list":
            traps = [f"/trap/?page=1&sid={uuid4()}", "/calendar?page=0", "/same?page=1"]
            traps += [f"/private/{number}/{n}" for n in range(PRIVATE)]
            on = link(f"/list?page={number + 1}", "next") if number < PAGES - 1 else ""
            hrefs = [f"/p/{number * PER_PAGE + n}" for n in range(PER_PAGE)]
            return listing(hrefs, "".join(map(link, traps)) + on)
        case "/trap/":
            on = [f"/trap/?page={number + 1}&sid={uuid4()}" for _ in range(1)]
            return listing([], f"<p>Page {number}</p>" + "".join(map(link, on)))
        case "/calendar":
            months = [f"/calendar?page={number + step}" for step in (-1, 1)]
            return listing([], f"<h2>Month {number}</h2>" + "".join(map(link, months)))
        case "/same":
            return listing(["/p/1", "/p/2"], link(f"/same?page={number + 1}"))
        case "/again":
            hrefs = [f"/p/{n}?again={uuid4()}" for n in range(20)]
            return listing(hrefs, link(f"/again?page={number + 1}"))
        case "/visits" | "/lost":
            # The same products under new addresses, which are disallowed or answer 404.
            base, query = ("/p", "visit=") if parts.path == "/visits" else ("/old", "")
            hrefs = [f"{base}/{n}?{query}{uuid4()}" for n in range(20)]
            return listing(hrefs, link(f"{parts.path}?page={number + 1}"))
        case path if path.startswith("/p/"):
            return f"<html><body><h1>Product {path[3:]}</h1></body></html>".encode()
    return None


@pytest.fixture
def shop(environment: Settings) -> Iterator[OddShop]:
    with OddShop() as shop:
        shop.otherwise = page_of
        definition = {
            "start": shop.url("/list?page=0"), "allow_private": True, "rate": "unlimited",
            "listing": {"products": "a.p", "listings": "a.c", "next": "a.next"},
            "product": {"id": {"url": r"/p/(\d+)"}, "fields": {"title": {"css": "h1", "required": True}}},
        }  # fmt: skip
        (environment.sites_dir / "endless.yaml").write_text(json.dumps(definition))
        yield shop


def start_at(run: Commands, environment: Settings, *urls: str) -> None:
    """Lets the definition start there, and starts the workers."""
    path = environment.sites_dir / "endless.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"start": urls}))
    run.coordinator()
    run.until_ready(run.worker("datacenter"))


def test_traps_end_and_the_catalogue_is_whole(
    run: Commands, engine: sa.Engine, shop: OddShop
) -> None:
    run.coordinator()
    run.until_ready(run.worker("datacenter"))
    crawl = run.crawl(engine, "endless", timeout_s=120)
    assert crawl["status"] == "completed" and crawl["products_new"] == PAGES * PER_PAGE
    asked = Counter(urlsplit(target).path for target in shop.asked())
    # Twelve chains of session ids begin in the catalogue, each of which ends after twenty pages.
    assert asked["/calendar"] <= 2 * 21 and asked["/same"] <= 60
    assert asked["/trap/"] <= PAGES * 21
    assert asked["/private"] == 0
    assert rows(engine, "SELECT count(*) FROM pages WHERE url LIKE '%/private/%'") == [(0,)]
    assert crawl["links_disallowed"] == PAGES * PRIVATE
    assert "`limits.fruitless`" in crawl["note"] and "robots.txt disallows" in crawl["note"]


def test_a_trap_alone_ends_below_120_pages(
    run: Commands, engine: sa.Engine, shop: OddShop, environment: Settings
) -> None:
    start_at(run, environment, shop.url("/trap/?page=1"), shop.url("/calendar?page=0"))
    crawl = run.crawl(engine, "endless", timeout_s=120)
    assert crawl["status"] == "completed" and crawl["discovery_total"] < 120
    assert 0 < crawl["links_fruitless"] <= 3


@pytest.mark.parametrize("trap", ["/visits", "/lost"])
def test_new_addresses_without_a_good_page_end_below_120_listings(
    run: Commands, engine: sa.Engine, shop: OddShop, environment: Settings, trap: str
) -> None:
    start_at(run, environment, shop.url("/list?page=0"), shop.url(f"{trap}?page=1"))
    crawl = run.crawl(engine, "endless", timeout_s=120)
    assert crawl["status"] == "completed" and crawl["products_new"] == PAGES * PER_PAGE
    asked = Counter(urlsplit(target).path for target in shop.asked())
    assert 5 < asked[trap] < 120 and asked["/list"] == PAGES
    assert "`limits.fruitless`" in crawl["note"] and "None" not in crawl["note"]


def test_the_same_products_at_new_addresses_end(
    run: Commands, engine: sa.Engine, shop: OddShop, environment: Settings
) -> None:
    """Each page answers, and robots.txt allows it. A later crawl finds new addresses again."""
    start_at(run, environment, shop.url("/list?page=0"), shop.url("/again?page=1"))
    for number in range(2):
        before = Counter(urlsplit(target).path for target in shop.asked())
        crawl = run.crawl(engine, "endless", timeout_s=120)
        assert crawl["status"] == "completed"
        assert crawl["products_new"] == (0 if number else PAGES * PER_PAGE)
        asked = Counter(urlsplit(target).path for target in shop.asked())
        asked.subtract(before)
        assert 5 < asked["/again"] < 120 and asked["/list"] == PAGES
        assert "`limits.fruitless`" in crawl["note"]
    assert rows(engine, "SELECT count(*) FROM crawl_repeated_pages") == [(0,)]
