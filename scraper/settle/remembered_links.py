"""Finished pages of sites with `dedup: bloom`: remembered by a filter in Redis, and out of the
frontier.

The order is what keeps a URL from being lost. While a page is open, its row is what tells it apart.
Once its verdict is committed, its URL is added to the filter, and only then is its row deleted;
whoever dies in between leaves a row of a page that is finished, which is taken out when its crawl
has ended. So the filter never knows a URL that nobody has fetched, but for its false positives; and
Redis may forget everything at any moment: then URLs are fetched once more.

No transaction waits for Redis. Where it does not answer, every link counts as new and finished
pages stay where they are, told apart by their rows as at any other site.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID

import redis
import sqlalchemy as sa
import structlog
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from scraper.dedup import filters as dedup
from scraper.dedup.bloom import BloomFilter, FilterStore
from scraper.dedup.filters import CHUNK, Ended
from scraper.domain import Kind
from scraper.infra import outages
from scraper.infra.database import retried
from scraper.settings import Settings
from scraper.settle.transaction import Finished, PageResult

log = structlog.get_logger()

# of a question: the writer of a worker waits for it, and pages with it
TIMEOUT_S = 2.0
# after one without an answer none is asked
AWAY_S = 5.0
CLEAR_S = 1.5  # of a coordinator's tick
# a crawl's number of listed products is written when it has grown by so much
LISTED_STEP = 0.005

START = UUID(int=0)


class Dedup:
    """A worker's part. Belongs to its writer's thread."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = settings.valkey_url
        self._clock = clock
        self._filters: FilterStore | None = None
        self._client: redis.Redis | None = None
        self._away_until = float("-inf")
        self._listed: dict[int, int] = {}  # as written, by crawl
        self._found: dict[int, int] = {}  # as found since

    def new_links(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        """The pages without those of their links to products that are remembered. Other links are
        not asked about: what lists products is read in each crawl."""
        asked: dict[tuple[BloomFilter, int], set[UUID]] = defaultdict(set)
        for page in pages:
            if page.filter is not None:
                mine = asked[page.filter, page.settled.crawl_id]
                mine.update(link.fingerprint for link in page.links if link.kind is Kind.PRODUCT)
        known: set[tuple[UUID, UUID]] = set()
        for (one, crawl_id), fingerprints in asked.items():
            if fingerprints:
                some = list(fingerprints)
                with self._asking() as filters:
                    if filters is not None:
                        answers, listed = filters.lookup(one, some, crawl_id)
                        known.update(
                            (one.id, each) for each, yes in zip(some, answers, strict=True) if yes
                        )
                        if listed > self._found.get(crawl_id, 0):
                            self._found[crawl_id] = listed
        return [_without(page, known) for page in pages] if known else pages

    def leave(self, engine: sa.Engine, finished: Sequence[Finished]) -> None:
        """Remembers finished pages, whose verdicts are committed, and takes them out of the
        frontier. Raises nothing: what could not be done is done when their crawl has ended."""
        by_filter: dict[BloomFilter, list[Finished]] = defaultdict(list)
        for each in finished:
            by_filter[each.filter].append(each)
        remembered: list[int] = []
        for one, some in by_filter.items():
            with self._asking() as filters:
                if filters is not None:
                    filters.add(one, [each.fingerprint for each in some])
                    remembered += [each.page_id for each in some]
        listed = {
            crawl_id: found
            for crawl_id, found in self._found.items()
            if found > self._listed.get(crawl_id, 0) * (1 + LISTED_STEP)
        }
        if not remembered and not listed:
            return
        try:
            retried(lambda: _store(engine, remembered, listed))
        except Exception as error:
            if not outages.record(error):
                log.exception("finished pages stay in the frontier for now", pages=len(remembered))
            return
        self._listed |= listed
        while len(self._listed) > 1000:
            gone = next(iter(self._listed))
            del self._listed[gone]
            self._found.pop(gone, None)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    @contextmanager
    def _asking(self) -> Iterator[FilterStore | None]:
        """None where Redis did not answer a moment ago. Its errors end here."""
        if self._clock() < self._away_until:
            yield None
            return
        if self._filters is None:
            self._client = connect(self._url)
            self._filters = FilterStore(self._client)
        try:
            with outages.redis_server().watching(outages.broker_away):
                yield self._filters
        except RedisError as error:
            self._away_until = self._clock() + AWAY_S
            _told(error)


def clear(engine: sa.Engine, settings: Settings) -> None:
    """A coordinator's part: what crawls that have ended left in the frontier, a second's worth at a
    time. Raises what PostgreSQL does."""
    with engine.begin() as connection:
        ended = dedup.uncleared(connection)
    if not ended:
        return
    until = time.monotonic() + CLEAR_S
    client = connect(settings.valkey_url)
    try:
        with outages.redis_server().watching(outages.broker_away):
            for each in ended:
                if not _clear(engine, FilterStore(client), each, until):
                    return
    except RedisError as error:
        _told(error)
    finally:
        client.close()


def _clear(engine: sa.Engine, filters: FilterStore, ended: Ended, until: float) -> bool:
    """True when nothing is left. Added before anything is deleted; and no lock is held while Redis
    is asked."""
    after, taken = START, 0
    while time.monotonic() < until:
        with engine.begin() as connection:
            rows = dedup.left_behind(connection, ended, after)
        fingerprints = [row.fingerprint for row in rows if row.remembered]
        if fingerprints:
            filters.add(ended.filter, fingerprints)
        _take_out(engine, ended, [row.id for row in rows], done=len(rows) < CHUNK)
        taken += len(rows)
        if len(rows) < CHUNK:
            filters.forget(ended.filter.site_id, but=ended.newest)
            if taken:
                log.info("finished pages left the frontier", crawl=ended.id, pages=taken)
            return True
        after = rows[-1].fingerprint
    return False


def _take_out(engine: sa.Engine, ended: Ended, page_ids: list[int], *, done: bool) -> None:
    def work() -> None:
        with engine.begin() as connection:
            dedup.take_out(connection, ended, page_ids)
            if done:
                dedup.cleared(connection, ended.id)

    retried(work)


def _store(engine: sa.Engine, page_ids: Sequence[int], listed: dict[int, int]) -> None:
    """No need to wait for the disk: what a crash undoes is done when the crawl has ended."""
    with engine.begin() as connection:
        connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
        if page_ids:
            dedup.leave(connection, page_ids)
        for crawl_id, products in sorted(listed.items()):
            dedup.listed(connection, crawl_id, products)


def _without(page: PageResult, known: set[tuple[UUID, UUID]]) -> PageResult:
    if page.filter is None or not page.links:
        return page
    filter_id = page.filter.id
    links = [
        link
        for link in page.links
        if link.kind is not Kind.PRODUCT or (filter_id, link.fingerprint) not in known
    ]
    return page if len(links) == len(page.links) else replace(page, links=links)


def _told(error: RedisError) -> None:
    """Being away was told by `scraper.infra.outages`; a refusal is not that."""
    if not outages.broker_away(error):
        log.error(
            "Redis refuses the Bloom filter: pages stay in the frontier, and links count as new",
            error=str(error)[:300],
        )


def connect(url: str) -> redis.Redis:
    """Asks once: whoever waits for an answer has something to store."""
    return redis.Redis.from_url(
        url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )
