"""What the plug-in `stream` adds."""

from __future__ import annotations

from scraper.plugin import Plugin, Tick

PLUGIN = Plugin(
    name="stream",
    summary="writes the feed of changes to a Redis Stream",
    settings="scraper.plugins.stream.settings:StreamSettings",
    ticks=[
        Tick("publish", 1.0, "scraper.plugins.stream.publish:publish", setting="changes_stream")
    ],
)
