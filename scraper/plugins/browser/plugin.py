"""What the plug-in `browser` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="browser",
    summary="shows pages in Chromium before they are read",
    requires={"playwright": "'celery-scraper[browser]'"},
    settings="scraper.plugins.browser.settings:BrowserSettings",
    keys="scraper.plugins.browser.keys:BrowserKeys",
    on_worker_start="scraper.plugins.browser.hooks:start_worker",
    hooks="scraper.plugins.browser.hooks:HOOKS",
    worker="scraper.plugins.browser.worker_part:BrowserPart",
    services={"BrowserFactory": "scraper.plugins.browser.factory:FACTORY"},
)
