"""Where the core calls the plug-in `platforms`. The adapters, which read pages, are imported for
the first site that has one: most commands read none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper.plugin import Hooks
from scraper.plugins.platforms.keys import PlatformsKeys
from scraper.registry import resolve

if TYPE_CHECKING:
    from scraper.extract.adapter import Adapter
    from scraper.sites.definition import Site


class PlatformsHooks(Hooks):
    def adapter(self, site: Site) -> Adapter | None:
        platform = site.of(PlatformsKeys).platform
        if platform is None:
            return None
        adapter: Adapter = resolve("scraper.plugins.platforms.adapters:ADAPTERS")[platform]
        return adapter


HOOKS = PlatformsHooks()
