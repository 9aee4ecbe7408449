"""What the plug-in `sentinel` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="sentinel",
    summary="finds a replicated Redis by its Sentinels",
    on_load="scraper.plugins.sentinel.clients:load_app",
    services={"Sentinels": "scraper.plugins.sentinel.clients:SENTINELS"},
)
