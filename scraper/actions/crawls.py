"""Crawls opened by hand, and the sites that are named by hand: their definitions, and whether they
exist."""

from __future__ import annotations

import sys
from collections.abc import Set
from pathlib import Path

import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.coordinator.plan import OpenedCrawl
from scraper.errors import DefinitionError, NotFoundError, did_you_mean
from scraper.frontier import sites
from scraper.infra import servers
from scraper.runtime.send import send
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views.named_sites import nearest, no_site


def open_site(engine: sa.Engine, settings: Settings, name: str, *, refetch: bool) -> OpenedCrawl:
    """Opens a crawl of a site by the newest definition, from sites/ if it is there, else the stored
    one."""
    site = definition_in_file(settings, name)
    with engine.begin() as connection:
        if site is not None:
            sites.store_definitions(connection, [site])
        elif sites.look_up(connection, name) is None:
            raise _no_definition(connection, settings, name)
        else:
            print(
                f"scraper: warning: {settings.sites_dir}/ has no definition of {name!r} any more: "
                "it is crawled by the stored one",
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
        return NotFoundError(f"a crawl is of a site, by its name: type `scraper crawl {path.stem}`")
    names = {path.stem for path in loader.list_definition_files(settings.sites_dir)}
    names |= set(sites.site_names(connection))
    return NotFoundError(
        f"there is no site named {name!r}, neither in {settings.sites_dir}/ nor in the database"
        + did_you_mean(name, names)
    )


def definition_in_file(settings: Settings, name: str) -> Site | None:
    """The definition of that name under sites/, or None. A broken file is only an error where it
    may be the one meant."""
    return next(iter(definitions_in_files(settings, {name})), None)


def definitions_in_files(settings: Settings, names: Set[str]) -> list[Site]:
    """The definitions of those names that are under sites/. A broken file is only an error where it
    may be one of them; otherwise stderr has a warning."""
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
    """A site's id and its definition in the database. Raises `NotFoundError`."""
    stored = sites.find_site(connection, name)
    if stored is None:
        raise no_site(name, nearest(connection, name))
    return stored
