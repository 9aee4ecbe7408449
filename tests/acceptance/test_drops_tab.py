"""Price drops over all shops in a headless Chromium, with what shops wrote shown as text."""

from __future__ import annotations

import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from tests.acceptance.tab_window import PHONE, WIDE, Window, picture
from tests.support.making import a_site, open_crawl
from tests.support.servers.flower import Flower

EVIL = "<img src=x onerror=document.title=1>\u202e"
TIMEOUT_MS = 120_000
FELL = """
WITH made AS (
    INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash, version)
    SELECT :site, 'p' || n || :evil, n, :crawl, 'https://shop.example/' || n,
           jsonb_build_object('name', 'Pan ' || n || :evil, 'price', 200 - n,
                              'price_currency', 'EUR'), gen_random_uuid(), 2
      FROM generate_series(1, 120) AS n
    RETURNING id, data)
INSERT INTO product_versions (product_id, version, data, content_hash, valid_from, valid_to, crawl_id)
SELECT id, 1, data || jsonb_build_object('price', 200), gen_random_uuid(),
       now() - interval '2 days', now(), :crawl FROM made
"""


def test_the_largest_falls_come_first(flower: Flower, browser: Browser, engine: sa.Engine) -> None:
    site, crawl = open_crawl(engine, a_site())
    with engine.begin() as connection:
        connection.execute(sa.text(FELL), {"site": site, "crawl": crawl, "evil": EVIL})
    window = Window(browser, flower)
    page = window.open("/crawls")
    page.get_by_role("link", name="Drops").click()
    rows = page.locator("#drops tbody tr")
    expect(rows).to_have_count(100, timeout=TIMEOUT_MS)
    expect(page.locator("#drops")).to_contain_text("the largest 100 of 120")
    expect(rows.first).to_contain_text("-60.0 %")
    shown = page.locator("#own-page").inner_text()
    assert "<img src=x" in shown and "\u202e" not in shown and page.title() != "1"
    for size in (PHONE, WIDE):
        for path, name in (("/crawls", "start"), ("/crawls/drops", "drops")):
            window.turn("light", size).open(path)
            # The page follows the scheme without being loaded again.
            for scheme in ("dark", "light"):
                other = window.turn(scheme, size)
                expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
                picture(other, f"{name}-{scheme}-{size['width']}")
                assert other.overflows() == [], (path, scheme, size)
                other.assert_quiet()
    page.get_by_role("region", name="Price drops").get_by_role("link").first.press("Enter")
    expect(page.locator("#heading")).to_contain_text("Pan", timeout=TIMEOUT_MS)
    window.assert_quiet()
