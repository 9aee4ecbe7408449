"""What the plug-in `changes` adds."""

from __future__ import annotations

from scraper.plugin import DATA, Command, Plugin

PLUGIN = Plugin(
    name="changes",
    summary="prints the feed of changes, and keeps the positions of named consumers",
    commands={
        "changes": Command(DATA, "scraper.plugins.changes.command"),
        "consumers": Command(DATA, "scraper.plugins.changes.command"),
    },
)
