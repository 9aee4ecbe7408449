"""What the plug-in `database` adds."""

from __future__ import annotations

from scraper.plugin import SETUP, Command, Plugin

PLUGIN = Plugin(
    name="database",
    summary="applies migrations, or shows them; opens the database in psql",
    commands={
        "migrate": Command(SETUP, "scraper.plugins.database.command"),
        "psql": Command(SETUP, "scraper.plugins.database.command"),
    },
)
