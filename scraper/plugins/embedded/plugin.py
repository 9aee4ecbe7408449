"""What the plug-in `embedded` adds."""

from __future__ import annotations

from scraper.plugin import SETUP, Command, Plugin

PLUGIN = Plugin(
    name="embedded",
    summary="starts PostgreSQL and Valkey on this machine",
    commands={
        "up": Command(SETUP, "scraper.plugins.embedded.command"),
        "down": Command(SETUP, "scraper.plugins.embedded.command"),
    },
    services={"LocalServers": "scraper.plugins.embedded.servers:SERVERS"},
)
