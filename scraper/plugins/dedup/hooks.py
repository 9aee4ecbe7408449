"""The hooks of the plug-in `dedup`: give a crawl its filter, and delist its missed products."""

from __future__ import annotations

import sqlalchemy as sa

from scraper.cli.common.shared import open_redis
from scraper.plugin import Hooks
from scraper.plugins.dedup import filters
from scraper.plugins.dedup.bloom import BloomFilter, FilterStore
from scraper.plugins.dedup.keys import DedupKeys
from scraper.results.missed_products import DELISTED_AFTER, Misses
from scraper.settings import Settings
from scraper.sites.definition import Site


class DedupHooks(Hooks):
    def open_crawl(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site, *, refetch: bool
    ) -> None:
        if site.of(DedupKeys).dedup.by == "bloom":
            filters.assign_filter(connection, crawl_id, site_id, renew=refetch)

    def keeps_frontier(self, site: Site) -> bool:
        return site.of(DedupKeys).dedup.by == "exact"

    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> BloomFilter | None:
        return filters.find_filter(connection, crawl_id, site_id, site)

    def delist(self, connection: sa.Connection, crawl: sa.Row[tuple[object, ...]]) -> Misses | None:
        if crawl.filter_id is None:
            return None
        life_s = Site.model_validate(crawl.definition).revisit_s
        count = filters.delist_missed(connection, crawl.id, crawl.site_id, life_s, DELISTED_AFTER)
        return Misses(count, None)

    def forget_site(self, settings: Settings, site_id: int, name: str) -> None:
        with open_redis(settings) as client:
            FilterStore(client).delete_filters(site_id)


HOOKS = DedupHooks()
