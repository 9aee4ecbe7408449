"""What the plug-in `watch` adds."""

from __future__ import annotations

from scraper.plugin import CRAWLS, Command, Plugin

PLUGIN = Plugin(
    name="watch",
    summary="a live status in the terminal",
    commands={"watch": Command(CRAWLS, "scraper.plugins.watch.command")},
)
