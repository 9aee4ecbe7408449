"""Where the core calls the plug-in `browser`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import structlog

from scraper.plugin import Hooks
from scraper.plugins.browser.keys import BrowserKeys
from scraper.rules.routing import is_browser_queue
from scraper.settings import Settings
from scraper.sites.definition import Site

log = structlog.get_logger()


def start_worker(settings: Settings, queues: Collection[str]) -> None:
    """Starts a browser once for a test if the worker serves a browser queue. Raises `ConfigError`
    with what is missing."""
    if not any(is_browser_queue(queue) for queue in queues):
        return
    from scraper.plugins.browser import chromium

    version = asyncio.run(chromium.check_chromium(settings))
    if not chromium.has_sandbox():
        log.warning(
            "runs as root: Chromium has no sandbox (fix: run browser workers as another user)"
        )
    log.info("browser found", version=version)


class BrowserHooks(Hooks):
    def named_functions(self, site: Site) -> Mapping[str, str | None]:
        rendering = site.of(BrowserKeys).browser
        return {"browser.setup": rendering.setup if rendering is not None else None}


HOOKS = BrowserHooks()
