"""The hooks of the plug-in `departures`: it looks at the pages of every crawl."""

from __future__ import annotations

import sqlalchemy as sa

from scraper.plugin import Hooks
from scraper.sites.definition import Site


class DepartureHooks(Hooks):
    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> bool:
        return True


HOOKS = DepartureHooks()
