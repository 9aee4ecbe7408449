"""The plans of visits in a headless Chromium."""

from __future__ import annotations

import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from scraper.frontier import sites
from tests.acceptance.tab_window import PHONE, WIDE, Window, picture
from tests.support.making import a_site
from tests.support.servers.flower import Flower

TIMEOUT_MS = 120_000
PLAN = sa.text("""
INSERT INTO site_plans (site_id, allocation, mean_rate, requests, visits, promised, planned_at,
                        wanted, hours, days, seen_days, kept_days, promise_days, needed, broken)
VALUES (:site, '{0.5,0,0,1,0,0}', 0.2, 1000, 900, 0.9, now(),
        '{"fresh": {"share": "95%", "within": "12h"}}', array_fill(2.0::float, '{24}'),
        array_fill(4.0::float, '{7}'), 1000, 880, :promise_days, 1500, :broken)
""")
VISITS = sa.text("""
INSERT INTO page_visits (page_id, site_id, changes, changed_days, quiet_days, rate, weight,
                         looked_at, next_visit)
SELECT :site * 1000 + n, :site, 2, 3, 10, n / 300.0, 1, now(), now() FROM generate_series(1, 300) n
""")


def plan_site(engine: sa.Engine, name: str, broken: str | None, promise_days: float) -> None:
    site = a_site(name=name, fresh="95% within 12h")
    with engine.begin() as connection:
        sites.store_definitions(connection, [site])
        row = sites.find_site(connection, name)
        assert row is not None
        connection.execute(VISITS, {"site": row[0]})
        values = {"site": row[0], "broken": broken, "promise_days": promise_days}
        connection.execute(PLAN, values)


def test_plans_show_what_was_promised_and_kept(
    flower: Flower, browser: Browser, engine: sa.Engine
) -> None:
    window = Window(browser, flower)
    page = window.open("/crawls")
    page.get_by_role("link", name="Plans").click()
    expect(page.locator("#plans")).to_contain_text("No shop is planned", timeout=TIMEOUT_MS)
    plan_site(engine, "kept-shop", None, 970)
    plan_site(engine, "late-shop", "budget too small", 900)
    window.open("/crawls/plans")
    rows = page.locator("#plans tbody tr")
    expect(rows).to_have_count(2, timeout=TIMEOUT_MS)
    expect(rows.first).to_contain_text("late-shop")
    expect(rows.first).to_contain_text("budget too small")
    expect(rows.first).to_contain_text("90.0 %")
    expect(page.locator("#plans")).to_contain_text("2 shops, 1 not kept")
    expect(page.locator("#plan")).to_contain_text("late-shop")
    expect(page.locator("#plan progress")).to_have_count(7)
    rows.last.get_by_role("link").press("Enter")
    expect(page.locator("#plan")).to_contain_text("kept-shop", timeout=TIMEOUT_MS)
    window.open("/crawls/plans?site=other-shop")
    said = "No planned shop is named other-shop."
    expect(page.locator("#plans")).to_contain_text(said, timeout=TIMEOUT_MS)
    for size in (PHONE, WIDE):
        for scheme in ("dark", "light"):
            other = window.turn(scheme, size)
            other.open("/crawls/plans")
            picture(other, f"plans-{scheme}-{size['width']}")
            assert other.overflows() == [], (scheme, size)
            other.assert_quiet()
    window.assert_quiet()
