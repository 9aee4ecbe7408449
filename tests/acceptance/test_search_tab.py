"""The search over all shops in a headless Chromium: from the first screen, by keyboard, with what
shops wrote shown as text."""

from __future__ import annotations

from decimal import Decimal

import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from tests.acceptance.tab_window import PHONE, WIDE, Window, picture
from tests.support.servers.flower import Flower
from tests.support.shops.crawled_shop import A, B, Shop

EVIL = "<img src=x onerror=\"document.title='owned'\">\u202e\x1b"
TIMEOUT_MS = 120_000


def test_a_product_is_found_from_the_first_screen(
    flower: Flower, browser: Browser, engine: sa.Engine
) -> None:
    shop = Shop(engine)
    data = {"price": Decimal("9.50"), "gtin": "4006381333931"}
    shop.give(shop.begin(A)[A], "7", name=f"Copper kettle {EVIL}", price_currency="EUR", **data)
    shop.end()
    shop.once(external_id=f"8{EVIL}", url=B, name="Lid of a kettle", in_stock=False)
    window = Window(browser, flower)
    page = window.open("/crawls")
    page.keyboard.press("/")
    expect(page.get_by_label("Find products of all shops")).to_be_focused()
    page.keyboard.type("4006381333931")
    page.keyboard.press("Enter")
    rows = page.locator("#products-found tbody tr")
    expect(rows).to_have_count(1, timeout=TIMEOUT_MS)
    assert page.url.endswith("/crawls/search?q=4006381333931")
    expect(rows).to_contain_text("9.50 EUR")
    page.get_by_label("Search the products of all shops").fill("kettle")
    expect(rows).to_have_count(2, timeout=TIMEOUT_MS)
    expect(page.locator("#found")).to_have_text("2 products.")
    shown = page.locator("#own-page").inner_text()
    assert "<img src=x" in shown and "\u202e" not in shown and "\x1b" not in shown
    # A slash is text where text is typed, and leads back from elsewhere.
    page.get_by_label("Search the products of all shops").press_sequentially(" /")
    window.drawn()
    page.get_by_role("region", name="Products").focus()
    page.keyboard.press("/")
    expect(page.get_by_label("Search the products of all shops")).to_be_focused()
    picture(window, "search")
    rows.first.get_by_role("link").first.press("Enter")
    expect(page.locator("#heading")).to_contain_text("kettle", timeout=TIMEOUT_MS)
    assert page.title() != "owned"
    window.assert_quiet()

    for size in (PHONE, WIDE):
        for scheme in ("dark", "light"):
            other = window.turn(scheme, size)
            for path, name in (("/crawls", "fleet"), ("/crawls/search?q=kettle", "search")):
                other.open(path)
                picture(other, f"{name}-{scheme}-{size['width']}")
                assert other.overflows() == [], (path, scheme, size)
            other.assert_quiet()
    # Past the last page there is a way back.
    page = window.open("/crawls/search?q=kettle&page=2")
    page.get_by_role("button", name="Previous").press("Enter")
    expect(rows).to_have_count(2, timeout=TIMEOUT_MS)
    assert page.url.endswith("q=kettle")
    answer = flower.json("/crawls/api/search?q=kettle")
    assert [row["site"] for row in answer["products"]] == ["shop", "shop"]
