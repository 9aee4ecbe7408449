"""A new user's way after `scraper start`, in a headless Chromium alone: shops added by address,
fields corrected by a click, a schedule, alerts by mail and webhook, and a redesign repaired."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, Page, expect

from scraper.settings import Settings
from scraper.sites.loader import load_file
from tests.acceptance.commands import Commands, until
from tests.acceptance.started_scraper import Started
from tests.acceptance.tab_window import Window, picture
from tests.support.making import rows
from tests.support.servers.receivers import Mailbox, Webhook
from tests.support.shops.engine_templates import ENGINES
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop

TIMEOUT_MS = 120_000


class Tab:
    """The Crawls tab of a `scraper start`, as a window needs it."""

    def __init__(self, started: Started, settings: Settings) -> None:
        self.url = f"http://127.0.0.1:{started.port}"
        self.login = "admin", (settings.home_dir / "flower-password").read_text().strip()


@contextmanager
def serve_shops() -> Iterator[dict[str, StaticShop]]:
    """Two shops of different engines, each at a port of its own, by where they start."""
    with ExitStack() as stack:
        yield {
            shop.start: stack.enter_context(StaticShop(shop.pages))
            for shop in (TEMPLATES["workshop"](), ENGINES["presta"]())
        }


@contextmanager
def receive() -> Iterator[tuple[Webhook, Mailbox]]:
    webhook, mailbox = Webhook(), Mailbox()
    try:
        yield webhook, mailbox
    finally:
        webhook.close()
        mailbox.close()


def saved(page: Page, text: str) -> None:
    expect(page.get_by_role("status").first).to_contain_text(text, timeout=TIMEOUT_MS)


def add_shops(window: Window, shops: dict[str, StaticShop]) -> None:
    """Pastes the addresses into the first screen, corrects two fields of one shop, and saves all."""
    page = window.open("/")
    expect(page.locator("#fleet")).to_contain_text("No site yet")
    addresses = "\n".join(f"{shop.url}{start}" for start, shop in shops.items())
    page.get_by_label("Addresses of shops to add").fill(addresses)
    page.get_by_role("button", name="Add shops").click()
    expect(page.get_by_label("Addresses of shops")).to_have_value(addresses)
    page.get_by_label("Requests while reading").fill("100/s")
    page.get_by_role("button", name="Read shops").click()
    saved(page, "2 shops are being read.")
    expect(page.locator("#surveys tr", has_text="ready")).to_have_count(2, timeout=TIMEOUT_MS)
    picture(window, "only-1-ready")

    port = shops["/all"].url.rpartition(":")[2]
    page.get_by_role("link", name=f"local-{port}").click()
    page.get_by_role("button", name="Correct a field by a click").click()
    expect(page.locator("iframe[data-elements]")).to_be_visible(timeout=TIMEOUT_MS)
    frame, proposals = page.frame_locator("#picker iframe"), page.locator("#picker-proposals")
    for field, element in (("title", "h1"), ("price", "span")):
        page.get_by_label("Field", exact=True).select_option(field)
        pattern = re.compile(r"^£\d") if element == "span" else re.compile(r"\w")
        frame.locator(element, has_text=pattern).first.click()
        expect(proposals.locator("details").first).to_contain_text("12 of 12", timeout=TIMEOUT_MS)
        proposals.get_by_role("button", name="Use this source").first.click()
        expect(proposals).to_contain_text(f"{field}: read on 12", timeout=TIMEOUT_MS)
    page.get_by_label("Name", exact=True).fill("garden")
    expect(page.locator("#definition-problems")).to_contain_text("No errors", timeout=TIMEOUT_MS)
    page.get_by_role("button", name="Save", exact=True).click()
    saved(page, "garden.yaml is saved")

    page = window.open("/crawls/setup")
    form = page.locator("#save-all")
    expect(form).to_contain_text("Save 1 shop")
    form.get_by_label("Schedule (cron)").fill("0 6 * * *")
    form.get_by_label("and crawl them now").check()
    form.get_by_role("button", name="Save all").click()
    saved(page, "1 saved.")


def set_alerts(window: Window, webhook: Webhook, mailbox: Mailbox) -> None:
    """Adds and tests both recipients, and a rule."""
    page = window.open("/crawls/alerts")
    for line, address in enumerate((webhook.address, mailbox.address), 1):
        page.get_by_label("Address", exact=True).fill(address)
        page.get_by_role("button", name="Add recipient").click()
        saved(page, f"line {line}")
        page.get_by_role("button", name=re.compile(f"Test line {line}")).click()
        saved(page, f"line {line} ({address.partition(':')[0]}) accepted")
    page.get_by_role("button", name="Edit rules").click()
    page.get_by_label("Rule's name").fill("drops")
    page.get_by_label("When", exact=True).fill("fell 5%")
    page.get_by_role("button", name="Add to the text").click()
    page.get_by_role("button", name="Save rules").click()
    saved(page, "alert-rules.yaml is saved")
    for message in (webhook.got[0][1]["title"], mailbox.got[0][1]):
        assert message == "scraper: a test"


def crawl(window: Window, engine: sa.Engine, site: str, state: str) -> None:
    """Crawls a site from its page."""
    page = window.open(f"/crawls/sites/{site}")
    page.get_by_role("button", name="Crawl now").click()
    expect(page.locator("#crawls-message")).to_contain_text("is opened", timeout=TIMEOUT_MS)
    newest = "SELECT count(*) FROM crawls WHERE finished_at IS NULL"
    until(lambda: rows(engine, newest) == [(0,)], 90)
    expect(page.locator("#actions .crawl-badge")).to_have_text(state, timeout=TIMEOUT_MS)


def lower_a_price(shop: StaticShop) -> None:
    """The product of 9,00 € costs 7,00 €, on its page and on lists."""
    for path, text in shop.pages.items():
        shop.pages[path] = text.replace(">9,00 €<", ">7,00 €<")


def redesign(shop: StaticShop) -> None:
    for path, text in shop.pages.items():
        renamed = text.replace("product-prices", "offer-box")
        shop.pages[path] = renamed.replace('class="h5', 'class="now').replace("h5 ", "now ")


def repair_site(window: Window, site: str) -> None:
    page = window.open(f"/crawls/sites/{site}")
    page.get_by_role("link", name="Repair").click()
    page.get_by_role("button", name="Look for a repair").click()
    proof = page.locator("#repair tr", has_text="price").first
    expect(proof).to_contain_text("0 of", timeout=TIMEOUT_MS)
    picture(window, "only-2-repair")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#changes tbody tr")).to_have_count(2, timeout=TIMEOUT_MS)


@pytest.mark.timeout(600)
def test_all_is_done_in_the_browser(
    run: Commands, engine: sa.Engine, environment: Settings, browser: Browser
) -> None:
    started = Started(run)
    window = Window(browser, Tab(started, environment))
    with serve_shops() as shops, receive() as (webhook, mailbox):
        add_shops(window, shops)
        garden = load_file(environment.sites_dir / "garden.yaml")
        assert garden.product.fields["title"].css and garden.product.fields["price"].css
        set_alerts(window, webhook, mailbox)
        presta = shops["/2-accueil"]
        site = f"local-{presta.url.rpartition(':')[2]}"
        assert load_file(environment.sites_dir / f"{site}.yaml").schedule == "0 6 * * *"
        until(
            lambda: (
                rows(engine, "SELECT count(*) FROM crawls WHERE status = 'completed'") == [(1,)]
            ),
            120,
        )
        # A new rule begins with what changes from the coordinator's next look on.
        until(
            lambda: (
                rows(engine, "SELECT count(*) FROM consumers WHERE name = 'price-alerts'") == [(1,)]
            ),
            60,
        )
        lower_a_price(presta)
        crawl(window, engine, site, "completed")
        until(lambda: len(webhook.got) > 1 and len(mailbox.got) > 1, 60)
        assert webhook.got[1][1]["title"].startswith("drops")
        assert re.match(rf"{site}: \d prices? fell", mailbox.got[1][1])
        assert f"{window.flower.url}/crawls" in mailbox.got[1][2], "a link to the tab"
        redesign(presta)
        crawl(window, engine, site, "suspect")
        repair_site(window, site)
        crawl(window, engine, site, "completed")
    window.assert_quiet()
    started.end()
