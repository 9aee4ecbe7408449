"""What `scraper metrics` exports of plans: shares that are true, requests, broken promises."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily

from scraper.plugins.freshness import store


def read_gauges(connection: sa.Connection) -> Iterator[GaugeMetricFamily]:
    """Yields the metrics of all planned sites."""
    share = GaugeMetricFamily(
        "scraper_plan_fresh_share",
        "Share of a planned site's products that is true: planned, kept, and kept as promised",
        labels=["site", "of"],
    )
    requests = GaugeMetricFamily(
        "scraper_plan_requests",
        "Requests a day of a planned site: planned, and needed by its promise",
        labels=["site", "of"],
    )
    broken = GaugeMetricFamily(
        "scraper_plan_broken",
        "1: what a planned site was promised is not kept, with the reason; 0: it is kept",
        labels=["site", "reason"],
    )
    for row in store.read_plans(connection):
        share.add_metric([row.name, "planned"], row.promised)
        if row.seen_days > 0:
            share.add_metric([row.name, "kept"], row.kept_days / row.seen_days)
            share.add_metric([row.name, "promise_kept"], row.promise_days / row.seen_days)
        requests.add_metric([row.name, "planned"], row.requests)
        requests.add_metric([row.name, "needed"], row.needed)
        broken.add_metric([row.name, row.broken or ""], int(row.broken is not None))
    yield from (share, requests, broken)
