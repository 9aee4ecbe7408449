"""What the plug-in does where the core calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import sqlalchemy as sa

from scraper.infra.database import delete_site_rows
from scraper.plugin import Hooks
from scraper.plugins.freshness import signals, store, traffic
from scraper.plugins.freshness.keys import FreshnessKeys
from scraper.plugins.freshness.rules.limits import budget_of
from scraper.rules.revisit import Bounds
from scraper.settings import Settings
from scraper.sites.definition import Site

if TYPE_CHECKING:
    from prometheus_client import Metric

COUNT = sa.text("SELECT count(*) FROM page_visits WHERE site_id = :site_id")


@dataclass(frozen=True, slots=True)
class PlannedCrawl:
    """What a worker keeps of a planned site's crawl."""

    site_id: int
    # Count what requests use.
    measured: bool = False
    # Learn how long each page rests.
    bounds: Bounds | None = None


class FreshnessHooks(Hooks):
    def check_site(self, site: Site, settings: Settings) -> Iterator[tuple[str, str]]:
        if site.of(FreshnessKeys).fresh is not None and FreshnessKeys.is_read_whole(site):
            yield (
                "fresh",
                "no page is visited: each crawl reads all products from the platform (fix: remove "
                "it, and crawl as often as its age, by `schedule`)",
            )

    def open_crawl(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site, *, refetch: bool
    ) -> None:
        keys = site.of(FreshnessKeys)
        if not keys.is_planned:
            return
        plan = store.read_plan(connection, site_id)
        others = store.other_requests(connection, site_id)
        limits = traffic.read_limits(connection, site_id, keys, others)
        requests = budget_of(limits, others) or (plan.requests if plan else 0.0)
        if plan is not None:
            hosts = plan.hosts
        else:
            # A new site has at least the hosts that its definition names.
            hosts = max(store.count_hosts(connection, site_id)[0], len(site.allowed_hosts))
        store.limit_rate(connection, crawl_id, site, requests, hosts)
        if not refetch:
            store.leave_visits_to_plan(connection, crawl_id)

    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> PlannedCrawl | None:
        keys = site.of(FreshnessKeys)
        if keys.is_planned:
            return PlannedCrawl(site_id, keys.is_measured)
        bounds = site.revisit.bounds
        return PlannedCrawl(site_id, bounds=bounds) if bounds.adaptive else None

    def count_site(self, connection: sa.Connection, site_id: int) -> Mapping[str, int]:
        count = connection.execute(COUNT, {"site_id": site_id}).scalar_one()
        return {"planned visits": int(count)}

    def delete_site(self, connection: sa.Connection, site_id: int, limit: int) -> int:
        tables = "site_plans", "site_traffic", *signals.TABLES, "page_visits"
        return delete_site_rows(connection, tables, site_id, limit)

    def stored_metrics(self, connection: sa.Connection) -> Iterable[Metric]:
        # Only the exporter has what counts metrics.
        gauges = import_module("scraper.plugins.freshness.gauges")
        metrics: Iterable[Metric] = gauges.read_gauges(connection)
        return metrics


HOOKS = FreshnessHooks()
