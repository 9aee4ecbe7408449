"""What the plug-in `setup` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="setup",
    summary="adds shops and changes definitions in the Crawls tab",
    settings="scraper.plugins.setup.settings:SetupSettings",
    models="scraper.plugins.setup.models",
    migrations="scraper.plugins.setup.migrations",
    services={"LoggedFiles": "scraper.plugins.setup.files:FILES"},
    tab_pages={"setup": "scraper.plugins.setup.tab"},
)
