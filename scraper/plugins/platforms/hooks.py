"""Where the core calls the plug-in `platforms`. The adapters, which read pages, are imported for
the first site that has one: most commands read none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper.plugin import Hooks
from scraper.plugins.platforms.keys import PlatformsKeys
from scraper.registry import resolve

if TYPE_CHECKING:
    import sqlalchemy as sa

    from scraper.extract.adapter import Adapter
    from scraper.plugins.platforms.page_fields import PageFields
    from scraper.sites.definition import Site


class PlatformsHooks(Hooks):
    def adapter(self, site: Site) -> Adapter | None:
        platform = site.of(PlatformsKeys).platform
        if platform is None:
            return None
        adapter: Adapter = resolve("scraper.plugins.platforms.adapters:ADAPTERS")[platform.name]
        return adapter

    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> PageFields | None:
        platform = site.of(PlatformsKeys).platform
        if platform is None or not platform.pages:
            return None
        fields: PageFields = resolve("scraper.plugins.platforms.page_fields:PageFields")(site)
        return fields


HOOKS = PlatformsHooks()
