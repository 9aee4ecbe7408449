"""What happens to a page on a worker: its visit, extraction, the verdict. One batch a call.

A batch is the pages of one lease, of any number of hosts and crawls. Each host's pages go through a
few lanes, as many as its concurrency, so that a slow host holds up nobody else. Settled pages leave
for the writer one by one; what cannot be begun in time goes back to the frontier untried. Nothing
here writes to a database, and nothing knows of Celery.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import islice

import structlog

from scraper.archive.rows import Spooled
from scraper.archive.spool import Archive
from scraper.crawl.context import CrawlContext
from scraper.crawl.new_pages import effects_of
from scraper.domain import Fetched, Kind, LeasedPage, Move, Outcome, Settled, Status, Verdict, value
from scraper.errors import DeferredError, FetchError, NoLoginError, NoProxyError
from scraper.extract import FunctionFailed
from scraper.extract.stages import Stages
from scraper.frontier.host_tiers import RouteNews
from scraper.frontier.throughput import Effort
from scraper.infra import outages
from scraper.politeness.host_limiter import Gate
from scraper.politeness.host_limiters import Gates
from scraper.politeness.page_permits import Trip
from scraper.rules.blocks import missing_is_block
from scraper.rules.circuit_breaker import Breakers
from scraper.rules.retry_after import retry_after_s
from scraper.rules.urls import host_of
from scraper.rules.verdict import RetryPolicy, judge, outcome_of_status
from scraper.settle.transaction import SettledPage
from scraper.worker.batch import Batch, Tried
from scraper.worker.next_visits import after_read, after_same
from scraper.worker.observations import Readings
from scraper.worker.page_fetch import Visits
from scraper.worker.row_reader import Together
from scraper.worker.telemetry import Telling
from scraper.worker.tiers import (
    Ladders,
    Way,
    blocked_news,
    good_news,
)
from scraper.worker.writer import Writer

log = structlog.get_logger()

# a host's pages under way in one batch
LANES_MAX = 64
# a host that says "slow down" without saying for how long
REST_S = 5.0
REST_MAX_S = 1800.0
# until pages whose crawl could not be read come back
AWAY_S = 5.0
EXCERPT_CHARS = 500
HEAD_FIELDS = 40
HEAD_CHARS = 200
ERROR_CHARS = 500
_NOT_MODIFIED = 304
_FREE = Verdict(Status.DUE, 0.0, charged=False)


@value
class Judged:
    """What is done about a try: the verdict, where the page goes on, and what its host's route
    learns."""

    verdict: Verdict
    move: Move | None = None
    news: RouteNews | None = None


class Scraper:
    """Fetches, extracts and judges. One a process, on its loop; `contexts` gives a crawl's context
    by its id."""

    def __init__(
        self,
        *,
        visits: Visits,
        ladders: Ladders,
        gates: Gates,
        writer: Writer,
        contexts: Callable[[int], Awaitable[CrawlContext]],
        rng: random.Random,
        telling: Telling | None = None,
        archive: Archive | None = None,
    ) -> None:
        self._visits = visits
        self._ladders = ladders
        self._gates = gates
        self._writer = writer
        self._contexts = contexts
        self._breakers = Breakers()
        self._readings = Readings()
        self._rng = rng
        self._telling = telling or Telling()
        self._archive = archive
        self._together = Together(self._read)
        self._unsettled = 0  # pages of all batches

    async def batch(self, batch: Batch) -> None:
        """Settles every page of a batch. Returns when the last of them is stored."""
        with self._telling.batch(batch):
            await self._batch(batch)

    async def _batch(self, batch: Batch) -> None:
        batch.unsettled, batch.moved_at = len(batch.lease.pages), asyncio.get_running_loop().time()
        self._unsettled += batch.unsettled
        try:
            await self._settle_all(batch)
        finally:
            # none, unless the batch was given up
            self._unsettled -= batch.unsettled
        await batch.pending.stored.wait()
        if batch.spool is not None and self._archive is not None:
            await self._archive.finish(batch.spool)

    async def _settle_all(self, batch: Batch) -> None:
        lanes = []
        for crawl_id in {page.crawl_id for page in batch.lease.pages}:
            batch.contexts[crawl_id] = await self._context(crawl_id)
        for page in batch.lease.pages:
            gate = self._gates.of(page.host)
            batch.queued.setdefault(gate, deque()).append(page)
            gate.pending += 1
            if not isinstance(context := batch.contexts[page.crawl_id], Tried):
                gate.budget(context.site_id, context.budget)
        for gate, pages in batch.queued.items():
            for _ in range(min(len(pages), gate.limits.concurrency, LANES_MAX)):
                lanes.append(self._lane(batch, gate, pages))
        work = asyncio.gather(*lanes)
        if batch.place is not None:
            # after each lane's first step
            asyncio.get_running_loop().call_soon(batch.place.came)
        try:
            await work
        finally:
            # none, unless the batch was given up
            for gate, pages in batch.queued.items():
                gate.pending -= len(pages)

    async def hand_back(self, batch: Batch) -> None:
        """Settles what is not begun as untried, at once. What is under way goes on."""
        batch.handed_back = True
        await asyncio.gather(
            *(self._lane(batch, gate, pages) for gate, pages in batch.queued.items())
        )

    async def _lane(self, batch: Batch, gate: Gate, pages: deque[LeasedPage]) -> None:
        while pages:
            page = pages.popleft()
            try:
                await self._settle(batch, gate, page)
            finally:
                gate.pending -= 1

    async def _settle(self, batch: Batch, gate: Gate, page: LeasedPage) -> None:
        context, effort = batch.contexts[page.crawl_id], Effort(batch.lease.queue, page.host)
        if isinstance(context, Tried):
            tried, judged = context, Judged(await self._verdict(context, gate, page, RetryPolicy()))
        else:
            tried, judged = await self._tried(batch, gate, page, context, effort)
        settled = Settled(
            page_id=page.id,
            crawl_id=page.crawl_id,
            lease_id=batch.lease.id,
            outcome=tried.outcome,
            verdict=judged.verdict,
            http_status=tried.http_status,
            error=_storable(tried.error, ERROR_CHARS),
            excerpt=_storable(tried.excerpt, EXCERPT_CHARS),
            head=tried.head,
            move=judged.move,
        )
        if (
            tried.outcome is Outcome.FETCHED
            and tried.extracted is not None
            and not isinstance(context, Tried)
        ):
            url = tried.final_url or page.url
            levels = self._ladders.level
            stored = effects_of(
                settled,
                page,
                tried.extracted,
                url,
                context,
                levels,
                judged.news,
                tried.reading,
                effort,
                tried.next_visit,
            )
            if tried.spooled is not None:
                stored = replace(stored, spooled=tried.spooled)
        else:
            stored = SettledPage(
                settled,
                news=judged.news,
                reading=tried.reading,
                effort=effort,
                next_visit=tried.next_visit,
            )
        site = "" if isinstance(context, Tried) else context.site.name
        self._telling.settled(batch, page, site, tried, judged.verdict)
        self._writer.put(stored, batch.pending)
        batch.unsettled -= 1
        self._unsettled -= 1
        batch.moved_at = asyncio.get_running_loop().time()
        if self._unsettled <= 0:
            self._writer.hurry()

    async def _context(self, crawl_id: int) -> CrawlContext | Tried:
        try:
            return await self._contexts(crawl_id)
        except Exception as error:
            if outages.note(error):
                return Tried(Outcome.DEFERRED, delay_s=AWAY_S)
            log.exception("crawl without a context", crawl=crawl_id)
            return Tried(
                Outcome.CRASHED,
                error=f"its crawl's definition cannot be used: {type(error).__name__}",
            )

    async def _tried(
        self, batch: Batch, gate: Gate, page: LeasedPage, context: CrawlContext, effort: Effort
    ) -> tuple[Tried, Judged]:
        """A try by the way that the page's host needs now, and what follows. A page in the wrong
        queue goes to its own."""
        if batch.over(page):
            return Tried(Outcome.DEFERRED), Judged(_FREE)
        queue = batch.lease.queue
        way = await self._ladders.way(page, queue, context)
        if way.move is not None:
            return Tried(Outcome.DEFERRED), Judged(_FREE, way.move)
        tried = await self._try(batch, gate, page, context, way, effort)
        news = None
        if tried.outcome is Outcome.BLOCKED:
            proxied = context.needs[page.kind] is not None
            free = self._ladders.after_block(
                page, way, queue, proxied=proxied, suspicion=tried.suspicion
            )
            if not tried.suspicion and (free is None or free[1].queue != queue):
                news = blocked_news(page, way, tried.sign)
            if free is not None:
                return tried, Judged(*free, news)
        elif tried.outcome in (Outcome.FETCHED, Outcome.NOT_MODIFIED):
            news = good_news(page, way)
        elif (
            tried.outcome is Outcome.LOGGED_OUT and tried.delay_s is not None
        ):  # the login has run out: no page's fault
            return tried, Judged(Verdict(Status.DUE, tried.delay_s, charged=False))
        return tried, Judged(await self._verdict(tried, gate, page, context.retry), None, news)

    async def _verdict(
        self, tried: Tried, gate: Gate, page: LeasedPage, retry: RetryPolicy
    ) -> Verdict:
        outcome, now = tried.outcome, asyncio.get_running_loop().time()
        await self._heed_host(tried, gate)
        down = self._breakers.saw(
            page.host, page.id, outcome, now, failed_before=page.host_attempts > 0
        )
        if down is not None and down.rest_s:
            await gate.slow(
                down.rest_s, "it blocks" if outcome is Outcome.BLOCKED else "it does not answer"
            )
        attempts = page.attempts_of(outcome.blame)
        return judge(outcome, attempts, retry, self._rng, retry_after_s=tried.delay_s, down=down)

    async def _heed_host(self, tried: Tried, gate: Gate) -> None:
        """What an answer says of the pace of the host that gave it, which is another one after a
        redirect."""
        says = gate.signals.saw(tried.outcome, tried.http_status)
        if not says:
            gate.good += says is False
            return
        at = self._gates.of(host_of(tried.final_url)) if tried.final_url else gate
        rest_s, why = 0.0, str(tried.http_status or tried.outcome)
        if tried.outcome is Outcome.THROTTLED:
            rest_s = min(tried.delay_s or REST_S, REST_MAX_S)
            why += f", Retry-After {tried.delay_s:g} s" if tried.delay_s else ""
        await at.slow(rest_s, why, tried.began)

    async def _try(
        self,
        batch: Batch,
        gate: Gate,
        page: LeasedPage,
        context: CrawlContext,
        way: Way,
        effort: Effort,
    ) -> Tried:
        if self._breakers.hopeless(page.host, asyncio.get_running_loop().time()):
            return Tried(Outcome.HOST_DOWN, error=Outcome.HOST_DOWN.phrase)
        lane = asyncio.current_task()
        assert lane is not None
        batch.visits.add(lane)
        trip = Trip(page.priority)
        try:
            with self._telling.fetch(batch, page, trip):
                fetched = await self._visits.fetch(batch, gate, page, context, trip, way)
            effort.seconds, effort.bytes = (
                asyncio.get_running_loop().time() - trip.began,
                len(fetched.body),
            )
            tried = await self._together(len(fetched.body), page, fetched, context, way, trip)
            if page.blocked and trip.via is not None:
                await self._visits.resolve(page, trip.via, there=tried.outcome is Outcome.FETCHED)
            if context.site.archive is not None and tried.outcome is Outcome.FETCHED:
                tried = replace(tried, spooled=await self._put_aside(batch, page, fetched, context))
            return tried
        except NoProxyError as none:
            return Tried(
                Outcome.NO_PROXY,
                error=none.reason,
                delay_s=none.delay_s * self._rng.uniform(1.0, 1.5),
            )
        except NoLoginError as none:
            return Tried(Outcome.NO_LOGIN, error=none.reason, delay_s=none.delay_s)
        except DeferredError as deferred:
            return Tried(Outcome.DEFERRED, delay_s=deferred.delay_s)
        except FetchError as error:
            return Tried(
                error.outcome,
                error.status,
                error.url,
                error=str(error),
                delay_s=error.retry_after_s,
                began=trip.began,
                sign=error.sign,
            )
        except FunctionFailed as error:
            return Tried(Outcome.FUNCTION_FAILED, error=str(error))
        except asyncio.CancelledError:
            if not batch.cut_short:
                raise
            lane.uncancel()
            return Tried(Outcome.DEFERRED)
        except Exception as error:
            # the task's edge: our own fault, and the page's outcome says so
            log.exception("page crashed", page=page.id, url=page.url, crawl=page.crawl_id)
            return Tried(Outcome.CRASHED, error=f"{type(error).__name__}: {error}")
        finally:
            if trip.via is not None:
                effort.proxy = trip.via.proxy.pool
            # it failed on the way
            if trip.began and not effort.seconds:
                effort.seconds = asyncio.get_running_loop().time() - trip.began
            trip.end()
            batch.visits.discard(lane)

    async def _put_aside(
        self, batch: Batch, page: LeasedPage, fetched: Fetched, context: CrawlContext
    ) -> Spooled | None:
        use = context.site.archive
        if self._archive is None or use is None or not use.wants(page.kind):
            return None
        if batch.spool is None:
            batch.spool = self._archive.spool()
        if batch.spool is None:
            return None
        return await self._archive.add(batch.spool, page, fetched, context.site_id, use)

    def _read(
        self, page: LeasedPage, fetched: Fetched, context: CrawlContext, way: Way, trip: Trip
    ) -> Stages[Tried]:
        with self._telling.extract(page):
            return (yield from self._made_of(page, fetched, context, way, trip))

    def _made_of(
        self, page: LeasedPage, fetched: Fetched, context: CrawlContext, way: Way, trip: Trip
    ) -> Stages[Tried]:
        block = context.block_of(fetched)
        # else an ordinary refusal
        if block is not None and (block.by != "status" or way.above is not None):
            blocked = _useless(Outcome.BLOCKED, fetched, str(block), began=trip.began)
            return replace(blocked, sign=block.sign)
        wish_s = retry_after_s(fetched.headers, context.now())
        outcome = outcome_of_status(
            fetched.status, retry_after=wish_s is not None, conditional=fetched.conditional
        )
        if outcome is Outcome.NOT_MODIFIED:
            return Tried(outcome, fetched.status, fetched.url, next_visit=after_same(page, context))
        if outcome is not Outcome.FETCHED:
            unasked = " to a request without validators" if fetched.status == _NOT_MODIFIED else ""
            error = f"the server answered {fetched.status}{unasked}"
            return _useless(outcome, fetched, error, delay_s=wish_s, began=trip.began)
        yield
        extracted = yield from context.extractor.stages(
            page.kind, fetched, page_url=page.url, depth=page.depth
        )
        yield
        reading = (
            self._readings.of(page, fetched, extracted, context)
            if page.kind is Kind.PRODUCT
            else None
        )
        if not extracted.complete:
            error = "; ".join(extracted.problems[:5])
            other_way = trip.via is not None or way.above is not None
            block = missing_is_block(
                good_before=page.good_before,
                suspected_before=page.blocked > 0,
                other_way=other_way and not way.probe,
            )
            if block is None:
                return replace(_useless(Outcome.NOT_EXTRACTED, fetched, error), reading=reading)
            if trip.via is not None:
                self._visits.suspect(page, trip.via)
            suspected = _useless(Outcome.BLOCKED, fetched, f"{block}: {error}")
            return replace(suspected, sign=block.sign, suspicion=True)
        visit = after_read(page, fetched, extracted, context) if page.kind is Kind.PRODUCT else None
        return Tried(
            Outcome.FETCHED,
            fetched.status,
            fetched.url,
            extracted,
            reading=reading,
            next_visit=visit,
        )


def _useless(
    outcome: Outcome,
    fetched: Fetched,
    error: str | None,
    delay_s: float | None = None,
    began: float = 0.0,
) -> Tried:
    """An answer that gives nothing, with what people need to see why."""
    excerpt, head = _excerpt(fetched), _head(fetched)
    return Tried(outcome, fetched.status, fetched.url, None, error, excerpt, head, delay_s, began)


def _head(fetched: Fetched) -> dict[str, str]:
    """The answer's headers, bounded. (Cookies, which are somebody's identity, are not among
    `Fetched.headers`.)"""
    fields = islice(fetched.headers.items(), HEAD_FIELDS)
    return {name[:HEAD_CHARS]: _storable(value, HEAD_CHARS) or "" for name, value in fields}


def _excerpt(fetched: Fetched) -> str | None:
    return fetched.body[: EXCERPT_CHARS * 2].decode("utf-8", "replace") or None


def _storable(text: str | None, limit: int) -> str | None:
    """PostgreSQL takes neither NUL nor lone surrogates."""
    if text is None:
        return None
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:limit]
