"""A headless Chromium of the tests' own: Debian's package, driven by Playwright, which downloads
none itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from scraper.plugins.browser.chromium import STARTER
from tests.support.machine import need

ARGUMENTS = [
    # CI runs as root, where Chromium has none
    "--no-sandbox",
    "--disable-gpu",
    # One process less to draw with, an eighth of what a page costs. All pages here are our own.
    "--in-process-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def program() -> str | None:
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


def need_chromium() -> str:
    return need(program(), "Chromium is not installed (Debian: apt install chromium)")


@contextmanager
def chromium() -> Iterator[Browser]:
    path = need_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=STARTER,
            headless=True,
            args=ARGUMENTS,
            env={**os.environ, "SCRAPER_CHROMIUM": path},
            timeout=120_000,
        )
        try:
            yield browser
        finally:
            browser.close()
