"""What the plug-in `freshness` adds."""

from __future__ import annotations

from scraper.plugin import CRAWLS, Command, Plugin, Tick

PLUGIN = Plugin(
    name="freshness",
    summary="plans visits by how often pages change, within a budget of requests",
    keys="scraper.plugins.freshness.keys:FreshnessKeys",
    models="scraper.plugins.freshness.models",
    migrations="scraper.plugins.freshness.migrations",
    hooks="scraper.plugins.freshness.hooks:HOOKS",
    worker="scraper.plugins.freshness.worker_part:FreshnessPart",
    commands={"plan": Command(CRAWLS, "scraper.plugins.freshness.command")},
    tab_pages={"plans": "scraper.plugins.freshness.plans"},
    ticks=[Tick("visit", 5.0, "scraper.plugins.freshness.rounds:visit_pages")],
)
