"""Starts browsers for the core and the author's tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scraper.http.page_browser import PageBrowser
from scraper.plugins.browser import chromium
from scraper.plugins.browser.keys import BrowserKeys, Rendering
from scraper.settings import Settings
from scraper.sites.definition import Site


class ChromiumFactory:
    """A `BrowserFactory` of Chromium, by Playwright."""

    def require(self, settings: Settings) -> None:
        chromium.require_extra()
        chromium.find_program(settings)

    def open(self, settings: Settings, pages: int | None = None) -> PageBrowser:
        # The pool imports the modules that fetch pages, which most processes do not need.
        from scraper.plugins.browser.pool import Browsers

        return Browsers(settings, pages=pages)

    def pages_here(self, settings: Settings) -> int:
        return chromium.pages_here(settings)

    def rendering_of(self, site: Site) -> Rendering | None:
        return site.of(BrowserKeys).browser

    def rendering(self, keys: Mapping[str, Any]) -> Rendering:
        return Rendering.model_validate(keys)


FACTORY = ChromiumFactory()
