"""Opens crawls by hand, and finds the sites that a person names: their definitions, in files or in
the database."""

from __future__ import annotations

import sys
from collections.abc import Set
from pathlib import Path

import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.coordinator.plan import OpenedCrawl
from scraper.errors import DefinitionError, NotFoundError, did_you_mean, quote_command
from scraper.frontier import sites
from scraper.process import servers
from scraper.runtime.send import send
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views.named_sites import nearest, no_site


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


def definition_in_file(settings: Settings, name: str) -> Site | None:
    """Returns the definition of that name in sites/, or None. A broken file is an error only if it
    may be the one that is meant."""
    return next(iter(definitions_in_files(settings, {name})), None)


def definitions_in_files(settings: Settings, names: Set[str]) -> list[Site]:
    """Returns the definitions of those names in sites/. A broken file is an error if it may be one
    of them, otherwise a warning on stderr."""
    definitions: dict[str, Site] = {}
    problems: list[str] = []
    for path in loader.list_definition_files(settings.sites_dir):
        if len(definitions) == len(names):
            return list(definitions.values())
        try:
            site = loader.load_file(path, settings.site_function_modules)
        except DefinitionError as error:
            if path.stem in names:
                raise
            problems += error.problems
            continue
        if site.name in names:
            definitions.setdefault(site.name, site)
    if len(definitions) < len(names):
        for problem in problems:
            print(f"scraper: warning: {problem}", file=sys.stderr)
    return list(definitions.values())


def stored_site(connection: sa.Connection, name: str) -> tuple[int, Site]:
    """Returns a site's id and stored definition. Raises `NotFoundError`."""
    stored = sites.find_site(connection, name)
    if stored is None:
        raise no_site(name, nearest(connection, name))
    return stored
