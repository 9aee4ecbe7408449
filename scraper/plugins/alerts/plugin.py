"""What the plug-in `alerts` adds."""

from __future__ import annotations

from scraper.plugin import DATA, Command, Plugin, Tick

PLUGIN = Plugin(
    name="alerts",
    summary="sends alerts about crawls and price changes",
    requires={"apprise": "'celery-scraper[alerts]'"},
    settings="scraper.plugins.alerts.settings:AlertsSettings",
    keys="scraper.plugins.alerts.keys:AlertsKeys",
    hooks="scraper.plugins.alerts.hooks:HOOKS",
    models="scraper.plugins.alerts.models",
    services={"WatchedProducts": "scraper.plugins.alerts.prices.outbox:watched_products"},
    commands={"alerts": Command(DATA, "scraper.plugins.alerts.command")},
    tab_pages={"alerts": "scraper.plugins.alerts.tab"},
    ticks=[Tick("alert", 5.0, "scraper.plugins.alerts.tick:send_alerts")],
)
