"""What the plug-in `prices` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="prices",
    summary="SQL views of prices and their changes",
    migrations="scraper.plugins.prices.migrations",
    tab_pages={"drops": "scraper.plugins.prices.drops"},
)
