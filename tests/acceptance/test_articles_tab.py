"""The page "Articles" of the Crawls tab: found by search, drawn with every shop's prices, and
proposals decided by keyboard, in a headless Chromium and by requests of a hostile page."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from scraper.plugins.matching.linking import step
from tests.acceptance.tab_window import NARROW, Window
from tests.support.making import a_site, rows
from tests.support.servers.flower import Flower
from tests.support.shops.crawled_shop import Shop

GTIN = "4006381333931"
EVIL = "<img src=x onerror=\"document.title = 'owned'\">\u202e"
DECIDED = (
    "SELECT state, count(*) FROM offer_links WHERE decided_by IS NOT NULL GROUP BY 1 ORDER BY 1"
)


def sell(engine: sa.Engine, site: str, *products: dict[str, object]) -> None:
    """Crawls a shop of these products once."""
    shop = Shop(engine)
    shop.site = a_site(site, revisit="0s")
    urls = {f"https://shop.example/{site}/{n}": product for n, product in enumerate(products)}
    pages = shop.begin(*urls)
    for n, (url, product) in enumerate(urls.items()):
        data = {"price_currency": "EUR", "in_stock": True} | product
        shop.give(pages[url], str(n), **data)
    shop.end()


@pytest.fixture
def market(engine: sa.Engine) -> sa.Engine:
    """A kettle at three shops by its code, and three pairs of titles that may be one product."""
    kettle: dict[str, object] = {"name": f"Kitano kettle K200 {EVIL}", "gtin": GTIN}
    titles = "Harlow steel frying pan 28 cm", "Lumen oak dining table", "Fjord woven wool rug grey"
    alpha = [{"name": title, "price": Decimal(50)} for title in titles]
    beta = [{"name": f"{title} new", "price": Decimal(51)} for title in titles]
    sell(engine, "alpha", kettle | {"price": Decimal("24.90")}, *alpha)
    sell(engine, "beta", kettle | {"price": Decimal("22.50")}, *beta)
    sell(engine, "gamma", kettle | {"price": Decimal("27.00")})
    while not step.run(engine, 60):
        pass
    assert rows(engine, "SELECT count(*) FROM offer_links WHERE state = 'proposed'")[0][0] == 3
    return engine


def test_a_product_of_three_shops_and_a_review_by_keyboard(
    market: sa.Engine, flower: Flower, browser: Browser
) -> None:
    window = Window(browser, flower)
    page = window.open("/crawls")
    page.get_by_role("link", name="Articles").click()
    window.drawn()
    page.get_by_label("Search products").fill("kettle")
    expect(page.locator("#article-list tbody tr")).to_have_count(1)
    row = page.locator("#article-list tbody tr")
    expect(row).to_contain_text("22.50 EUR")
    expect(row).to_contain_text("beta")
    row.get_by_role("link").click()
    window.drawn()
    expect(page.locator("#article-best")).to_contain_text("22.50 EUR at beta")
    expect(page.locator("#article-chart .chart-legend")).to_have_text(
        re.compile("alpha.*beta.*gamma")
    )
    page.locator("#article-chart summary").click()
    expect(page.locator("#article-chart .chart-table tbody tr").first).to_contain_text("27")
    expect(page.locator("#article-offers tbody tr")).to_have_count(3)
    # What a shop has written stays text.
    assert page.title() != "owned" and "\u202e" not in page.locator("#article-offers").inner_text()

    page = window.open("/crawls/articles?show=review")
    for key, left in (("y", 2), ("s", 2), ("n", 1)):
        before = page.locator("#article-review").inner_text()
        page.keyboard.press(key)
        expect(page.locator("#article-review")).not_to_have_text(before, use_inner_text=True)
        waiting = rows(market, "SELECT count(*) FROM offer_links WHERE state = 'proposed'")
        assert waiting == [(left,)]
    expect(page.locator("#article-review")).to_contain_text("Nothing to review")
    page.get_by_role("link", name="Begin again").click()
    window.drawn()
    page.get_by_role("button", name="One product").click()
    expect(page.locator("#article-review")).to_contain_text("Every proposal has a decision")
    assert rows(market, DECIDED) == [("confirmed", 2), ("refused", 1)]
    window.assert_quiet()

    narrow = window.turn("dark", NARROW)
    page = narrow.open("/crawls/articles")
    assert narrow.overflows() == []
    narrow.assert_quiet()


def test_requests_of_a_hostile_page_decide_nothing(market: sa.Engine, flower: Flower) -> None:
    ((left, right),) = rows(
        market, "SELECT left_id, right_id FROM offer_links WHERE state = 'proposed' LIMIT 1"
    )
    body = {"left": left, "right": right}
    path = "/crawls/api/articles"
    assert flower.post(f"{path}/confirm", body, token=False).status_code == 403
    assert flower.get(path, auth=None).status_code == 401
    for wrong in ({}, {"left": left}, {"left": "1", "right": right}, body | {"more": 1}, [left]):
        assert flower.post(f"{path}/confirm", wrong).status_code in (400, 409), wrong
    assert flower.post(f"{path}/delete", body).status_code == 404
    assert flower.post(f"{path}/confirm", {"left": left, "right": 10**12}).status_code == 404
    for query in ("id=999999", "id=x", "show=review&after=1,2", f"search={'x' * 400}", "shops=-1"):
        assert flower.get(f"{path}?{query}").status_code in (400, 404, 409), query
    assert rows(market, DECIDED) == []
    answer = flower.post(f"{path}/refuse", body)
    assert answer.json() == {"message": "The offers are kept apart for good."}
    assert rows(market, DECIDED) == [("refused", 1)]
