"""What a coordinator process shares between its ticks: an engine, and the state of the definition
files as last read.

A broken definition keeps its last valid version in PostgreSQL. A site whose file was deleted is no
longer scheduled. A folder without any file changes nothing: its disk may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa
import structlog

from scraper import settings as settings_module
from scraper.errors import DefinitionError
from scraper.frontier import sites
from scraper.infra.database import make_engine, run_transaction
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site

log = structlog.get_logger()

# The files of each folder when they were last synced: path, time and size.
_synced: dict[Path, tuple[tuple[str, int, int], ...]] = {}


@lru_cache(maxsize=1)
def _cached_engine(pid: int) -> sa.Engine:
    return make_engine(settings_module.load().postgres_url, pool_size=2)


def process_engine() -> sa.Engine:
    """Returns this process's engine. A forked child must not use its parent's connections."""
    return _cached_engine(os.getpid())


def sync_sites(database: sa.Engine, settings: Settings) -> None:
    """Stores the definitions in the sites folder if a file has changed since the last call."""
    folder = settings.sites_dir
    files = loader.list_definition_files(folder)
    stamps = tuple(_file_stamp(file) for file in (*files, folder / loader.DEFAULTS))
    if not files and _synced.pop(folder, ()):
        log.warning("the sites folder has become empty; its sites stay scheduled")
    if not files or _synced.get(folder) == stamps:
        return
    good, broken = _load_sites(files, settings)

    def store_sites(connection: sa.Connection) -> list[str]:
        sites.store_definitions(connection, list(good.values()))
        return sites.retire_all_but(connection, [*good, *broken])

    retired = run_transaction(database, store_sites)
    if retired:
        log.warning("sites no longer scheduled: their definitions were deleted", sites=retired)
    _synced[folder] = stamps


def _load_sites(files: Sequence[Path], settings: Settings) -> tuple[dict[str, Site], list[str]]:
    """Returns the sites of valid definitions by name, and the names of invalid ones."""
    good: dict[str, Site] = {}
    broken: list[str] = []
    for file in files:
        file_log = log.bind(file=str(file))
        try:
            site = loader.load_file(file, settings.site_function_modules)
        except DefinitionError as error:
            broken += loader.guess_names(file)
            file_log.error(
                "site definition is invalid; keeping its last valid version",
                problems=error.problems,
            )
            continue
        if good.setdefault(site.name, site) is not site:
            file_log.error("another file defines a site of this name; this file is ignored")
    return good, broken


def _file_stamp(file: Path) -> tuple[str, int, int]:
    try:
        stat = file.stat()
    except OSError:
        # The file is a dangling link, or was deleted after the listing.
        return str(file), 0, 0
    return str(file), stat.st_mtime_ns, stat.st_size
