"""A suspect site put right in a headless Chromium: the repair with its proof, applied, crawled and
judged, and commands of messages copied."""

from __future__ import annotations

from decimal import Decimal

import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from scraper.settings import Settings
from scraper.sites.loader import load_file
from tests.acceptance.commands import Commands
from tests.acceptance.tab_window import PHONE, Window, picture
from tests.support.judged_crawls import crawled, good, shop, without
from tests.support.making import rows
from tests.support.servers.flower import Flower
from tests.support.shops.static_shop import StaticShop

NUMBERS = range(1, 16)
CARDS = "".join(f'<a class="p" href="/p/{n}">Thing {n}</a>' for n in NUMBERS)
OLD = "<h1>Thing {n}</h1><b class=price>£{n}.50</b>"
NEW = "<section><p><span class=offer>£{n}.50</span></p></section><h1>Thing {n}</h1>"
DEFINITION = """\
name: shop
start: {url}/
rate: 50/s   # not more
allow_private: true
listing: {{products: a.p}}
product:
  id: {{url: '/p/(\\d+)'}}
  fields:
    name: {{css: h1, required: true}}
    price: {{css: .price, type: price}}   # with tax
"""


def test_a_suspect_site_is_put_right(
    run: Commands, engine: sa.Engine, environment: Settings, flower: Flower, browser: Browser
) -> None:
    file = environment.sites_dir / "shop.yaml"
    pages = {"/": CARDS, **{f"/p/{n}": OLD.format(n=n) for n in NUMBERS}}
    for number in range(3):
        crawled(engine, shop(), range(30), lambda n, more=number: good(n, price=Decimal(n + more)))
    suspect = crawled(engine, shop(), range(30), lambda n: without(good(n), "price"))
    window = Window(browser, flower)
    with StaticShop(pages) as server:
        file.write_text(DEFINITION.format(url=server.url))
        run.scraper("sites", "record", "shop")
        server.pages |= {f"/p/{n}": NEW.format(n=n) for n in NUMBERS}
        page = window.open("/crawls/sites/shop")
        expect(page.locator("#actions .crawl-badge")).to_have_text("suspect")
        page.get_by_role("link", name="Repair").click()
        window.drawn()
        expect(page.locator("#standing")).to_contain_text("price")
        picture(window, "repair-1-suspect")
        page.get_by_role("button", name="Look for a repair").click()
        proof = page.locator("#repair tr", has_text="price")
        expect(proof).to_contain_text(".offer", timeout=120_000)
    expect(proof).to_contain_text("0 of")
    expect(page.locator("#repair .tab-added")).to_contain_text(".offer")
    assert ".price" in file.read_text()
    picture(window, "repair-2-proof")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#changes tbody tr")).to_have_count(1, timeout=60_000)
    text = file.read_text()
    assert load_file(file).product.fields["price"].css == ".offer" and "# with tax" in text
    assert rows(engine, "SELECT changed_by, site, action FROM definition_changes") == [
        ("admin", "shop", "changed")
    ]
    # Applied once: what it was made from is no longer there.
    expect(page.locator("#repair")).to_contain_text("has changed since")

    reject = page.get_by_role("button", name="Reject")
    reject.press("Enter")
    expect(page.get_by_role("button", name="Really reject?")).to_be_visible()
    assert flower.json(f"/api/crawls/{suspect.id}")["may_accept"]
    page.get_by_role("button", name="Accept").click()
    page.get_by_role("button", name="Really accept?").click()
    expect(page.get_by_role("status").first).to_contain_text(f"crawl {suspect.id}", timeout=60_000)
    assert not flower.json(f"/api/crawls/{suspect.id}")["may_accept"]
    page.get_by_role("button", name="Crawl now").first.click()
    expect(page.get_by_role("status").first).to_contain_text("is opened", timeout=60_000)
    window.assert_quiet()
    for scheme in ("light", "dark"):
        narrow = window.turn(scheme, PHONE)
        narrow.open("/crawls/setup?site=shop")
        picture(narrow, f"repair-3-narrow-{scheme}")
        assert narrow.overflows() == []
        narrow.assert_quiet()


def test_what_cannot_be_repaired_is_said_with_commands_to_copy(
    environment: Settings, flower: Flower, browser: Browser, engine: sa.Engine
) -> None:
    crawled(engine, shop(), range(30), lambda n: without(good(n), "price"))
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM product_versions"))
        connection.execute(sa.text("DELETE FROM products"))
    (environment.sites_dir / "shop.yaml").write_text(DEFINITION.format(url="http://127.0.0.1:9"))
    window = Window(browser, flower)
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = window.open("/crawls/setup?site=shop")
    page.get_by_role("button", name="Look for a repair").click()
    problem = page.locator("#repair .tab-problem")
    expect(problem).to_contain_text("no values are known", timeout=120_000)
    copied = problem.get_by_role("button", name="Copy scraper sites record shop")
    copied.press("Enter")
    expect(copied).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "scraper sites record shop"
    window.assert_quiet()
