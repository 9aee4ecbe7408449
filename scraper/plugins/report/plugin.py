"""What the plug-in `report` adds."""

from __future__ import annotations

from scraper.plugin import CRAWLS, Command, Plugin

PLUGIN = Plugin(
    name="report",
    summary="whether a crawl's data can be trusted, field by field",
    commands={"report": Command(CRAWLS, "scraper.plugins.report.command")},
)
