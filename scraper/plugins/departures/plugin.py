"""What the plug-in `departures` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="departures",
    summary="takes product pages that lead to a category, the home page or a successor as gone",
    hooks="scraper.plugins.departures.hooks:HOOKS",
    worker="scraper.plugins.departures.worker_part:DeparturesPart",
)
