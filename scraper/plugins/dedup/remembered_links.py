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
from dataclasses import dataclass, replace
from uuid import UUID

import redis
import sqlalchemy as sa
import structlog
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from scraper.domain import Kind, Message
from scraper.infra import outages
from scraper.infra.database import retry_transaction
from scraper.plugins.dedup import filters as dedup
from scraper.plugins.dedup.bloom import BloomFilter, FilterStore
from scraper.plugins.dedup.filters import CHUNK, EndedCrawl
from scraper.results.transaction import PageResult
from scraper.settings import Settings

log = structlog.get_logger()

# The writer of a worker waits so long for an answer of Redis, and pages with it.
TIMEOUT_S = 2.0
# Redis is left alone for so long after a question without an answer.
AWAY_S = 5.0
# So much of a coordinator's tick goes into clearing.
CLEAR_S = 1.5
# A crawl's number of listed products is written when it has grown by so much.
LISTED_STEP = 0.005
# So many crawls' numbers of listed products are kept in mind.
CRAWLS_KEPT = 1000

START = UUID(int=0)


@dataclass(frozen=True, slots=True)
class FilterUse:
    """What travels with a page's result: its crawl's filter, and what the page is remembered by,
    if it is a product page."""

    filter: BloomFilter
    fingerprint: UUID | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A page that may leave the frontier."""

    filter: BloomFilter
    page_id: int
    fingerprint: UUID


class RememberedLinks:
    """A worker's part. Belongs to its writer's thread."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = settings.valkey_url
        self._clock = clock
        self._filters: FilterStore | None = None
        self._client: redis.Redis | None = None
        self._away_until = float("-inf")
        # How many products each crawl has listed: as PostgreSQL has it, and as Redis has said
        # since.
        self._stored: dict[int, int] = {}
        self._listed: dict[int, int] = {}

    def new_links(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        """The pages without those of their links to products that are remembered. Other links are
        not asked about: what lists products is read in each crawl."""
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
                with self._asking() as filters:
                    if filters is not None:
                        answers, listed = filters.lookup(bloom, fingerprints, crawl_id)
                        remembered.update(
                            (bloom.id, fingerprint)
                            for fingerprint, yes in zip(fingerprints, answers, strict=True)
                            if yes
                        )
                        if listed > self._listed.get(crawl_id, 0):
                            self._listed[crawl_id] = listed
        return [_without(page, remembered) for page in pages] if asked else pages

    def leave(self, engine: sa.Engine, finished: Sequence[Finished]) -> None:
        """Remembers finished pages, whose verdicts are committed, and takes them out of the
        frontier. Raises nothing: what could not be done is done when their crawl has ended."""
        by_filter: dict[BloomFilter, list[Finished]] = defaultdict(list)
        for page in finished:
            by_filter[page.filter].append(page)
        remembered: list[int] = []
        for bloom, group in by_filter.items():
            with self._asking() as filters:
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
            retry_transaction(lambda: _store(engine, remembered, listed))
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
    def _asking(self) -> Iterator[FilterStore | None]:
        """None where Redis did not answer a moment ago. Its errors end here."""
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
    """A coordinator's part: what crawls that have ended left in the frontier, a second's worth at a
    time. Raises what PostgreSQL does."""
    with engine.begin() as connection:
        ended = dedup.uncleared(connection)
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
    """True when nothing is left. URLs are added before anything is deleted, and no lock is held
    while Redis is asked."""
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


def _take_out(engine: sa.Engine, ended: EndedCrawl, page_ids: list[int], *, done: bool) -> None:
    def work() -> None:
        with engine.begin() as connection:
            dedup.take_out(connection, ended, page_ids)
            if done:
                dedup.set_cleared(connection, ended.id)

    retry_transaction(work)


def _store(engine: sa.Engine, page_ids: Sequence[int], listed: dict[int, int]) -> None:
    """Deletes the rows of remembered pages, and writes how many products crawls have listed."""
    with engine.begin() as connection:
        # What a crash undoes is done when the crawl has ended: nobody waits for the disk.
        connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
        if page_ids:
            dedup.leave(connection, page_ids)
        for crawl_id, products in sorted(listed.items()):
            dedup.set_listed(connection, crawl_id, products)


def _without(page: PageResult, remembered: set[tuple[UUID, UUID]]) -> PageResult:
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
    """`scraper.infra.outages` has logged it where Redis is away; a refusal is not that."""
    if not outages.is_broker_away(error):
        log.error(
            "Redis refuses the Bloom filter: pages stay in the frontier, and links count as new",
            error=str(error)[:300],
        )


def connect(url: str) -> redis.Redis:
    """Asks once: whoever waits for an answer has something to store."""
    return redis.Redis.from_url(
        url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )


def filter_use(page: PageResult) -> FilterUse | None:
    """What the plug-in keeps of a page; None where its crawl has no filter."""
    use = page.extras.get("dedup")
    return use if isinstance(use, FilterUse) else None
