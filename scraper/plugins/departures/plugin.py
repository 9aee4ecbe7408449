"""What the plug-in `departures` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="departures",
    summary="takes product pages that lead elsewhere, or say they have no product, as gone",
    hooks="scraper.plugins.departures.hooks:HOOKS",
    worker="scraper.plugins.departures.worker_part:DeparturesPart",
)
