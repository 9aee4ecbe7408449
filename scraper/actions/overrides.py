"""Crawls and sites steered by hand, from the command line or from Flower: stopped, paused, resumed."""

from __future__ import annotations

import sqlalchemy as sa

from scraper.errors import NotFoundError, NotRunningError
from scraper.frontier import crawls, sites
from scraper.infra.database import retried
from scraper.views import progress


def stop(engine: sa.Engine, crawl_id: int, note: str = "stopped by hand") -> None:
    """Ends a crawl now. Raises `NotFoundError` where there is none, `NotRunningError` where it has
    ended."""

    def work() -> bool:
        with engine.begin() as connection:
            return crawls.stop(connection, crawl_id, note)

    if not retried(work):
        found = progress.read_one(engine, crawl_id)
        raise NotRunningError(
            f"crawl {crawl_id} of {found.site} is not running: it is {found.status}"
        )


def set_paused(engine: sa.Engine, name: str, *, paused: bool) -> bool:
    """Pauses or resumes a site. Returns whether that changed anything."""

    def work() -> bool | None:
        with engine.begin() as connection:
            return sites.pause(connection, name) if paused else sites.resume(connection, name)

    changed = retried(work)
    if changed is None:
        raise NotFoundError(
            f"there is no site named {name!r} in the database; `scraper crawl {name}` brings it there"
        )
    return changed
