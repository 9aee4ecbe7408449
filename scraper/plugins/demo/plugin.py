"""What the plug-in `demo` adds."""

from __future__ import annotations

from scraper.plugin import SETUP, Command, Plugin

PLUGIN = Plugin(
    name="demo",
    summary="a bundled sample shop and its crawl",
    commands={"demo": Command(SETUP, "scraper.plugins.demo.command")},
)
