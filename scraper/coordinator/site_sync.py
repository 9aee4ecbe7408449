"""What a coordinator process shares between its ticks: an engine, and the site definitions on disk
as last read.

A definition that is broken keeps its last valid version in PostgreSQL; one whose file is gone is no
longer scheduled.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa
import structlog

from scraper import settings as settings_module
from scraper.errors import DefinitionError
from scraper.frontier import sites
from scraper.infra.database import make_engine, retry_transaction
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site

log = structlog.get_logger()

# What the files of each folder were when they were last taken over: path, time and size of each.
_synced: dict[Path, tuple[tuple[str, int, int], ...]] = {}


@lru_cache(maxsize=1)
def _cached_engine(pid: int) -> sa.Engine:
    return make_engine(settings_module.load().postgres_url, pool_size=2)


def process_engine() -> sa.Engine:
    """This process's engine: a forked child must not use its parent's connections."""
    return _cached_engine(os.getpid())


def sync_sites(database: sa.Engine, settings: Settings) -> None:
    """Takes over the definitions under the sites folder when a file has changed since the last
    call."""
    folder = settings.sites_dir
    files = loader.list_definition_files(folder)
    stamps = tuple(_file_stamp(file) for file in files)
    if not files or _synced.get(folder) == stamps:
        return
    good: dict[str, Site] = {}
    broken: list[str] = []
    for file in files:
        file_log = log.bind(file=str(file))
        try:
            site = loader.load_file(file, settings.site_function_modules)
        except DefinitionError as error:
            broken += loader.guess_names(file)
            wrong = "site definition is wrong; its last valid version stays"
            file_log.error(wrong, problems=error.problems)
            continue
        if good.setdefault(site.name, site) is not site:
            file_log.error("a site of this name is defined in another file; this one is not used")

    def work() -> list[str]:
        with database.begin() as connection:
            sites.store_definitions(connection, list(good.values()))
            return sites.retire_all_but(connection, [*good, *broken])

    retired = retry_transaction(work)
    if retired:
        log.warning("no longer scheduled, since their definitions are gone", sites=retired)
    _synced[folder] = stamps


def _file_stamp(file: Path) -> tuple[str, int, int]:
    try:
        stat = file.stat()
    except OSError:
        # It is a dangling link, or gone since it was listed.
        return str(file), 0, 0
    return str(file), stat.st_mtime_ns, stat.st_size
