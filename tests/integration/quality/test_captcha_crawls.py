"""A crawl that gets captchas or one block page for products says so, instead of what they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.main import main
from tests.support.making import rows
from tests.support.shops.odd_shop import OddShop, listing

NUMBERS = range(1, 13)
DEFINITION = """
start: {start}
allow_private: true
rate: unlimited
concurrency: 2
listing: {{products: a.p}}
product:
  id: {{url: '/p/([0-9]+)'}}
  fields: {{title: {{css: h1.title, required: true}}, price: {{css: .price, type: price}}, sku: .sku}}
"""
CAPTCHA = '<html><h1>One moment</h1><div class="h-captcha"></div><p>Request {}</p></html>'
BLOCK = "<html><title>Shop</title><h1>Unusual traffic</h1><p>Reference 1f{}c</p></html>"
SHORT = "<html><h2>Thing {0}</h2><p>{0}.90 €</p></html>"
REDESIGN = "<html><h2>Thing {0}</h2><p>" + "A long text on thing {0}. " * 60 + "</p></html>"


@pytest.fixture
def shop() -> Iterator[OddShop]:
    with OddShop() as server:
        server.serve("/", listing([f"/p/{number}" for number in NUMBERS]))
        yield server


def sell(shop: OddShop, page: str, numbers: range = NUMBERS) -> None:
    for number in numbers:
        shop.serve(f"/p/{number}", page.format(number).encode())


def notes(engine: sa.Engine, crawl_id: int) -> str:
    return str(rows(engine, f"SELECT note FROM crawls WHERE id = {crawl_id}")[0][0])


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (CAPTCHA, "looks like a captcha: 5 of 5 pages have a widget of hCaptcha (fix: see"),
        (BLOCK, "looks like a captcha or block: 5 of 5 pages say the same (fix: see"),
    ],
)
def test_a_crawl_of_block_pages_names_the_block(
    engine: sa.Engine, shop: OddShop, crawl_site: Callable[[str], int], page: str, says: str
) -> None:
    sell(shop, page)
    crawl_id = crawl_site(DEFINITION.format(start=shop.url("/")))
    note = notes(engine, crawl_id)
    assert note.startswith(says) and "not one of 12 product pages was good" in note, note
    assert "nothing matched" not in note


def test_a_crawl_that_is_blocked_on_its_way_advises_no_change_of_the_definition(
    engine: sa.Engine,
    shop: OddShop,
    crawl_site: Callable[[str], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scraper.plugins.report.command.open_engine", lambda: engine)
    good = '<html><h1 class="title">Thing {0}</h1><p class="price">{0}.90 €</p></html>'
    sell(shop, good)
    definition = DEFINITION.format(start=shop.url("/"))
    assert notes(engine, crawl_site(definition)) == "None"
    sell(shop, CAPTCHA, range(1, 11))
    crawl_id = crawl_site(definition)
    assert "looks like a captcha: " in notes(engine, crawl_id)
    told = CliRunner().invoke(main, ["report", str(crawl_id)]).output
    assert "What these pages show looks like a captcha" in told, told
    assert "Fix the definition" not in told and f"scraper accept {crawl_id}" in told


@pytest.mark.parametrize("page", [REDESIGN, SHORT])
def test_a_redesign_is_not_taken_for_a_block(
    engine: sa.Engine, shop: OddShop, crawl_site: Callable[[str], int], page: str
) -> None:
    sell(shop, page)
    note = notes(engine, crawl_site(DEFINITION.format(start=shop.url("/"))))
    assert "nothing matched css 'h1.title'" in note and "captcha" not in note, note
