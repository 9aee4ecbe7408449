"""What the plug-in does where the core calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from scraper.infra.database import delete_site_rows
from scraper.plugin import Hooks
from scraper.plugins.coverage import judging, store
from scraper.plugins.coverage.keys import id_of_address
from scraper.registry import plugin_hooks
from scraper.rules.quality import Reason
from scraper.sites.definition import Site


@dataclass(frozen=True, slots=True)
class CountedCrawl:
    """What a worker keeps of a crawl: its site, and what reads ids from addresses."""

    site_id: int
    id_of: Callable[[str], str | None] | None


class CoverageHooks(Hooks):
    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> CountedCrawl:
        return CountedCrawl(site_id, id_of_address(site))

    def judge_crawl(
        self, connection: sa.Connection, crawl: sa.Row[Any], site: Site, products: int
    ) -> Iterable[Reason]:
        lists = store.take_claims(connection, crawl.id)
        doubles = connection.execute(store.DOUBLES, {"id": crawl.id}).one()
        products -= doubles.pages
        if any(hooks.adapter(site) is not None for hooks in plugin_hooks().values()):
            read = connection.execute(store.READ_PRODUCTS, {"id": crawl.id}).scalar_one()
            products = max(products, int(read))
        coverage = judging.measure_coverage(products, lists, doubles.in_sitemap, doubles.addresses)
        if coverage is None:
            return []
        values = {"id": crawl.id, "site_id": crawl.site_id}
        usual = store.usual_share(connection, crawl.site_id, crawl.id)
        connection.execute(
            store.ADD_COVERAGE,
            {
                **values,
                "products": coverage.products,
                "expected": coverage.expected,
                "evidence": coverage.evidence,
            },
        )
        if site.sitemap is not None:
            connection.execute(store.MEASURE_LASTMOD, values)
        # The pages of a sitemap that is followed are crawled, and the crawl reports their faults.
        certain = site.sitemap is None or not site.sitemap.follow
        text = judging.explain_shortfall(coverage, usual, certain=certain)
        return [Reason(None, "coverage", text)] if text else []

    def count_site(self, connection: sa.Connection, site_id: int) -> Mapping[str, int]:
        return {"coverage rows": store.count_rows(connection, site_id)}

    def delete_site(self, connection: sa.Connection, site_id: int, limit: int) -> int:
        return delete_site_rows(connection, store.TABLES, site_id, limit)


HOOKS = CoverageHooks()
