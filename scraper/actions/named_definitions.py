"""Finds the definitions of the sites that a person names, in files or in the database. It is apart
from what opens crawls, so that commands that only read import no Celery."""

from __future__ import annotations

import sys
from collections.abc import Set

import sqlalchemy as sa

from scraper.errors import DefinitionError
from scraper.frontier import sites
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views.named_sites import nearest, no_site


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
