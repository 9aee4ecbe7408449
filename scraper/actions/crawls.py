"""Opens crawls by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import sqlalchemy as sa

from scraper.actions.named_definitions import definition_in_file
from scraper.coordinator import plan
from scraper.coordinator.plan import OpenedCrawl
from scraper.errors import NotFoundError, did_you_mean, quote_command
from scraper.frontier import sites
from scraper.process import servers
from scraper.runtime.send import send
from scraper.settings import Settings
from scraper.sites import loader


def open_site(engine: sa.Engine, settings: Settings, name: str, *, refetch: bool) -> OpenedCrawl:
    """Opens a crawl of a site by its newest definition: the file in sites/, else the stored one."""
    site = definition_in_file(settings, name)
    with engine.begin() as connection:
        if site is not None:
            sites.store_definitions(connection, [site])
        elif sites.look_up(connection, name) is None:
            raise _no_definition(connection, settings, name)
        else:
            print(
                f"scraper: warning: {settings.sites_dir}/ no longer has a definition of {name!r}: "
                "the crawl uses the stored one",
                file=sys.stderr,
            )
    servers.require_broker(settings)
    opened = plan.open_now(engine, name, refetch=refetch)
    send(opened.messages)
    return opened


def _no_definition(connection: sa.Connection, settings: Settings, name: str) -> NotFoundError:
    if "://" in name:
        return NotFoundError(
            f"{name} is an address: write a definition in {settings.sites_dir}/ that starts there "
            "(`scraper init` has an example), then type `scraper crawl` and its name"
        )
    path = Path(name)
    if path.suffix in loader.SUFFIXES:
        return NotFoundError(
            f"a crawl takes a site's name: type `{quote_command('scraper crawl', path.stem)}`"
        )
    names = {path.stem for path in loader.list_definition_files(settings.sites_dir)}
    names |= set(sites.site_names(connection))
    return NotFoundError(
        f"no site named {name!r}, neither in {settings.sites_dir}/ nor in the database"
        + did_you_mean(name, names)
    )
