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

from scraper.archive.rows import SpooledPage
from scraper.archive.spool import Archive
from scraper.crawl.context import CrawlContext
from scraper.crawl.new_pages import page_result
from scraper.domain import Fetched, Kind, LeasedPage, Move, Outcome, Settled, Status, Verdict, value
from scraper.errors import DeferredError, FetchError, NoLoginError, NoProxyError
from scraper.extract import FunctionFailed
from scraper.extract.stages import Stages
from scraper.frontier.host_tiers import TierSignal
from scraper.frontier.throughput import FetchCost
from scraper.infra import outages
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.rules.blocks import missing_is_block
from scraper.rules.circuit_breaker import Breakers
from scraper.rules.urls import host_of
from scraper.rules.verdict import RetryPolicy, judge, outcome_of_status, retry_after_s
from scraper.settle.transaction import PageResult
from scraper.worker.batch import Attempt, Batch
from scraper.worker.next_visits import after_read, after_same
from scraper.worker.observations import FieldObserver
from scraper.worker.page_fetch import PageFetcher
from scraper.worker.row_reader import PageReader
from scraper.worker.telemetry import Telemetry
from scraper.worker.tiers import (
    Tier,
    TierChoice,
    blocked_signal,
    good_signal,
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
class Decision:
    """What is done about a try: the verdict, where the page goes on, and what its host's route
    learns."""

    verdict: Verdict
    move: Move | None = None
    news: TierSignal | None = None


class Scraper:
    """Fetches, extracts and judges. One a process, on its loop; `contexts` gives a crawl's context
    by its id."""

    def __init__(
        self,
        *,
        visits: PageFetcher,
        tiers: TierChoice,
        limiters: HostLimiters,
        writer: Writer,
        contexts: Callable[[int], Awaitable[CrawlContext]],
        rng: random.Random,
        telemetry: Telemetry | None = None,
        archive: Archive | None = None,
    ) -> None:
        self._page_fetcher = visits
        self._tiers = tiers
        self._limiters = limiters
        self._writer = writer
        self._contexts = contexts
        self._breakers = Breakers()
        self._field_observer = FieldObserver()
        self._rng = rng
        self._telemetry = telemetry or Telemetry()
        self._archive = archive
        self._page_reader = PageReader(self._read)
        self._unsettled = 0  # pages of all batches

    async def batch(self, batch: Batch) -> None:
        """Settles every page of a batch. Returns when the last of them is stored."""
        with self._telemetry.batch(batch):
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
            limiter = self._limiters.of(page.host)
            batch.queued.setdefault(limiter, deque()).append(page)
            limiter.pending += 1
            if not isinstance(context := batch.contexts[page.crawl_id], Attempt):
                limiter.budget(context.site_id, context.budget)
        for limiter, pages in batch.queued.items():
            for _ in range(min(len(pages), limiter.limits.concurrency, LANES_MAX)):
                lanes.append(self._lane(batch, limiter, pages))
        work = asyncio.gather(*lanes)
        if batch.place is not None:
            # after each lane's first step
            asyncio.get_running_loop().call_soon(batch.place.started)
        try:
            await work
        finally:
            # none, unless the batch was given up
            for limiter, pages in batch.queued.items():
                limiter.pending -= len(pages)

    async def hand_back(self, batch: Batch) -> None:
        """Settles what is not begun as untried, at once. What is under way goes on."""
        batch.handed_back = True
        await asyncio.gather(
            *(self._lane(batch, limiter, pages) for limiter, pages in batch.queued.items())
        )

    async def _lane(self, batch: Batch, limiter: HostLimiter, pages: deque[LeasedPage]) -> None:
        while pages:
            page = pages.popleft()
            try:
                await self._settle(batch, limiter, page)
            finally:
                limiter.pending -= 1

    async def _settle(self, batch: Batch, limiter: HostLimiter, page: LeasedPage) -> None:
        context, cost = batch.contexts[page.crawl_id], FetchCost(batch.lease.queue, page.host)
        if isinstance(context, Attempt):
            tried, judged = (
                context,
                Decision(await self._verdict(context, limiter, page, RetryPolicy())),
            )
        else:
            tried, judged = await self._tried(batch, limiter, page, context, cost)
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
            and not isinstance(context, Attempt)
        ):
            url = tried.final_url or page.url
            levels = self._tiers.level
            stored = page_result(
                settled,
                page,
                tried.extracted,
                url,
                context,
                levels,
                judged.news,
                tried.reading,
                cost,
                tried.next_visit,
            )
            if tried.spooled is not None:
                stored = replace(stored, spooled=tried.spooled)
        else:
            stored = PageResult(
                settled,
                news=judged.news,
                reading=tried.reading,
                cost=cost,
                next_visit=tried.next_visit,
            )
        site = "" if isinstance(context, Attempt) else context.site.name
        self._telemetry.settled(batch, page, site, tried, judged.verdict)
        self._writer.put(stored, batch.pending)
        batch.unsettled -= 1
        self._unsettled -= 1
        batch.moved_at = asyncio.get_running_loop().time()
        if self._unsettled <= 0:
            self._writer.hurry()

    async def _context(self, crawl_id: int) -> CrawlContext | Attempt:
        try:
            return await self._contexts(crawl_id)
        except Exception as error:
            if outages.record(error):
                return Attempt(Outcome.DEFERRED, delay_s=AWAY_S)
            log.exception("crawl without a context", crawl=crawl_id)
            return Attempt(
                Outcome.CRASHED,
                error=f"its crawl's definition cannot be used: {type(error).__name__}",
            )

    async def _tried(
        self,
        batch: Batch,
        limiter: HostLimiter,
        page: LeasedPage,
        context: CrawlContext,
        cost: FetchCost,
    ) -> tuple[Attempt, Decision]:
        """A try by the way that the page's host needs now, and what follows. A page in the wrong
        queue goes to its own."""
        if batch.over(page):
            return Attempt(Outcome.DEFERRED), Decision(_FREE)
        queue = batch.lease.queue
        way = await self._tiers.way(page, queue, context)
        if way.move is not None:
            return Attempt(Outcome.DEFERRED), Decision(_FREE, way.move)
        tried = await self._try(batch, limiter, page, context, way, cost)
        news = None
        if tried.outcome is Outcome.BLOCKED:
            proxied = context.needs[page.kind] is not None
            free = self._tiers.after_block(
                page, way, queue, proxied=proxied, suspicion=tried.suspicion
            )
            if not tried.suspicion and (free is None or free[1].queue != queue):
                news = blocked_signal(page, way, tried.sign)
            if free is not None:
                return tried, Decision(*free, news)
        elif tried.outcome in (Outcome.FETCHED, Outcome.NOT_MODIFIED):
            news = good_signal(page, way)
        elif (
            tried.outcome is Outcome.LOGGED_OUT and tried.delay_s is not None
        ):  # the login has run out: no page's fault
            return tried, Decision(Verdict(Status.DUE, tried.delay_s, charged=False))
        return tried, Decision(await self._verdict(tried, limiter, page, context.retry), None, news)

    async def _verdict(
        self, tried: Attempt, limiter: HostLimiter, page: LeasedPage, retry: RetryPolicy
    ) -> Verdict:
        outcome, now = tried.outcome, asyncio.get_running_loop().time()
        await self._heed_host(tried, limiter)
        down = self._breakers.saw(
            page.host, page.id, outcome, now, failed_before=page.host_attempts > 0
        )
        if down is not None and down.rest_s:
            await limiter.slow(
                down.rest_s, "it blocks" if outcome is Outcome.BLOCKED else "it does not answer"
            )
        attempts = page.attempts_of(outcome.blame)
        return judge(outcome, attempts, retry, self._rng, retry_after_s=tried.delay_s, down=down)

    async def _heed_host(self, tried: Attempt, limiter: HostLimiter) -> None:
        """What an answer says of the pace of the host that gave it, which is another one after a
        redirect."""
        says = limiter.signals.saw(tried.outcome, tried.http_status)
        if not says:
            limiter.good += says is False
            return
        at = self._limiters.of(host_of(tried.final_url)) if tried.final_url else limiter
        rest_s, why = 0.0, str(tried.http_status or tried.outcome)
        if tried.outcome is Outcome.THROTTLED:
            rest_s = min(tried.delay_s or REST_S, REST_MAX_S)
            why += f", Retry-After {tried.delay_s:g} s" if tried.delay_s else ""
        await at.slow(rest_s, why, tried.began)

    async def _try(
        self,
        batch: Batch,
        limiter: HostLimiter,
        page: LeasedPage,
        context: CrawlContext,
        way: Tier,
        cost: FetchCost,
    ) -> Attempt:
        if self._breakers.hopeless(page.host, asyncio.get_running_loop().time()):
            return Attempt(Outcome.HOST_DOWN, error=Outcome.HOST_DOWN.phrase)
        lane = asyncio.current_task()
        assert lane is not None
        batch.visits.add(lane)
        permits = PagePermits(page.priority)
        try:
            with self._telemetry.fetch(batch, page, permits):
                fetched = await self._page_fetcher.fetch(
                    batch, limiter, page, context, permits, way
                )
            cost.seconds, cost.bytes = (
                asyncio.get_running_loop().time() - permits.began,
                len(fetched.body),
            )
            tried = await self._page_reader(len(fetched.body), page, fetched, context, way, permits)
            if page.blocked and permits.via is not None:
                await self._page_fetcher.resolve(
                    page, permits.via, there=tried.outcome is Outcome.FETCHED
                )
            if context.site.archive is not None and tried.outcome is Outcome.FETCHED:
                tried = replace(tried, spooled=await self._put_aside(batch, page, fetched, context))
            return tried
        except NoProxyError as none:
            return Attempt(
                Outcome.NO_PROXY,
                error=none.reason,
                delay_s=none.delay_s * self._rng.uniform(1.0, 1.5),
            )
        except NoLoginError as none:
            return Attempt(Outcome.NO_LOGIN, error=none.reason, delay_s=none.delay_s)
        except DeferredError as deferred:
            return Attempt(Outcome.DEFERRED, delay_s=deferred.delay_s)
        except FetchError as error:
            return Attempt(
                error.outcome,
                error.status,
                error.url,
                error=str(error),
                delay_s=error.retry_after_s,
                began=permits.began,
                sign=error.sign,
            )
        except FunctionFailed as error:
            return Attempt(Outcome.FUNCTION_FAILED, error=str(error))
        except asyncio.CancelledError:
            if not batch.cut_short:
                raise
            lane.uncancel()
            return Attempt(Outcome.DEFERRED)
        except Exception as error:
            # the task's edge: our own fault, and the page's outcome says so
            log.exception("page crashed", page=page.id, url=page.url, crawl=page.crawl_id)
            return Attempt(Outcome.CRASHED, error=f"{type(error).__name__}: {error}")
        finally:
            if permits.via is not None:
                cost.proxy = permits.via.proxy.pool
            # it failed on the way
            if permits.began and not cost.seconds:
                cost.seconds = asyncio.get_running_loop().time() - permits.began
            permits.end()
            batch.visits.discard(lane)

    async def _put_aside(
        self, batch: Batch, page: LeasedPage, fetched: Fetched, context: CrawlContext
    ) -> SpooledPage | None:
        use = context.site.archive
        if self._archive is None or use is None or not use.wants(page.kind):
            return None
        if batch.spool is None:
            batch.spool = self._archive.spool()
        if batch.spool is None:
            return None
        return await self._archive.add(batch.spool, page, fetched, context.site_id, use)

    def _read(
        self,
        page: LeasedPage,
        fetched: Fetched,
        context: CrawlContext,
        way: Tier,
        permits: PagePermits,
    ) -> Stages[Attempt]:
        with self._telemetry.extract(page):
            return (yield from self._made_of(page, fetched, context, way, permits))

    def _made_of(
        self,
        page: LeasedPage,
        fetched: Fetched,
        context: CrawlContext,
        way: Tier,
        permits: PagePermits,
    ) -> Stages[Attempt]:
        block = context.block_of(fetched)
        # else an ordinary refusal
        if block is not None and (block.by != "status" or way.above is not None):
            blocked = _useless(Outcome.BLOCKED, fetched, str(block), began=permits.began)
            return replace(blocked, sign=block.sign)
        wish_s = retry_after_s(fetched.headers, context.now())
        outcome = outcome_of_status(
            fetched.status, retry_after=wish_s is not None, conditional=fetched.conditional
        )
        if outcome is Outcome.NOT_MODIFIED:
            return Attempt(
                outcome, fetched.status, fetched.url, next_visit=after_same(page, context)
            )
        if outcome is not Outcome.FETCHED:
            unasked = " to a request without validators" if fetched.status == _NOT_MODIFIED else ""
            error = f"the server answered {fetched.status}{unasked}"
            return _useless(outcome, fetched, error, delay_s=wish_s, began=permits.began)
        yield
        extracted = yield from context.extractor.stages(
            page.kind, fetched, page_url=page.url, depth=page.depth
        )
        yield
        reading = (
            self._field_observer.of(page, fetched, extracted, context)
            if page.kind is Kind.PRODUCT
            else None
        )
        if not extracted.complete:
            error = "; ".join(extracted.problems[:5])
            other_way = permits.via is not None or way.above is not None
            block = missing_is_block(
                good_before=page.good_before,
                suspected_before=page.blocked > 0,
                other_way=other_way and not way.probe,
            )
            if block is None:
                return replace(_useless(Outcome.NOT_EXTRACTED, fetched, error), reading=reading)
            if permits.via is not None:
                self._page_fetcher.suspect(page, permits.via)
            suspected = _useless(Outcome.BLOCKED, fetched, f"{block}: {error}")
            return replace(suspected, sign=block.sign, suspicion=True)
        visit = after_read(page, fetched, extracted, context) if page.kind is Kind.PRODUCT else None
        return Attempt(
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
) -> Attempt:
    """An answer that gives nothing, with what people need to see why."""
    excerpt, head = _excerpt(fetched), _head(fetched)
    return Attempt(outcome, fetched.status, fetched.url, None, error, excerpt, head, delay_s, began)


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
