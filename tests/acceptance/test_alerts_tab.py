"""Notifications in a headless Chromium: recipients tested, added and removed, rules changed, and
what shops wrote shown as text."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from scraper.plugins.alerts.crawls import alert_crawls
from scraper.plugins.alerts.prices.outbox import alert_prices
from scraper.plugins.flower.access.users import change_users, with_token
from scraper.settings import Settings
from scraper.settings import load as load_settings
from tests.acceptance.commands import Commands
from tests.acceptance.tab_window import PHONE, WIDE, Window, picture
from tests.support.judged_crawls import priced
from tests.support.making import rows
from tests.support.servers.flower import Flower
from tests.support.servers.receivers import PASSWORD, TOKEN, receivers
from tests.support.shops.crawled_shop import B, Shop

EVIL = "<img src=x onerror=\"document.title='owned'\">\u202e`scraper down`"
RULES = "# Kept.\n- {name: drops, when: fell 5%, to: [garden]}\n"
TIMEOUT_MS = 120_000


def sold(engine: sa.Engine) -> None:
    """A product whose price falls by half, and one with a hostile name that becomes cheap."""
    shop = Shop(engine)
    priced(shop, "20.00", "10.00")
    for price in ("30.00", "15.00"):
        shop.once(
            external_id="8", url=B, name=f"Pan {EVIL}", price=Decimal(price), price_currency="EUR"
        )


def test_notifications_are_seen_tested_and_changed(
    engine: sa.Engine,
    environment: Settings,
    run: Commands,
    browser: Browser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    with receivers(tmp_path) as (webhook, mailbox, path):
        path.write_text(f"garden = {webhook.address}  # {TOKEN}\n{mailbox.address}\n")
        for name, value in {"SCRAPER_ALERTS": path, "SCRAPER_ALERT_RULES": rules}.items():
            monkeypatch.setenv(name, str(value))
            run.env[name] = str(value)
        load_settings.cache_clear()
        settings = load_settings()
        alert_prices(engine, settings)
        sold(engine)
        webhook.status = 503
        alert_prices(engine, settings)
        alert_crawls(engine, settings)
        flower = Flower(run, environment)
        window = Window(browser, flower)
        page = window.open("/crawls")
        page.get_by_role("link", name="Notifications").click()
        window.drawn()
        expect(page.locator("#rules summary")).to_have_text("2", timeout=TIMEOUT_MS)
        page.locator("#rules summary").click()
        expect(page.locator("#rules details li").first).to_contain_text("(-50.0%)")
        expect(page.locator("#sent tbody tr").first).to_contain_text("HTTP 503")
        shown = page.locator("#own-page").inner_text()
        assert page.title() != "owned" and "\u202e" not in shown and "<img src=x" in shown
        picture(window, "notifications")

        # A test says what happened, with the reason.
        page.get_by_role("button", name="Test line 1").click()
        expect(page.get_by_role("status")).to_contain_text("HTTP 503", timeout=TIMEOUT_MS)
        webhook.status = 200
        window.drawn()
        page.get_by_role("button", name="Test line 1").press("Enter")
        expect(page.get_by_role("status")).to_contain_text("accepted", timeout=TIMEOUT_MS)
        assert [message["title"] for _, message in webhook.got] == ["scraper: a test"]

        # Addresses are added and removed, and never shown again.
        window.drawn()
        page.get_by_label("Address").fill("https://hooks.example/S3CRET")
        page.get_by_label("Names, if any").fill("ops, garden")
        page.get_by_role("button", name="Add recipient").click()
        expect(page.locator("#recipients tbody tr")).to_have_count(3, timeout=TIMEOUT_MS)
        assert path.read_text().endswith("ops, garden = https://hooks.example/S3CRET\n")
        expect(page.locator("#recipients tbody tr").nth(2)).to_contain_text("hooks.example")
        for bad in ("https://a b", "mailbox", "https://hooks.example/S3CRET"):
            page.get_by_label("Address").fill(bad)
            page.get_by_role("button", name="Add recipient").click()
            expect(page.locator(".alert-danger")).to_be_visible(timeout=TIMEOUT_MS)
        window.drawn()
        page.locator("#recipients tbody tr").nth(1).get_by_text("Remove").click()
        page.locator("#recipients tbody tr").nth(1).get_by_text("Really remove?").click()
        expect(page.locator("#recipients tbody tr")).to_have_count(2, timeout=TIMEOUT_MS)
        assert PASSWORD not in path.read_text() and TOKEN in path.read_text()
        assert oct(path.stat().st_mode & 0o777) == "0o600"

        # Rules are checked, compared and saved.
        window.drawn()
        page.get_by_role("button", name="Edit rules").click()
        page.get_by_label("Rule's name").fill("cheap")
        page.get_by_label("When", exact=True).fill("below 12")
        page.get_by_role("button", name="Add to the text").click()
        expect(page.locator("#rules-difference")).to_contain_text(
            "+- {name: cheap, when: below 12}", timeout=TIMEOUT_MS
        )
        area = page.get_by_label("Rules as YAML")
        good = area.input_value()
        area.fill(good.replace("below 12", "under 12"))
        expect(page.locator("#rules-problems .text-danger")).to_contain_text(
            "under 12", timeout=TIMEOUT_MS
        )
        expect(page.get_by_role("button", name="Save rules")).to_be_disabled()
        area.fill(good)
        expect(page.get_by_role("button", name="Save rules")).to_be_enabled(timeout=TIMEOUT_MS)
        page.get_by_role("button", name="Save rules").click()
        expect(page.locator("#rules tbody tr")).to_have_count(2, timeout=TIMEOUT_MS)
        assert rules.read_text() == f"{RULES}- {{name: cheap, when: below 12}}\n"
        picture(window, "notifications-editor")
        # Chromium logs each refused request.
        window.said = [line for line in window.said if "status of 409" not in line]
        window.assert_quiet()

        log = rows(engine, "SELECT site, action, before, after FROM definition_changes ORDER BY id")
        assert [(site, action) for site, action, *_ in log] == [
            ("alert recipients", "added"),
            ("alert recipients", "removed"),
            ("alert rules", "changed"),
        ]
        everywhere = f"{log} {flower.log()} {page.content()}"
        for secret in (TOKEN, PASSWORD, "S3CRET"):
            assert secret not in everywhere, secret

        for scheme, size in (("dark", PHONE), ("light", PHONE), ("dark", WIDE)):
            other = window.turn(scheme, size)
            other.open("/crawls/alerts")
            expect(other.page.locator("#rules summary").first).to_be_visible(timeout=TIMEOUT_MS)
            picture(other, f"notifications-{scheme}-{size['width']}")
            assert other.overflows() == []
            other.open("/crawls/setup")
            assert other.page.get_by_role("button", name="Undo").count() == 0
            other.assert_quiet()


def test_who_may_not_edit_sees_no_editor(
    engine: sa.Engine, environment: Settings, run: Commands, tmp_path: Path
) -> None:
    path, rules = tmp_path / "alerts.txt", tmp_path / "rules.yaml"
    path.write_text("https://hooks.example/S3CRET\n")
    rules.write_text(RULES)
    run.env |= {"SCRAPER_ALERTS": str(path), "SCRAPER_ALERT_RULES": str(rules)}
    user, token = with_token("watcher", "read")
    with change_users(environment.home_dir) as users:
        users["watcher"] = user
    flower = Flower(run, environment)
    bearer = {"Authorization": f"Bearer {token}"}
    api = "/crawls/api/alerts"
    assert flower.get(api, auth=None, headers=bearer).json()["recipients"]["list"][0]["kind"]
    shell = flower.get("/crawls/alerts", auth=None, headers=bearer).text
    assert 'data-may-edit=""' in shell and 'data-read-only="yes"' in shell
    for action in ("test", "add", "remove", "save", "rules", "check"):
        answer = httpx.post(f"{flower.url}{api}/{action}", headers=bearer, json={}, timeout=30)
        assert answer.status_code == 403, (action, answer.text)
    assert path.read_text() == "https://hooks.example/S3CRET\n" and rules.read_text() == RULES
