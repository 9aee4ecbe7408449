"""Dead and invalid pages that a person replays or drops.

Replayed pages join the site's running crawl or, if there is none, a crawl of their own (trigger
`replay`) by the site's current definition. They are leased, fetched and judged like all others,
with their attempts reset. A replay writes no products itself, reads only the listings it was asked
for, and delists nothing.

Batches have a thousand pages and a transaction each, so that no worker waits long for a row. All
batches of a site go into one crawl, which a second connection holds until the last batch is in. An
interrupted replay keeps what it has done; the same command does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.coordinator.discover import dispatch_message
from scraper.domain import CrawlStatus, Kind, Message
from scraper.errors import PausedError, ScraperError, quote_command
from scraper.frontier import crawls, sites
from scraper.frontier import pages as frontier
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.crawls import REPLAY
from scraper.frontier.pages import NewPage, Room
from scraper.infra.database import run_transaction
from scraper.plugins.replay import store as store
from scraper.plugins.replay.store import Selection, SitePages
from scraper.rules.routing import choose_route
from scraper.sites.definition import Site

BATCH = 1000
OPEN_TRIES = 5
# A definition's limits bound new pages; these were added before.
AMPLE = 2**31 - 1

# The second connection is idle while a batch waits for locks, which may take longer than a session
# may be idle.
PATIENCE = sa.text("SET LOCAL idle_in_transaction_session_timeout = '120s'")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay did at one site, or would do. `crawl_id` is None for a crawl that is not open
    yet. An `outdated` crawl began with an older definition, and keeps it. `refused` says why pages
    stayed as they are."""

    site: str
    pages: int
    crawl_id: int | None = None
    opened: bool = False
    outdated: bool = False
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class DropResult:
    site: str
    pages: int


@dataclass(frozen=True, slots=True)
class _Target:
    """The crawl that pages join, which is held, and its definition."""

    crawl_id: int
    site_id: int
    site: Site
    opened: bool
    outdated: bool


@dataclass(frozen=True, slots=True)
class _ReplayedBatch:
    target: _Target
    rows: int
    pages: int
    last: UUID


def preview_replay(engine: sa.Engine, selection: Selection) -> list[ReplayResult]:
    """Returns what `replay_pages` would do now. Changes nothing."""
    with engine.connect() as connection:
        return [
            _preview_site(connection, site) for site in store.count_by_site(connection, selection)
        ]


def _preview_site(connection: sa.Connection, site: SitePages) -> ReplayResult:
    try:
        target = _running_crawl(connection, site)
        if target is None:
            _stored_definition(connection, site)
            return ReplayResult(site.name, site.pages, opened=True)
        return ReplayResult(site.name, site.pages, target.crawl_id, outdated=target.outdated)
    except ScraperError as refusal:
        return ReplayResult(site.name, 0, refused=str(refusal))


def replay_pages(
    engine: sa.Engine, selection: Selection
) -> tuple[list[ReplayResult], list[Message]]:
    """Replays the selected pages, site by site; a site that refuses does not stop the others.
    Returns what was done, and what to send."""
    with engine.connect() as connection:
        chosen = store.count_by_site(connection, selection)
    results = [_replay_site(engine, site, selection) for site in chosen]
    acted = [result for result in results if result.pages or result.refused]
    messages = [dispatch_message()] if any(result.pages for result in acted) else []
    return acted, messages


def preview_drop(engine: sa.Engine, selection: Selection) -> list[DropResult]:
    """Returns what `drop_pages` would do now. Changes nothing."""
    with engine.connect() as connection:
        return [
            DropResult(site.name, site.pages) for site in store.count_by_site(connection, selection)
        ]


def drop_pages(engine: sa.Engine, selection: Selection) -> list[DropResult]:
    """Gives the selected pages up; the next crawl finds them like any other page. Returns how many
    of each site."""
    with engine.connect() as connection:
        chosen = store.count_by_site(connection, selection)
    done = [DropResult(site.name, _drop_site(engine, site, selection)) for site in chosen]
    return [result for result in done if result.pages]


def _replay_site(engine: sa.Engine, site: SitePages, selection: Selection) -> ReplayResult:
    target, pages, after, refused = None, 0, None, None
    with engine.connect() as keeper:
        try:
            while True:
                replay_batch = partial(
                    _replay_batch, site=site, selection=selection, after=after, target=target
                )
                taken = run_transaction(engine, replay_batch)
                if taken is None:
                    break
                target, after, pages = taken.target, taken.last, pages + taken.pages
                if taken.rows < BATCH:
                    break
                keeper.execute(PATIENCE)
                crawls.hold_crawls(keeper, [target.crawl_id])
        except ScraperError as refusal:
            refused = str(refusal)
    if target is None:
        return ReplayResult(site.name, 0, refused=refused)
    return ReplayResult(site.name, pages, target.crawl_id, target.opened, target.outdated, refused)


def _replay_batch(
    connection: sa.Connection,
    site: SitePages,
    selection: Selection,
    after: UUID | None,
    target: _Target | None,
) -> _ReplayedBatch | None:
    """Adds a batch of pages to the crawl, and opens the crawl if needed. Returns None if no page is
    left."""
    target = _join_crawl(connection, site) if target is None else _rejoin_crawl(connection, target)
    rows = store.lock_pages(connection, selection, site.id, after, BATCH)
    if not rows:
        # A crawl without pages is not opened.
        connection.rollback()
        return None
    room = Room(target.crawl_id, AMPLE, AMPLE)
    added = frontier.add_pages(
        connection, [_new_page(row, target) for row in rows], [room], again=True
    )
    counts = CountsByCrawl()
    for change in added.pages:
        counts[target.crawl_id].count_added(change)
    for row in rows:
        # The row is locked since before, so the page has joined from this very status.
        if row.crawl_id == target.crawl_id:
            counts[target.crawl_id].uncount_settled(Kind(row.kind), row.status)
    add_counts(connection, counts)
    return _ReplayedBatch(target, len(rows), len(added.pages), rows[-1].fingerprint)


def _join_crawl(connection: sa.Connection, site: SitePages) -> _Target:
    for _ in range(OPEN_TRIES):
        target = _running_crawl(connection, site) or _open_crawl(connection, site)
        if target is not None:
            return target
    raise ScraperError(f"crawls of {site.name} begin and end just now; try again")


def _rejoin_crawl(connection: sa.Connection, target: _Target) -> _Target:
    if not crawls.hold_crawls(connection, [target.crawl_id]):
        raise ScraperError(
            f"crawl {target.crawl_id} of {target.site.name} was ended while pages were added to "
            "it; the rest stay as they are"
        )
    return target


def _running_crawl(connection: sa.Connection, site: SitePages) -> _Target | None:
    """Returns the site's running crawl. Refuses a paused site, and a crawl that is about to begin,
    since that crawl may find the pages itself."""
    if sites.is_paused(connection, site.id):
        raise PausedError(
            f"{site.name} is paused, so nothing is fetched (fix: "
            f"`{quote_command('scraper sites resume', site.name)}`)"
        )
    row = store.active_crawl(connection, site.id)
    if row is None:
        return None
    if row.status == CrawlStatus.PLANNED:
        raise ScraperError(
            f"crawl {row.id} of {site.name} is about to begin; try again once "
            f"`{quote_command('scraper status', site.name)}` shows it running"
        )
    outdated = row.definition_hash != _stored_definition(connection, site).content_hash
    return _Target(
        row.id,
        site.id,
        _validate_definition(row.definition, site.name),
        opened=False,
        outdated=outdated,
    )


def _open_crawl(connection: sa.Connection, site: SitePages) -> _Target | None:
    """Opens a running crawl for the replay. Returns None if another process opened one at this
    moment. Dead pages are requested however fresh their products are, so it needs no `refetch`,
    which would request everything that a listing leads to."""
    definition = _stored_definition(connection, site)
    crawl_id = crawls.open_crawl(connection, site.id, definition, slot=None, trigger=REPLAY)
    if crawl_id is None:
        return None
    crawls.start_crawl(connection, crawl_id)
    return _Target(crawl_id, site.id, definition, opened=True, outdated=False)


def _stored_definition(connection: sa.Connection, site: SitePages) -> Site:
    query = sa.text("SELECT definition FROM sites WHERE id = :id")
    return _validate_definition(connection.execute(query, {"id": site.id}).scalar_one(), site.name)


def _validate_definition(definition: Mapping[str, Any], name: str) -> Site:
    try:
        return Site.model_validate(definition)
    except ValidationError as error:  # stored by another version
        raise ScraperError(
            f"the stored definition of {name} is no longer valid: "
            f"`{quote_command('scraper crawl', name)}` replaces it"
        ) from error


def _new_page(row: sa.Row[Any], target: _Target) -> NewPage:
    """Returns the page as it was found, routed by the crawl's definition."""
    kind = Kind(row.kind)
    way = choose_route(target.site.routing_preferences, kind, row.url)
    return NewPage(
        site_id=target.site_id,
        crawl_id=target.crawl_id,
        fingerprint=row.fingerprint,
        url=row.url,
        kind=kind,
        host=row.host,
        queue=way.queue,
        priority=way.priority,
        depth=row.depth,
    )


def _drop_site(engine: sa.Engine, site: SitePages, selection: Selection) -> int:
    pages, after = 0, None
    while True:
        drop_batch = partial(
            store.drop_pages, selection=selection, site_id=site.id, after=after, limit=BATCH
        )
        rows = run_transaction(engine, drop_batch)
        pages += len(rows)
        if len(rows) < BATCH:
            return pages
        after = max(row.fingerprint for row in rows)
