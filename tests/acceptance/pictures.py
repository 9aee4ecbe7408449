"""Takes the pictures in docs/img, of real crawls of sample shops: `pytest -n0
tests/acceptance/pictures.py`. Two minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.support.servers.browser import chromium
from tests.support.servers.flower import Flower
from tests.support.servers.forked import ROOT

FOLDER = ROOT / "docs" / "img"


def test_pictures(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop], environment: Settings
) -> None:
    run.env["SCRAPER_ATTEMPTS_MAX"] = "1"
    faults = ("--latency-ms", "80", "--fail-share", "0.06")
    daily = '# schedule: "0 6 * * *"'
    garden = sample_shop(
        "--products",
        "500",
        *faults,
        name="garden",
        changes={"rate: unlimited": "rate: 50/s", daily: daily[2:]},
    )
    sample_shop(
        "--products",
        "900",
        *faults,
        "--seed",
        "3",
        name="books",
        changes={"rate: unlimited": "rate: 12/s"},
    )
    sample_shop(
        "--products",
        "2600",
        *faults,
        "--seed",
        "5",
        name="kitchen",
        changes={"rate: unlimited": "rate: 28/s"},
    )
    run.coordinator()
    run.worker("residential")
    run.worker("residential,datacenter")
    run.worker("datacenter")
    flower = Flower(run, environment)
    kitchen = int(run.scraper("crawl", "kitchen").stdout)
    run.crawl(engine, "garden")
    garden.visit()
    run.scraper("crawl", "books")
    run.crawl(engine, "garden")
    until(lambda: progress.read_one(engine, kitchen).counts.product_done > 1900, 180)
    with chromium() as browser:
        take(browser, flower, "/crawls", "crawls", height=400)
        take(browser, flower, f"/crawls/{kitchen}", "crawl", height=1330)
        take(browser, flower, f"/crawls/{kitchen}", "crawl-dark", height=860, scheme="dark")
        take(browser, flower, "/crawls", "crawls-narrow", width=390, height=690, scheme="dark")


def take(
    browser: Any,
    flower: Flower,
    path: str,
    name: str,
    *,
    width: int = 1280,
    height: int,
    scheme: str = "light",
) -> None:
    user, password = flower.login
    context = browser.new_context(
        http_credentials={"username": user, "password": password}, color_scheme=scheme, locale="en-GB",
        viewport={"width": width, "height": height},
    )  # fmt: skip
    page = context.new_page()
    page.goto(f"{flower.url}{path}")
    page.wait_for_function("() => document.getElementById('crawls-page').dataset.refreshed > 1")
    page.wait_for_timeout(600)  # bars that still move
    FOLDER.mkdir(exist_ok=True)
    page.screenshot(path=FOLDER / f"{name}.png")
    context.close()
