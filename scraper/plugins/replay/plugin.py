"""What the plug-in `replay` adds."""

from __future__ import annotations

from scraper.plugin import CRAWLS, Command, Plugin

PLUGIN = Plugin(
    name="replay",
    summary="shows pages that were given up; replays or drops them",
    commands={"dead": Command(CRAWLS, "scraper.plugins.replay.command")},
    services={"PageReplay": "scraper.plugins.replay.choice:replay_crawl_pages"},
)
