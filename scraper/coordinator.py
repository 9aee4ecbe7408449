"""What a coordinator process shares between its ticks: an engine, and the site definitions on disk as last read.

A definition that is broken keeps its last valid version in PostgreSQL; one whose file is gone is no longer scheduled.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa
import structlog

from scraper import settings as settings_module
from scraper.errors import DefinitionError
from scraper.settings import Settings
from scraper.sites import loader
from scraper.stores import sites
from scraper.stores.database import make_engine, retried

log = structlog.get_logger()

_seen: dict[Path, tuple[tuple[str, int, int], ...]] = {}


@lru_cache(maxsize=1)
def _engine(pid: int) -> sa.Engine:
    return make_engine(settings_module.load().postgres_url, pool_size=2)


def engine() -> sa.Engine:
    """This process's engine: a forked child must not use its parent's connections."""
    return _engine(os.getpid())


def sync_sites(database: sa.Engine, settings: Settings) -> None:
    """Takes over the definitions under the sites folder when a file has changed since the last call."""
    folder = settings.sites_dir
    files = loader.definition_files(folder)
    state = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    if not files or _seen.get(folder) == state:
        return
    good, broken = [], []
    for file in files:
        try:
            good.append(loader.load_file(file))
        except DefinitionError as error:
            broken.append(file.stem)
            log.error("site definition is wrong; its last valid version stays", file=str(file), problems=error.problems)

    def work() -> list[str]:
        with database.begin() as connection:
            sites.sync(connection, good)
            return sites.retire_all_but(connection, [site.name for site in good] + broken)

    retired = retried(work)
    if retired:
        log.warning("no longer scheduled, since their definitions are gone", sites=retired)
    _seen[folder] = state
