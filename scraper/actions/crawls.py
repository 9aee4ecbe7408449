"""Crawls opened by hand, and the sites that are named by hand: their definitions, and whether they
exist."""

from __future__ import annotations

import sys
from collections.abc import Set

import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.coordinator.plan import Opened
from scraper.errors import DefinitionError, NotFoundError
from scraper.frontier import sites
from scraper.infra import servers
from scraper.runtime.send import send
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site


def open_site(engine: sa.Engine, settings: Settings, name: str, *, refetch: bool) -> Opened:
    """Opens a crawl of a site by the newest definition, from sites/ if it is there, else the stored
    one."""
    site = definition_in_file(settings, name)
    if site is not None:
        with engine.begin() as connection:
            sites.sync(connection, [site])
    servers.require_broker(settings)
    opened = plan.open_now(engine, name, refetch=refetch)
    send(opened.messages)
    return opened


def definition_in_file(settings: Settings, name: str) -> Site | None:
    """The definition of that name under sites/, or None. A broken file is only an error where it
    may be the one meant."""
    return next(iter(definitions_in_files(settings, {name})), None)


def definitions_in_files(settings: Settings, names: Set[str]) -> list[Site]:
    """The definitions of those names that are under sites/. A broken file is only an error where it
    may be one of them; otherwise stderr has a warning."""
    definitions: dict[str, Site] = {}
    problems: list[str] = []
    for path in loader.definition_files(settings.sites_dir):
        if len(definitions) == len(names):
            return list(definitions.values())
        try:
            site = loader.load_file(path)
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
    stored = sites.find(connection, name)
    if stored is None:
        raise no_site(name, f"`scraper crawl {name}` brings it there")
    return stored


def require_site(connection: sa.Connection, name: str | None) -> None:
    """Raises `NotFoundError` where a site is named that is not in the database."""
    if name is not None and sites.look(connection, name) is None:
        raise no_site(name)


def no_site(name: str, hint: str = "`scraper status` shows those crawled") -> NotFoundError:
    return NotFoundError(f"there is no site named {name!r} in the database; {hint}")
