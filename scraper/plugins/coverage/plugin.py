"""What the plug-in `coverage` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="coverage",
    summary="compares what a crawl has found with what the shop says it has",
    keys="scraper.plugins.coverage.keys:CoverageKeys",
    models="scraper.plugins.coverage.models",
    migrations="scraper.plugins.coverage.migrations",
    hooks="scraper.plugins.coverage.hooks:HOOKS",
    services={"CoverageReader": "scraper.plugins.coverage.store:read_coverage"},
    worker="scraper.plugins.coverage.worker_part:CoveragePart",
)
