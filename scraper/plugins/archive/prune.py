"""Deletes archived pages that are older than their sites' `keep`, and files without any page left.

Pages' rows are deleted first, files after the commit, and then the files' own rows: if a process
dies in between, the next call finds the rest. Each call is bounded, and any number of coordinators
may prune at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa
import structlog

from scraper.domain import Message
from scraper.errors import ScraperError
from scraper.infra import objects
from scraper.infra.database import run_transaction
from scraper.plugins.archive import rows as store
from scraper.plugins.archive.keys import ArchiveUse
from scraper.plugins.archive.rows import EmptySegments
from scraper.settings import Settings
from scraper.sites.grammar.scalars import parse_duration

log = structlog.get_logger()


@dataclass(slots=True)
class Pruned:
    """The result of one call. `more`: whether there may be more to prune. `problems`: the files
    that could not be deleted, and why."""

    pages: int = 0
    segments: int = 0
    more: bool = False
    problems: list[str] = field(default_factory=list)


def tick(engine: sa.Engine, settings: Settings) -> Sequence[Message]:
    """Prunes one bounded piece. Returns nothing to send."""
    prune(engine)
    return ()


def prune(engine: sa.Engine) -> Pruned:
    """Prunes a bounded number of pages of each site, and of files."""
    done = Pruned()
    with engine.connect() as connection:
        sites = store.list_retentions(connection)
    for site in sites:
        forget_pages = partial(store.forget_pages, site_id=site.site_id, keep_s=keep_s(site.keep))
        pages = run_transaction(engine, forget_pages)
        done.pages += pages
        done.more = done.more or pages == store.PAGES_A_PRUNE
    for doomed in run_transaction(engine, store.doom_segments):
        if _delete_segments(engine, doomed, done):
            done.more = done.more or len(doomed.ids) == store.SEGMENTS_A_PRUNE
    if done.pages or done.segments:
        log.info("archive pruned", pages=done.pages, segments=done.segments)
    for problem in done.problems:
        log.error("archived files cannot be deleted", reason=problem)
    return done


def keep_s(keep: str | None) -> float:
    """Parses the `keep` of a stored definition; an unreadable one counts as the default."""
    try:
        return parse_duration(keep or "") or ArchiveUse().keep_s
    except ValueError:
        return ArchiveUse().keep_s


def _delete_segments(engine: sa.Engine, doomed: EmptySegments, done: Pruned) -> bool:
    try:
        objects.open_place(doomed.place, "archive_segments.place").delete(doomed.keys)
    except ScraperError as error:
        done.problems.append(str(error))
        return False
    with engine.begin() as connection:
        store.delete_segments(connection, doomed.ids)
    done.segments += len(doomed.ids)
    return True
