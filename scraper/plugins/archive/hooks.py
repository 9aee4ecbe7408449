"""Where the core calls the plug-in `archive`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from scraper.plugin import Hooks
from scraper.plugins.archive import rows
from scraper.plugins.archive.keys import ArchiveKeys, ArchiveUse
from scraper.sites.definition import Site

if TYPE_CHECKING:
    from prometheus_client import Metric


class ArchiveHooks(Hooks):
    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> ArchiveUse | None:
        return site.of(ArchiveKeys).archive

    def stored_metrics(self, connection: sa.Connection) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily(
            "scraper_archive_unfinished_segments",
            "Segments of the archive that a worker announced and did not store; swept after a day",
            rows.count_unfinished(connection),
        )

    def delete_site(self, connection: sa.Connection, site_id: int, limit: int) -> int:
        return rows.forget_pages(connection, site_id, 0.0)

    def count_site(self, connection: sa.Connection, site_id: int) -> dict[str, int]:
        return {"archived pages": rows.count_pages(connection, site_id)}


HOOKS = ArchiveHooks()
