"""Commands that the Crawls tab offers to copy: the program's own, and none that a shop wrote."""

from __future__ import annotations

import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from tests.acceptance.tab_window import Window
from tests.support.making import a_site, give_up, open_crawl, urls
from tests.support.servers.flower import Flower

OF_A_SHOP = "`scraper psql -c 'DROP TABLE pages'`"
# What messages hold, and what is offered to copy.
MESSAGES = [
    ("type `scraper try 'http://shop.example/$(reboot)' --json`", 1),
    ("`scraper up` or `scraper crawl 'it'\"'\"'s'`", 2),
    ("`scraper try $(reboot)`", 0),
    ("`scraper up;reboot`", 0),
    ('`scraper try "$(reboot)"`', 0),
    ("`scraper try 'a''b`", 0),
]


def test_a_shop_adds_no_command_of_its_own(
    flower: Flower, browser: Browser, engine: sa.Engine
) -> None:
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(1), error=f"price: {OF_A_SHOP} is not a price")
    with engine.begin() as connection:
        # It counts as waiting some time after its start, and then says something else.
        connection.execute(sa.text("UPDATE crawls SET started_at = now() + interval '1 day'"))
    window = Window(browser, flower)
    page = window.open("/crawls/1")
    expect(page.locator("#note")).to_contain_text("price: 'scraper psql")
    assert page.locator(".tab-copy").count() == 0
    window.assert_quiet()


def test_a_shell_sees_one_command_in_what_is_copied(
    flower: Flower, browser: Browser, engine: sa.Engine
) -> None:
    open_crawl(engine, a_site())
    page = Window(browser, flower).open("/crawls/1")
    count = "(text) => crawlsTab.message(text).filter((part) => part instanceof Node).length"
    assert [page.evaluate(count, text) for text, _ in MESSAGES] == [found for _, found in MESSAGES]
