"""Moves finished pages of sites with `dedup: bloom` from the frontier to a filter in Redis.

The order of steps keeps URLs from being lost. An open page has a row. Once its verdict is
committed, its URL is added to the filter, and only then is its row deleted; a process that dies in
between leaves a finished row, which is deleted when its crawl has ended. So apart from false
positives, the filter never contains a URL that was not fetched. Redis may lose everything at any
moment: then URLs are fetched again.

No transaction waits for Redis. If it does not answer, every link counts as new, and finished pages
keep their rows, as at any other site.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID

import redis
import sqlalchemy as sa
import structlog
from redis.exceptions import RedisError

from scraper.domain import Kind, Message
from scraper.infra import outages, redis_clients
from scraper.infra.database import run_transaction
from scraper.plugins.dedup import filters as dedup
from scraper.plugins.dedup.bloom import BloomFilter, FilterStore
from scraper.plugins.dedup.filters import CHUNK, EndedCrawl
from scraper.results.transaction import PageResult
from scraper.settings import Settings

log = structlog.get_logger()

# A worker's writer, and its pages, wait at most this long for Redis.
TIMEOUT_S = 2.0
# After a call without an answer, Redis is not asked for this long.
AWAY_S = 5.0
# A coordinator's tick clears for at most this long.
CLEAR_S = 1.5
# A crawl's number of listed products is written when it has grown by this share.
LISTED_STEP = 0.005
# Crawls whose numbers of listed products are kept in memory.
CRAWLS_KEPT = 1000

START = UUID(int=0)


@dataclass(frozen=True, slots=True)
class FilterUse:
    """Accompanies a page's result: its crawl's filter, and a product page's fingerprint."""

    filter: BloomFilter
    fingerprint: UUID | None = None


@dataclass(frozen=True, slots=True)
class FinishedPage:
    """A page whose row may be deleted once the filter remembers it."""

    filter: BloomFilter
    page_id: int
    fingerprint: UUID


class RememberedLinks:
    """A worker's access to the filters. Used only by its writer's thread."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = settings.valkey_url
        self._clock = clock
        self._filters: FilterStore | None = None
        self._client: redis.Redis | None = None
        self._away_until = float("-inf")
        # How many products each crawl has listed, in PostgreSQL and by Redis's latest answer.
        self._stored: dict[int, int] = {}
        self._listed: dict[int, int] = {}

    def drop_remembered(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        """Returns the pages without their links to remembered products. Other links stay, since
        listings are read in each crawl."""
        asked: dict[tuple[BloomFilter, int], set[UUID]] = defaultdict(set)
        for page in pages:
            use = filter_use(page)
            if use is not None:
                asked[use.filter, page.crawl_id].update(
                    link.fingerprint for link in page.links if link.kind is Kind.PRODUCT
                )
        remembered: set[tuple[UUID, UUID]] = set()
        for (bloom, crawl_id), links in asked.items():
            if links:
                fingerprints = list(links)
                with self._connected() as filters:
                    if filters is not None:
                        answers, listed = filters.lookup(bloom, fingerprints, crawl_id)
                        remembered.update(
                            (bloom.id, fingerprint)
                            for fingerprint, yes in zip(fingerprints, answers, strict=True)
                            if yes
                        )
                        if listed > self._listed.get(crawl_id, 0):
                            self._listed[crawl_id] = listed
        return [_drop_links(page, remembered) for page in pages] if asked else pages

    def remember_pages(self, engine: sa.Engine, finished: Sequence[FinishedPage]) -> None:
        """Adds finished pages, whose verdicts are committed, to the filter, and deletes their rows.
        Never raises: rows that are left are deleted when their crawl has ended."""
        by_filter: dict[BloomFilter, list[FinishedPage]] = defaultdict(list)
        for page in finished:
            by_filter[page.filter].append(page)
        remembered: list[int] = []
        for bloom, group in by_filter.items():
            with self._connected() as filters:
                if filters is not None:
                    filters.add(bloom, [page.fingerprint for page in group])
                    remembered += [page.page_id for page in group]
        listed = {
            crawl_id: count
            for crawl_id, count in self._listed.items()
            if count > self._stored.get(crawl_id, 0) * (1 + LISTED_STEP)
        }
        if not remembered and not listed:
            return
        try:
            run_transaction(
                engine, lambda connection: _store_progress(connection, remembered, listed)
            )
        except Exception as error:
            if not outages.record_outage(error):
                log.exception("finished pages stay in the frontier for now", pages=len(remembered))
            return
        self._stored |= listed
        while len(self._stored) > CRAWLS_KEPT:
            oldest = next(iter(self._stored))
            del self._stored[oldest]
            self._listed.pop(oldest, None)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    @contextmanager
    def _connected(self) -> Iterator[FilterStore | None]:
        """Yields the filters, or None if Redis did not answer a moment ago. Handles its errors."""
        if self._clock() < self._away_until:
            yield None
            return
        if self._filters is None:
            self._client = connect(self._url)
            self._filters = FilterStore(self._client)
        try:
            with outages.redis_server().watching(outages.is_broker_away):
                yield self._filters
        except RedisError as error:
            self._away_until = self._clock() + AWAY_S
            _log_refusal(error)


def clear(engine: sa.Engine, settings: Settings) -> Sequence[Message]:
    """Deletes finished pages of ended crawls from the frontier, for about a second per tick. Raises
    errors of PostgreSQL."""
    with engine.begin() as connection:
        ended = dedup.read_uncleared(connection)
    if not ended:
        return ()
    until = time.monotonic() + CLEAR_S
    client = connect(settings.valkey_url)
    try:
        with outages.redis_server().watching(outages.is_broker_away):
            for crawl in ended:
                if not _clear_crawl(engine, FilterStore(client), crawl, until):
                    break
    except RedisError as error:
        _log_refusal(error)
    finally:
        client.close()
    return ()


def _clear_crawl(engine: sa.Engine, filters: FilterStore, ended: EndedCrawl, until: float) -> bool:
    """Returns whether no page is left. URLs are added before rows are deleted, and no lock is held
    while Redis is asked."""
    after, deleted = START, 0
    while time.monotonic() < until:
        with engine.begin() as connection:
            rows = dedup.read_leftovers(connection, ended, after)
        fingerprints = [row.fingerprint for row in rows if row.remembered]
        if fingerprints:
            filters.add(ended.filter, fingerprints)
        _delete_finished(engine, ended, [row.id for row in rows], done=len(rows) < CHUNK)
        deleted += len(rows)
        if len(rows) < CHUNK:
            filters.delete_filters(ended.filter.site_id, kept=ended.newest)
            if deleted:
                log.info("finished pages left the frontier", crawl=ended.id, pages=deleted)
            return True
        after = rows[-1].fingerprint
    return False


def _delete_finished(
    engine: sa.Engine, ended: EndedCrawl, page_ids: list[int], *, done: bool
) -> None:
    def delete(connection: sa.Connection) -> None:
        dedup.delete_finished(connection, ended, page_ids)
        if done:
            dedup.set_cleared(connection, ended.id)

    run_transaction(engine, delete)


def _store_progress(
    connection: sa.Connection, page_ids: Sequence[int], listed: dict[int, int]
) -> None:
    """Deletes the rows of remembered pages, and writes crawls' numbers of listed products."""
    # It need not be durable: what a crash undoes is repeated when the crawl has ended.
    connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
    if page_ids:
        dedup.delete_remembered(connection, page_ids)
    for crawl_id, products in sorted(listed.items()):
        dedup.set_listed(connection, crawl_id, products)


def _drop_links(page: PageResult, remembered: set[tuple[UUID, UUID]]) -> PageResult:
    use = filter_use(page)
    if use is None or not page.links:
        return page
    filter_id = use.filter.id
    links = [
        link
        for link in page.links
        if link.kind is not Kind.PRODUCT or (filter_id, link.fingerprint) not in remembered
    ]
    return replace(page, links=links, only_new_links=True)


def _log_refusal(error: RedisError) -> None:
    """Logs a refusal; `scraper.infra.outages` logs that Redis is away."""
    if not outages.is_broker_away(error):
        log.error(
            "Redis refuses the Bloom filter: pages stay in the frontier, and links count as new",
            error=str(error)[:300],
        )


def connect(url: str) -> redis.Redis:
    """Connects without retries, since the caller has pages to store."""
    return redis_clients.connect(url, timeout_s=TIMEOUT_S)


def filter_use(page: PageResult) -> FilterUse | None:
    """Returns the page's use of a filter; None if its crawl has none."""
    use = page.extras.get("dedup")
    return use if isinstance(use, FilterUse) else None
