"""A shop from its address to its first crawl in a headless Chromium, and its definition changed,
compared and restored there."""

from __future__ import annotations

import re

import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from scraper.settings import Settings
from scraper.sites.loader import load_file
from tests.acceptance.tab_window import PHONE, Window, picture
from tests.support.making import rows
from tests.support.servers.flower import Flower
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop

EVIL = "&lt;img src=x onerror=&quot;document.title='owned'&quot;&gt;\u202e"


def test_a_shop_is_added_crawled_and_changed_without_a_terminal(
    engine: sa.Engine, environment: Settings, flower: Flower, browser: Browser
) -> None:
    shop = TEMPLATES["workshop"]()
    title = next(iter(shop.truth.values()))["title"]
    pages = {path: page.replace(str(title), f"{title} {EVIL}") for path, page in shop.pages.items()}
    window = Window(browser, flower)
    page = window.open("/crawls")
    page.get_by_role("link", name="Add shops").click()
    window.drawn()
    picture(window, "1-add")
    with StaticShop(pages) as server:
        page.get_by_label("Addresses of shops").fill(f"{server.url}/all")
        page.get_by_label("Requests while reading").fill("4/s")
        page.get_by_role("button", name="Read shops").click()
        expect(page.locator("#survey-state")).to_contain_text("request", timeout=120_000)
        picture(window, "2-progress")
        expect(page.locator("#survey-fields")).to_contain_text("price", timeout=120_000)
    page.locator("#survey-samples summary").first.click()
    assert page.title() != "owned" and "\u202e" not in page.locator("#own-page").inner_text()
    page.get_by_label("Name", exact=True).fill("garden")
    page.get_by_label("Schedule (cron)").fill("0 6 * * *")
    page.get_by_label("Tags", exact=True).fill("wood tools")
    area = page.get_by_label("YAML", exact=True)
    expect(area).to_have_value(re.compile(r'name: garden\n(.*\n)*schedule: "0 6'), timeout=120_000)
    picture(window, "3-found")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("garden.yaml is saved", timeout=120_000)
    site = load_file(environment.sites_dir / "garden.yaml")
    assert site.schedule == "0 6 * * *" and site.tags == ("wood", "tools")
    # The page is drawn again after a save, and a click on a button that moves is lost.
    window.drawn()
    page.get_by_role("button", name="Crawl now").click()
    expect(page.get_by_role("status")).to_contain_text("of garden is opened", timeout=120_000)
    expect(page.get_by_role("link", name=re.compile(r"Crawl \d"))).to_be_visible(timeout=120_000)
    assert rows(engine, "SELECT status FROM crawls") == [("planned",)]

    page = window.open("/crawls/sites/garden")
    page.get_by_role("link", name="Edit definition").click()
    window.drawn()
    area, good = (
        page.get_by_label("YAML", exact=True),
        (environment.sites_dir / "garden.yaml").read_text(),
    )
    area.fill(good.replace("listing:", "listting:"))
    problem = page.locator("#definition-problems li").first
    expect(problem).to_contain_text("listing", timeout=120_000)
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    problem.get_by_role("button").press("Enter")
    chosen = area.evaluate("(e) => e.value.slice(e.selectionStart, e.selectionEnd)")
    assert chosen == "listting:"
    picture(window, "4-problem")
    area.fill(f'{good}"`scraper try garden`": 1\n')
    expect(problem.get_by_role("button", name="Copy scraper try garden")).to_be_visible()
    area.fill(good.replace("rate: 4/s", "rate: 2/s"))
    expect(page.locator("#difference")).to_contain_text("+rate: 2/s", timeout=120_000)
    picture(window, "5-difference")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#changes tbody tr")).to_have_count(2, timeout=120_000)
    assert "rate: 2/s" in (environment.sites_dir / "garden.yaml").read_text()
    page.get_by_role("button", name="Undo").first.click()
    expect(page.locator("#changes tbody tr")).to_have_count(3, timeout=120_000)
    assert (environment.sites_dir / "garden.yaml").read_text() == good
    window.assert_quiet()

    narrow = window.turn("dark", PHONE)
    for number, path in enumerate(
        (
            "/crawls/setup",
            "/crawls/setup?id=1",
            "/crawls/setup?site=garden",
            "/crawls/setup?change=2",
        )
    ):
        narrow.open(path)
        narrow.page.wait_for_timeout(800)
        picture(narrow, f"narrow-{number}")
        assert narrow.overflows() == [], path
    narrow.assert_quiet()
