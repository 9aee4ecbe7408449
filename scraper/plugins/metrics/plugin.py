"""What the plug-in `metrics` adds."""

from __future__ import annotations

from scraper.plugin import FLEET, Command, Plugin

PLUGIN = Plugin(
    name="metrics",
    summary="metrics for Prometheus, and OpenTelemetry spans",
    requires={"prometheus_client": "'celery-scraper[metrics]'"},
    settings="scraper.plugins.metrics.settings:MetricsSettings",
    worker="scraper.plugins.metrics.worker_part:MetricsPart",
    commands={"metrics": Command(FLEET, "scraper.plugins.metrics.command")},
)
