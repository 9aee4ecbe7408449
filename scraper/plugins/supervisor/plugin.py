"""What the plug-in `supervisor` adds."""

from __future__ import annotations

from scraper.plugin import SETUP, Command, Plugin

PLUGIN = Plugin(
    name="supervisor",
    summary="runs servers, coordinator, workers and Flower in one command",
    commands={"start": Command(SETUP, "scraper.plugins.supervisor.command")},
    services={"ServersOwner": "scraper.plugins.supervisor.lock:OWNER"},
    on_load="scraper.plugins.supervisor.orphans:load_app",
)
