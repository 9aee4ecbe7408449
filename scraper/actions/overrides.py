"""Overrides of the schedule by hand, from the command line or from Flower: stopping crawls, pausing
and resuming sites."""

from __future__ import annotations

import sqlalchemy as sa

from scraper.errors import NotRunningError, quote_command
from scraper.frontier import crawls, sites
from scraper.infra.database import run_transaction
from scraper.views import crawl_progress as progress
from scraper.views.named_sites import no_site, require_site


def stop_crawl(engine: sa.Engine, crawl_id: int, note: str = "stopped by hand") -> None:
    """Ends a crawl now. Raises `NotFoundError` if it does not exist, `NotRunningError` if it has
    ended."""
    if not run_transaction(
        engine, lambda connection: crawls.stop_crawl(connection, crawl_id, note)
    ):
        crawl = progress.read_one(engine, crawl_id)
        raise NotRunningError(
            f"crawl {crawl_id} of {crawl.site} is not running: it is {crawl.status}"
        )


def stop_crawls(engine: sa.Engine, which: str | None) -> list[int]:
    """Stops the crawl of that id, the running crawls of that site, or (None) all running crawls.
    Returns their ids. Raises `NotFoundError`, and `NotRunningError` if the named crawl has
    ended."""
    if which is not None and which.isdecimal():
        stop_crawl(engine, int(which))
        return [int(which)]
    with engine.connect() as connection:
        require_site(connection, which)
        running = crawls.running_ids(connection, which)
    if which is not None and not running:
        raise NotRunningError(f"no crawl of {which} is running")
    return [crawl_id for crawl_id in running if _stop_unless_ended(engine, crawl_id)]


def _stop_unless_ended(engine: sa.Engine, crawl_id: int) -> bool:
    """Stops a crawl. Returns False if it has ended by itself."""
    try:
        stop_crawl(engine, crawl_id)
    except NotRunningError:
        return False
    return True


def set_paused(engine: sa.Engine, name: str, *, paused: bool) -> bool:
    """Pauses or resumes a site. Returns True if that changed anything."""
    change = sites.pause_site if paused else sites.resume_site
    changed = run_transaction(engine, lambda connection: change(connection, name))
    if changed is None:
        raise no_site(name, f"`{quote_command('scraper crawl', name)}` brings it there")
    return changed
