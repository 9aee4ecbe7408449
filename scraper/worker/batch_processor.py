"""Settles a batch's pages on a worker: fetches, extracts and judges each, and passes its result on.

A batch is the pages of one lease, of any number of hosts and crawls. Each host's pages are settled
by a few tasks, as many as its concurrency, so that a slow host holds up no other. Settled pages go
to the writer one by one; pages that cannot be begun in time go back to the frontier untried. This
module writes to no database and knows nothing about Celery.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

import structlog

from scraper.crawl.context import CrawlContext
from scraper.crawl.isolation import isolated
from scraper.domain import Fetched, LeasedPage, Outcome, Status, Verdict
from scraper.errors import DeferredError, FetchError, NoLoginError, NoProxyError
from scraper.extract import FunctionFailed
from scraper.extract.subprocess.pool import ExtractionPool
from scraper.frontier.throughput import FetchCost
from scraper.http.held_bodies import HeldBodies, HeldBody
from scraper.infra import outages
from scraper.plugin import WorkerPart
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.rules.budget import MOST_SHARE
from scraper.rules.circuit_breaker import CircuitBreakers
from scraper.rules.urls import host_of
from scraper.rules.verdict import RetryPolicy, judge_outcome
from scraper.worker.batch import Attempt, Batch
from scraper.worker.observations import FieldObserver
from scraper.worker.page_fetch import PageFetcher
from scraper.worker.page_result import Decision, make_result, replace_interface
from scraper.worker.response_judge import ResponseJudge, step_together
from scraper.worker.telemetry import Telemetry
from scraper.worker.tiers import Tier, TierChoice, blocked_signal, good_signal
from scraper.worker.writer import Writer

log = structlog.get_logger()

# A host has at most this many pages under way in one batch.
HOST_PAGES_MAX = 64
# Pages whose crawl could not be read come back after this.
AWAY_S = 5.0
# A batch that has settled no page for this long is slow, and the writer does not wait for up to
# SLOW_MAX slow pages.
SLOW_S = 1.0
SLOW_MAX = 64
_FORBIDDEN = 403
_FREE = Verdict(Status.DUE, 0.0, charged=False)
_BACK = Decision(_FREE)
_NOT_BEGUN = Attempt(Outcome.DEFERRED)


class BatchProcessor:
    """Fetches, extracts and judges pages. One a process, on its loop; `contexts` returns a crawl's
    context by its id."""

    def __init__(
        self,
        *,
        page_fetcher: PageFetcher,
        tiers: TierChoice,
        limiters: HostLimiters,
        extraction_pool: ExtractionPool,
        writer: Writer,
        contexts: Callable[[int], Awaitable[CrawlContext]],
        rng: random.Random,
        telemetry: Telemetry | None = None,
        parts: Mapping[str, WorkerPart] | None = None,
    ) -> None:
        self._page_fetcher = page_fetcher
        self._extraction_pool = extraction_pool
        self._tiers = tiers
        self._limiters = limiters
        self._writer = writer
        self._contexts = contexts
        self._bodies = HeldBodies()
        self._breakers = CircuitBreakers()
        self._field_observer = FieldObserver()
        self._rng = rng
        self._telemetry = telemetry or Telemetry()
        self._parts = parts or {}
        # Counts the pages of all batches.
        self._unsettled = 0
        self._batches: list[Batch] = []

    async def settle_batch(self, batch: Batch) -> None:
        """Settles every page of a batch. Returns when the last page is stored."""
        with self._telemetry.batch(batch):
            await self._settle_batch(batch)

    async def _settle_batch(self, batch: Batch) -> None:
        batch.unsettled, batch.moved_at = len(batch.lease.pages), asyncio.get_running_loop().time()
        self._unsettled += batch.unsettled
        self._batches.append(batch)
        try:
            await self._settle_pages(batch)
        finally:
            self._batches = [other for other in self._batches if other is not batch]
            # Pages are left only if the batch was given up.
            self._unsettled -= batch.unsettled
        await batch.pending.stored.wait()
        for name, part in self._parts.items():
            with isolated(name, "end_batch"):
                await part.end_batch(batch)

    async def _settle_pages(self, batch: Batch) -> None:
        for crawl_id in {page.crawl_id for page in batch.lease.pages}:
            batch.contexts[crawl_id] = await self._load_context(crawl_id)
        for page in batch.lease.pages:
            limiter = self._limiters.for_host(page.host)
            batch.queued.setdefault(limiter, deque()).append(page)
            limiter.pending += 1
            if not isinstance(context := batch.contexts[page.crawl_id], Attempt):
                limiter.set_budget(context.site_id, context.budget)
        work = asyncio.gather(
            *(
                self._settle_host_pages(batch, limiter, pages)
                for limiter, pages in batch.queued.items()
                for _ in range(min(len(pages), limiter.budget.concurrency, HOST_PAGES_MAX))
            )
        )
        if batch.slot is not None:
            # The callback runs after the first step of each task.
            asyncio.get_running_loop().call_soon(batch.slot.started)
        try:
            await work
        finally:
            # Pages are left only if the batch was given up.
            for limiter, pages in batch.queued.items():
                limiter.pending -= len(pages)

    async def hand_back(self, batch: Batch) -> None:
        """Settles the pages that are not begun as untried, at once. Pages under way go on."""
        batch.handed_back = True
        await asyncio.gather(
            *(
                self._settle_host_pages(batch, limiter, pages)
                for limiter, pages in batch.queued.items()
            )
        )

    async def _settle_host_pages(
        self, batch: Batch, limiter: HostLimiter, pages: deque[LeasedPage]
    ) -> None:
        """Settles a host's queued pages one after the other; several such tasks share `pages`."""
        while pages:
            page = pages.popleft()
            try:
                if self._writer.full:
                    await self._writer.wait_for_room(partial(batch.may_begin, page))
                await self._settle_page(batch, limiter, page)
            finally:
                limiter.pending -= 1
            await step_together()

    async def _settle_page(self, batch: Batch, limiter: HostLimiter, page: LeasedPage) -> None:
        """Tries the page at the tier that its host needs now, and passes its result to the writer.
        A page in the wrong queue goes back untried, to its own queue."""
        context, cost = batch.contexts[page.crawl_id], FetchCost(batch.lease.queue, page.host)
        attempt, decision, site = _NOT_BEGUN, _BACK, ""
        if isinstance(context, CrawlContext):
            site = context.site.name
            if not batch.is_dropped(page):
                tier = await self._tiers.choose(page, batch.lease.queue, context)
                if tier.move is not None:
                    decision = Decision(_FREE, tier.move)
                else:
                    attempt = await self._try_page(batch, limiter, page, context, tier, cost)
                    decision = await self._decide(batch, limiter, page, context, tier, attempt)
        else:
            attempt = context
            decision = Decision(await self._judge_attempt(attempt, limiter, page, RetryPolicy()))
        result = make_result(
            batch=batch,
            page=page,
            attempt=attempt,
            decision=decision,
            cost=cost,
            levels=self._tiers.level,
        )
        if isinstance(context, CrawlContext) and context.extractor.adapter is not None:
            result = replace_interface(page, context, result)
        self._telemetry.record_page(batch, page, site, attempt, result.verdict)
        self._writer.put(result, batch.pending)
        batch.unsettled -= 1
        self._unsettled -= 1
        batch.moved_at = asyncio.get_running_loop().time()
        if self._unsettled <= SLOW_MAX and not self.moving:
            self._writer.hurry()

    @property
    def moving(self) -> int:
        """The number of batches that have settled a page lately and have pages left, so that they
        will soon settle another one."""
        since = time.monotonic() - SLOW_S
        return sum(batch.unsettled > 0 and batch.moved_at > since for batch in self._batches)

    async def _load_context(self, crawl_id: int) -> CrawlContext | Attempt:
        try:
            return await self._contexts(crawl_id)
        except Exception as error:
            if outages.record_outage(error):
                return Attempt(Outcome.DEFERRED, delay_s=AWAY_S)
            log.exception("could not load a crawl's context", crawl=crawl_id)
            return Attempt(
                Outcome.CRASHED,
                error=f"its crawl's definition cannot be used: {type(error).__name__}",
            )

    async def _decide(
        self,
        batch: Batch,
        limiter: HostLimiter,
        page: LeasedPage,
        context: CrawlContext,
        tier: Tier,
        attempt: Attempt,
    ) -> Decision:
        """Returns what follows from an attempt, for the page and for its host's tier."""
        signal, queue = None, batch.lease.queue
        if attempt.outcome is Outcome.BLOCKED:
            proxied = context.needs[page.kind] is not None
            free = self._tiers.after_block(
                page, tier, queue, proxied=proxied, suspicion=attempt.suspicion
            )
            if not attempt.suspicion and (free is None or free[1].queue != queue):
                signal = blocked_signal(page, tier, attempt.sign)
            if free is not None:
                return Decision(*free, signal)
        elif attempt.outcome in (Outcome.FETCHED, Outcome.NOT_MODIFIED):
            signal = good_signal(page, tier)
        elif attempt.outcome is Outcome.LOGGED_OUT and attempt.delay_s is not None:
            # The login has expired, which is not the page's fault.
            return Decision(Verdict(Status.DUE, attempt.delay_s, charged=False))
        verdict = await self._judge_attempt(attempt, limiter, page, context.retry)
        return Decision(verdict, None, signal)

    async def _judge_attempt(
        self, attempt: Attempt, limiter: HostLimiter, page: LeasedPage, retry: RetryPolicy
    ) -> Verdict:
        outcome, now = attempt.outcome, asyncio.get_running_loop().time()
        await self._slow_host(attempt, limiter, failed_before=page.host_attempts > 0)
        down = self._breakers.record(
            page.host, page.id, outcome, now, failed_before=page.host_attempts > 0
        )
        if down is not None and down.rest_s:
            await limiter.slow_down(
                down.rest_s, "it blocks" if outcome is Outcome.BLOCKED else "it does not answer"
            )
        return judge_outcome(
            outcome,
            page.attempts_of(outcome.blame),
            retry,
            self._rng,
            retry_after_s=attempt.delay_s,
            down=down,
            host_healthy=limiter.signals.is_healthy(now, MOST_SHARE),
            forbidden=attempt.http_status == _FORBIDDEN,
        )

    async def _slow_host(
        self, attempt: Attempt, limiter: HostLimiter, *, failed_before: bool
    ) -> None:
        """Slows down the host that gave the response, if the response asks for it. After a redirect
        that is another host than the page's."""
        url, outcome = attempt.final_url, attempt.outcome
        await limiter.heed_answer(
            outcome,
            attempt.http_status,
            attempt.began,
            retry_after_s=attempt.delay_s,
            failed_before=failed_before,
            alone=outcome is Outcome.TIMEOUT and limiter.answer_timeout_s() is not None,
            answered_by=self._limiters.for_host(host_of(url)) if url else None,
        )

    async def _try_page(
        self,
        batch: Batch,
        limiter: HostLimiter,
        page: LeasedPage,
        context: CrawlContext,
        tier: Tier,
        cost: FetchCost,
    ) -> Attempt:
        if self._breakers.is_open(page.host, asyncio.get_running_loop().time()):
            return Attempt(Outcome.HOST_DOWN, error=Outcome.HOST_DOWN.phrase)
        task = asyncio.current_task()
        assert task is not None
        batch.fetching.add(task)
        body = HeldBody(self._bodies)
        permits = PagePermits(body)
        judge = ResponseJudge(self._extraction_pool, self._field_observer, page, context, body)
        try:
            with self._telemetry.fetch(batch, page, permits):
                fetched = await self._page_fetcher.fetch(
                    batch, limiter, page, context, permits, tier, judge.missing_reason
                )
            cost.seconds, cost.bytes = (
                asyncio.get_running_loop().time() - permits.began,
                len(fetched.body),
            )
            limiter.record_answer(fetched.elapsed_s)
            with self._telemetry.extract(page):
                attempt = await judge.judge(fetched, tier, permits)
            if context.extras:
                extras = await self._keep_extras(batch, page, context, fetched, attempt)
                attempt = replace(attempt, extras=extras) if extras else attempt
            return attempt
        except (DeferredError, FetchError, FunctionFailed) as error:
            return self._attempt_of_error(error, permits.began)
        except asyncio.CancelledError:
            if not batch.cut_short:
                raise
            task.uncancel()
            return Attempt(Outcome.DEFERRED)
        except Exception as error:
            # The task ends here: the outcome CRASHED blames the worker, not the page.
            log.exception("page crashed", page=page.id, url=page.url, crawl=page.crawl_id)
            return Attempt(Outcome.CRASHED, error=f"{type(error).__name__}: {error}")
        finally:
            if permits.route is not None:
                cost.proxy = permits.route.proxy.pool
            # A failed request has not set its cost above.
            if permits.began and not cost.seconds:
                cost.seconds = asyncio.get_running_loop().time() - permits.began
            permits.release()
            body.release()
            batch.fetching.discard(task)

    def _attempt_of_error(
        self, error: DeferredError | FetchError | FunctionFailed, began: float
    ) -> Attempt:
        match error:
            case NoProxyError():
                return Attempt(
                    Outcome.NO_PROXY,
                    error=error.reason,
                    delay_s=error.delay_s * self._rng.uniform(1.0, 1.5),
                )
            case NoLoginError():
                return Attempt(Outcome.NO_LOGIN, error=error.reason, delay_s=error.delay_s)
            case DeferredError():
                return Attempt(Outcome.DEFERRED, delay_s=error.delay_s)
            case FunctionFailed():
                return Attempt(Outcome.FUNCTION_FAILED, error=str(error))
            case FetchError():
                return Attempt(
                    error.outcome,
                    error.status,
                    error.url,
                    error=str(error),
                    delay_s=error.retry_after_s,
                    began=began,
                    sign=error.sign,
                )

    async def _keep_extras(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> dict[str, object]:
        """Returns what the crawl's plug-ins keep of a response, by their names."""
        extras = {}
        for name in context.extras:
            part = self._parts.get(name)
            if part is not None:
                with isolated(name, "keep"):
                    extra = await part.keep(batch, page, context, fetched, attempt)
                    if extra is not None:
                        extras[name] = extra
        return extras
