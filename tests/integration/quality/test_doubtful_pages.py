"""Product pages that are not believed: with much less than they had or than others have, or with
what others show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from scraper.cli.setup.sites import _read_history
from scraper.extract.heuristics import evidence
from scraper.plugins.report.command import _print_report
from scraper.quality import report as reports
from scraper.settings import Settings
from tests.acceptance.lies import shop as shops
from tests.acceptance.lies.harness import LyingSite, Result, _crawl
from tests.acceptance.lies.shop import Pages
from tests.acceptance.lies.ways import Way
from tests.support import making
from tests.support.shops.odd_shop import OddShop

PRODUCTS = 30
SPARSE = (3, 17)
Spoil = Callable[[int, LyingSite], bytes]


class Crawls:
    """A site of which some pages are spoiled, and its crawls one after the other."""

    def __init__(self, engine: sa.Engine, settings: Settings, server: OddShop) -> None:
        self._engine, self._settings = engine, settings
        self.spoil: dict[int, Spoil] = {}
        self._way = Way("spoiled", lie=self._lie)
        self.site = LyingSite(self._way, server, 0, PRODUCTS, "1")
        self.site.has_ids = False

    def _lie(self, shop: shops.Shop, pages: Pages, *_: object) -> None:
        items = list(shop.items.values())
        for place, spoil in self.spoil.items():
            pages[items[place].path] = spoil(place, self.site)

    def crawl(self) -> sa.Row[tuple[object, ...]]:
        self.site.server.requests.clear()
        self.site.serve(lies=True)
        result = Result(self._way)
        _crawl(self._engine, self._settings, [self.site], [result], judged=True)
        with self._engine.connect() as connection:
            query = "SELECT * FROM crawls ORDER BY id DESC LIMIT 1"
            return connection.execute(sa.text(query)).one()

    def names(self) -> dict[str, str]:
        with self._engine.connect() as connection:
            query = "SELECT url, data ->> 'name' AS name FROM products"
            return {
                row.url.removeprefix(self.site.server.url("", 0)): row.name
                for row in connection.execute(sa.text(query))
            }

    def asked(self, place: int) -> int:
        path = list(self.site.shop.items.values())[place].path
        return self.site.server.asked(self.site.port).count(path)


@pytest.fixture
def crawls(engine: sa.Engine, environment: Settings) -> Iterator[Crawls]:
    with OddShop() as server:
        yield Crawls(engine, environment, server)


def sparse(place: int, _: LyingSite) -> bytes:
    return shops.frame(f"<h1>Only a name {place}</h1>", "The Shop")


def challenge(*_: object) -> bytes:
    return shops.frame("<h1>One moment</h1>", "The Shop")


def test_a_new_product_with_a_name_alone_is_believed_the_second_time(crawls: Crawls) -> None:
    crawls.spoil = dict.fromkeys(SPARSE, sparse)
    first = crawls.crawl()
    assert (len(crawls.names()), first.invalid) == (PRODUCTS - 2, 2)
    assert [crawls.asked(place) for place in SPARSE] == [2, 2]
    second = crawls.crawl()
    assert (len(crawls.names()), second.invalid, second.suspect) == (PRODUCTS, 0, False)
    assert "Only a name 17" in crawls.names().values()
    crawls.crawl()
    assert [crawls.asked(place) for place in SPARSE] == [1, 1], "that is usual of them now"


def test_what_many_new_products_say_is_never_believed(crawls: Crawls) -> None:
    crawls.spoil = dict.fromkeys(range(0, PRODUCTS, 5), challenge)
    for _ in range(3):
        crawl = crawls.crawl()
        assert (crawl.invalid, crawl.suspect) == (6, True)
        assert "One moment" not in crawls.names().values()
        [reason] = [reason for reason in crawl.reasons if reason["what"] == "pages"]
        assert (
            "6 pages invalid, 6 of them doubtful: other products' pages say the same: One"
            in crawl.note
        )
        assert "6 of 30 product pages are not believed" in reason["text"]
        assert "One moment" in reason["text"] and crawls.site.server.url("/p/", 0) in reason["text"]


def test_a_known_product_that_shows_a_challenge_once_is_read_when_it_is_asked_again(
    crawls: Crawls,
) -> None:
    crawls.crawl()
    before = crawls.names()
    crawls.spoil = dict.fromkeys(SPARSE, challenge)
    crawl = crawls.crawl()
    assert crawls.names() == before and crawl.invalid == 2
    assert [crawls.asked(place) for place in SPARSE] == [2, 2]
    crawls.spoil = {}
    crawl = crawls.crawl()
    assert crawls.names() == before and (crawl.invalid, crawl.suspect) == (0, False)


def test_a_selector_that_other_sources_contradict_is_named(
    crawls: Crawls,
    engine: sa.Engine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It meets another price on each page. Which pages are asked depends on the shop's port; so all
    of them are."""
    monkeypatch.setattr(evidence, "SAMPLE", 1)
    crawls.spoil = dict.fromkeys(range(PRODUCTS), another_price)
    crawl = crawls.crawl()
    with engine.connect() as connection:
        report = reports.read_report(connection, crawl.id)
    capsys.readouterr()
    _print_report(report)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "disagrees with" in line]
    assert line.startswith("price: JSON-LD disagrees with css '.price' on ")
    votes = {field["field"]: field["votes"] for field in reports.as_json(report)["fields"]}
    assert votes["price"]["jsonld"][0] == 0 and votes["price"]["jsonld"][1] >= 3
    assert votes["name"]["jsonld"][1] == 0 and votes["brand"] == {}
    monkeypatch.setattr("scraper.cli.setup.sites.open_engine", lambda: engine)
    warnings = _read_history([crawls.site.name, "another"]).contradictions
    assert list(warnings) == [crawls.site.name]
    assert warnings[crawls.site.name] == [f"{line}, in crawl {crawl.id}"]


def test_a_field_that_few_pages_of_a_first_crawl_have_comes_with_pages(
    crawls: Crawls, engine: sa.Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    crawls.spoil = dict.fromkeys(range(PRODUCTS * 2 // 3), without_brand)
    crawl = crawls.crawl()
    assert not crawl.suspect
    with engine.connect() as connection:
        report = reports.read_report(connection, crawl.id)
    capsys.readouterr()
    _print_report(report)
    told = capsys.readouterr().out
    assert "brand: seldom found: is its selector right? it is not on\n  page: " in told
    assert len(report.examples["brand"]) == 3 and list(report.examples) == ["brand"]


def without_brand(place: int, site: LyingSite) -> bytes:
    page = shops.product(list(site.shop.items.values())[place], site.shop).decode()
    return re.sub("<p class=brand>[^<]*</p>", "", page).encode()


def another_price(place: int, site: LyingSite) -> bytes:
    items = list(site.shop.items.values())
    page = shops.product(items[place], site.shop).decode()
    return re.sub(r"(class=price>)[^<]*", rf"\g<1>£{place + 1}.07", page).encode()


def dearer(place: int, site: LyingSite) -> bytes:
    """What its JSON-LD does not say."""
    item = list(site.shop.items.values())[place]
    shown = f"<p class=price>£{item.price:,.2f}".encode()
    page = shops.product(item, site.shop)
    assert shown in page
    return page.replace(shown, f"<p class=price>£{item.price * 2:,.2f}".encode())


def test_a_price_that_its_page_contradicts_waits(crawls: Crawls, engine: sa.Engine) -> None:
    for _ in range(3):
        crawls.crawl()
    prices = making.rows(engine, "SELECT url, data ->> 'price' FROM products ORDER BY url")
    crawls.spoil = dict.fromkeys(SPARSE, dearer)
    assert not crawls.crawl().suspect
    held = "SELECT field, reason FROM held_values"
    assert making.rows(engine, held) == [("price", "contradicted")] * 2
    now = making.rows(engine, "SELECT url, data ->> 'price' FROM products ORDER BY url")
    assert now == prices
    crawls.spoil = {}
    crawls.crawl()
    assert making.rows(engine, held) == []


def test_a_price_that_its_page_confirms_does_not_wait(crawls: Crawls, engine: sa.Engine) -> None:
    for _ in range(3):
        crawls.crawl()
    for item in list(crawls.site.shop.items.values())[:2]:
        item.price *= 2
    assert crawls.crawl().products_changed == 2
    assert making.rows(engine, "SELECT FROM held_values") == []
