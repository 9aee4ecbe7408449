"""What the plug-in `platforms` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="platforms",
    summary="reads shops by their platform's own interface",
    keys="scraper.plugins.platforms.keys:PlatformsKeys",
    hooks="scraper.plugins.platforms.hooks:HOOKS",
    worker="scraper.plugins.platforms.worker_part:PlatformsPart",
    services={"PlatformAdapters": "scraper.plugins.platforms.adapters:ADAPTERS"},
)
