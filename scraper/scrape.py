"""What happens to a page on a worker: robots, its host's turn, the request, extraction, the verdict. One batch a call.

A batch is the pages of one lease, of any number of hosts and crawls. Each host's pages go through a few lanes, as many as
its concurrency, so that a slow host holds up nobody else. Settled pages leave for the writer one by one; what cannot be
begun in time goes back to the frontier untried. Nothing here writes to a database, and nothing knows of Celery.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import structlog

from scraper import away
from scraper.crawl_context import CrawlContext
from scraper.domain import Extracted, Fetched, Kind, Lease, LeasedPage, Outcome, Settled, Verdict
from scraper.effects import effects_of
from scraper.errors import DeferredError, FetchError
from scraper.extract import FunctionFailed
from scraper.fetch.gate import Gate
from scraper.fetch.gates import Gates
from scraper.fetch.http import HttpFetcher
from scraper.fetch.robots import RobotsRules
from scraper.fetch.trip import Trip
from scraper.policy.breaker import Breakers
from scraper.policy.retry_after import retry_after_s
from scraper.policy.urls import host_of
from scraper.policy.verdict import RetryPolicy, judge, outcome_of_status
from scraper.stores.settle import SettledPage
from scraper.writer import Pending, Writer

log = structlog.get_logger()

LANES_MAX = 64  # a host's pages under way in one batch
REST_S = 5.0  # a host that says "slow down" without saying for how long
REST_MAX_S = 1800.0
ROBOTS_PATIENCE_S = 30.0
AWAY_S = 5.0  # until pages whose crawl could not be read come back
EXCERPT_CHARS = 500
HEAD_FIELDS = 40
HEAD_CHARS = 200
ERROR_CHARS = 500


Turn = Callable[[], AbstractAsyncContextManager[None]]


class Robots(Protocol):
    async def rules(
        self, url: str, context: CrawlContext, turn: Turn, before_hop: Callable[[str], Awaitable[None]]
    ) -> RobotsRules | None: ...


@dataclass(frozen=True, slots=True)
class Tried:
    """One try of a page: what happened, and what came of it."""

    outcome: Outcome
    http_status: int | None = None
    final_url: str | None = None
    extracted: Extracted | None = None
    error: str | None = None
    excerpt: str | None = None
    head: Mapping[str, str] | None = None
    delay_s: float | None = None
    began: float = 0.0  # loop time at which the last request left


@dataclass(slots=True)
class Batch:
    """A lease being worked on. Times are the loop's: after `latest` no page is begun; until `ours_until` the lease is
    certainly ours, by our own clock from before it was claimed or prolonged. A process that was frozen or cut off for longer
    begins nothing in its name until it has been prolonged, even where nobody has told it yet that it is lost.
    """

    lease: Lease
    latest: float
    ours_until: float
    pending: Pending
    moved_at: float = 0.0  # when a page was last settled
    unsettled: int = 0
    lost: bool = False
    handed_back: bool = False
    cut_short: bool = False
    inactive_crawls: set[int] = field(default_factory=set)  # ended, or of a paused site
    contexts: dict[int, CrawlContext | Tried] = field(
        default_factory=dict
    )  # of a crawl without one: what its pages get
    queued: dict[Gate, deque[LeasedPage]] = field(default_factory=dict)  # the pages that are not begun
    visits: set[asyncio.Task[None]] = field(default_factory=set)  # the lanes that are on the way to a page or back

    def over(self, page: LeasedPage) -> bool:
        """True where a page is not to be begun any more. Going back untried changes nothing if its lease is lost or its
        crawl has ended: the fence sees to that."""
        return self.handed_back or page.crawl_id in self.inactive_crawls or not self.ours

    @property
    def ours(self) -> bool:
        """Whether the lease is certainly ours: what is under way may go on, with the next hop of a redirect, say."""
        return not self.lost and asyncio.get_running_loop().time() < self.ours_until

    def cut(self) -> None:
        """Gives up the pages under way: they go back untried, as if they had not been begun."""
        self.handed_back = self.cut_short = True
        for lane in list(self.visits):
            lane.cancel()


class Scraper:
    """Fetches, extracts and judges. One a process, on its loop; `contexts` gives a crawl's context by its id."""

    def __init__(
        self,
        *,
        fetcher: HttpFetcher,
        gates: Gates,
        robots: Robots,
        writer: Writer,
        contexts: Callable[[int], Awaitable[CrawlContext]],
        rng: random.Random,
    ) -> None:
        self._fetcher = fetcher
        self._gates = gates
        self._robots = robots
        self._writer = writer
        self._contexts = contexts
        self._breakers = Breakers()
        self._rng = rng

    async def batch(self, batch: Batch) -> None:
        """Settles every page of a batch. Returns when the last of them is stored."""
        lanes = []
        batch.unsettled, batch.moved_at = len(batch.lease.pages), asyncio.get_running_loop().time()
        for crawl_id in {page.crawl_id for page in batch.lease.pages}:
            batch.contexts[crawl_id] = await self._context(crawl_id)
        for page in batch.lease.pages:
            gate = self._gates.of(page.host)
            batch.queued.setdefault(gate, deque()).append(page)
            gate.pending += 1
            if not isinstance(context := batch.contexts[page.crawl_id], Tried):
                self._set_budget(gate, context)
        for gate, pages in batch.queued.items():
            for _ in range(min(len(pages), gate.limits.concurrency, LANES_MAX)):
                lanes.append(self._lane(batch, gate, pages))
        try:
            await asyncio.gather(*lanes)
        finally:
            for gate, pages in batch.queued.items():  # none, unless the batch was given up
                gate.pending -= len(pages)
        await batch.pending.stored.wait()

    async def hand_back(self, batch: Batch) -> None:
        """Settles what is not begun as untried, at once. What is under way goes on."""
        batch.handed_back = True
        await asyncio.gather(*(self._lane(batch, gate, pages) for gate, pages in batch.queued.items()))

    async def _lane(self, batch: Batch, gate: Gate, pages: deque[LeasedPage]) -> None:
        while pages:
            page = pages.popleft()
            try:
                await self._settle(batch, gate, page)
            finally:
                gate.pending -= 1

    async def _settle(self, batch: Batch, gate: Gate, page: LeasedPage) -> None:
        context = batch.contexts[page.crawl_id]
        tried = context if isinstance(context, Tried) else await self._try(batch, gate, page, context)
        verdict = await self._verdict(tried, gate, page, context)
        settled = Settled(
            page_id=page.id,
            crawl_id=page.crawl_id,
            lease_id=batch.lease.id,
            outcome=tried.outcome,
            verdict=verdict,
            http_status=tried.http_status,
            error=_storable(tried.error, ERROR_CHARS),
            excerpt=_storable(tried.excerpt, EXCERPT_CHARS),
            head=tried.head,
        )
        if tried.outcome is Outcome.FETCHED and tried.extracted is not None and not isinstance(context, Tried):
            stored = effects_of(settled, page, tried.extracted, tried.final_url or page.url, context)
        else:
            stored = SettledPage(settled)
        self._writer.put(stored, batch.pending)
        batch.unsettled -= 1
        batch.moved_at = asyncio.get_running_loop().time()

    async def _context(self, crawl_id: int) -> CrawlContext | Tried:
        try:
            return await self._contexts(crawl_id)
        except Exception as error:
            if away.note(error):
                return Tried(Outcome.DEFERRED, delay_s=AWAY_S)
            log.exception("crawl without a context", crawl=crawl_id)
            return Tried(Outcome.CRASHED, error=f"its crawl's definition cannot be used: {type(error).__name__}")

    async def _verdict(self, tried: Tried, gate: Gate, page: LeasedPage, context: CrawlContext | Tried) -> Verdict:
        outcome, now = tried.outcome, asyncio.get_running_loop().time()
        await self._heed_host(tried, gate)
        down = self._breakers.saw(page.host, page.id, outcome, now, failed_before=page.host_attempts > 0)
        if down is not None and down.rest_s:
            await gate.slow(down.rest_s, "it does not answer")
        attempts = page.attempts_of(outcome.blame)
        retry = RetryPolicy() if isinstance(context, Tried) else context.retry
        return judge(outcome, attempts, retry, self._rng, retry_after_s=tried.delay_s, down=down)

    async def _heed_host(self, tried: Tried, gate: Gate) -> None:
        """What an answer says of the pace of the host that gave it, which is another one after a redirect."""
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

    async def _try(self, batch: Batch, gate: Gate, page: LeasedPage, context: CrawlContext) -> Tried:
        if batch.over(page):
            return Tried(Outcome.DEFERRED)
        if self._breakers.hopeless(page.host, asyncio.get_running_loop().time()):
            return Tried(Outcome.HOST_DOWN, error=Outcome.HOST_DOWN.phrase)
        lane = asyncio.current_task()
        assert lane is not None
        batch.visits.add(lane)
        trip = Trip()
        try:
            return await self._visit(batch, gate, page, context, trip)
        except DeferredError as deferred:
            return Tried(Outcome.DEFERRED, delay_s=deferred.delay_s)
        except FetchError as error:
            return Tried(
                error.outcome, error.status, error.url, None, str(error), delay_s=error.retry_after_s, began=trip.began
            )
        except FunctionFailed as error:
            return Tried(Outcome.FUNCTION_FAILED, error=str(error))
        except asyncio.CancelledError:
            if not batch.cut_short:
                raise
            lane.uncancel()
            return Tried(Outcome.DEFERRED)
        except Exception as error:  # the task's edge: our own fault, and the page's outcome says so
            log.exception("page crashed", page=page.id, url=page.url, crawl=page.crawl_id)
            return Tried(Outcome.CRASHED, error=f"{type(error).__name__}: {error}")
        finally:
            trip.end()
            batch.visits.discard(lane)

    async def _visit(self, batch: Batch, gate: Gate, page: LeasedPage, context: CrawlContext, trip: Trip) -> Tried:
        def still_to_do() -> None:
            if batch.over(page):  # while it waited
                raise DeferredError(0.0)

        def still_ours() -> None:
            if not batch.ours:
                raise DeferredError(0.0)

        @asynccontextmanager
        async def turn() -> AsyncIterator[None]:
            async with gate.turn(batch.latest):
                still_to_do()
                yield

        async def before_hop(url: str) -> None:
            hop_gate = self._gates.of(host_of(url))
            latest = asyncio.get_running_loop().time() + context.policy.page_timeout_s

            @asynccontextmanager
            async def hop_turn() -> AsyncIterator[None]:
                """A slot within the turn that is held already, or one of the host that it leads to."""
                if trip.gate is hop_gate:
                    await hop_gate.another(latest)
                    still_ours()
                    yield
                else:
                    trip.end()
                    async with hop_gate.turn(latest):
                        still_ours()
                        yield

            hop_gate.pending += 1  # it is not idle meanwhile
            try:
                await self._heed_robots(url, hop_gate, context, hop_turn, still_ours)
                await trip.go(hop_gate, latest)
            finally:
                hop_gate.pending -= 1
            still_ours()

        await self._heed_robots(page.url, gate, context, turn, still_ours)
        await trip.go(gate, batch.latest)
        still_to_do()
        policy = context.sitemap_policy if page.kind is Kind.SITEMAP else context.policy
        fetched = await self._fetcher.fetch(page.url, policy, before_hop=before_hop)
        trip.end()
        return self._read(page, fetched, context, trip.began)

    def _set_budget(self, gate: Gate, context: CrawlContext) -> None:
        gate.budget(context.site_id, context.budget)

    async def _heed_robots(
        self, url: str, gate: Gate, context: CrawlContext, turn: Turn, still_ours: Callable[[], None]
    ) -> None:
        """Sets the host's budget, robots.txt's crawl delay included, and refuses what robots.txt disallows.

        Before the page's own turn, so that a request for robots.txt never waits for a turn while holding one. `still_ours`
        raises where a redirect of it is not to be followed any more.
        """
        self._set_budget(gate, context)
        if not context.site.robots:
            return

        async def before_hop(to: str) -> None:
            await self._robots_hop(to, context)
            still_ours()

        rules = await self._robots.rules(url, context, turn, before_hop)
        if rules is None:
            raise FetchError(
                Outcome.ROBOTS_UNAVAILABLE,
                f"robots.txt of {host_of(url)} cannot be read; until it can, nothing of the host is fetched",
                url=url,
                retry_after_s=ROBOTS_PATIENCE_S,
            )
        if not rules.allowed(url):
            raise FetchError(Outcome.ROBOTS_DISALLOWED, f"robots.txt of {host_of(url)} disallows {url}", url=url)
        gate.crawl_delay(context.site_id, rules.crawl_delay_s or 0.0)

    async def _robots_hop(self, url: str, context: CrawlContext) -> None:
        """robots.txt redirects: a request like any other to the host it leads to."""
        gate = self._gates.of(host_of(url))
        self._set_budget(gate, context)
        await gate.another(asyncio.get_running_loop().time() + context.policy.page_timeout_s)

    def _read(self, page: LeasedPage, fetched: Fetched, context: CrawlContext, began: float) -> Tried:
        wish_s = retry_after_s(fetched.headers, context.now())
        outcome = outcome_of_status(fetched.status, retry_after=wish_s is not None)
        if outcome is not Outcome.FETCHED:
            error = None if outcome is Outcome.NOT_MODIFIED else f"the server answered {fetched.status}"
            return _useless(outcome, fetched, error, delay_s=wish_s, began=began)
        extracted = context.extractor.extract(page.kind, fetched, page_url=page.url, depth=page.depth)
        if not extracted.complete:
            error = "; ".join(extracted.problems[:5])
            return _useless(Outcome.NOT_EXTRACTED, fetched, error)
        return Tried(Outcome.FETCHED, fetched.status, fetched.url, extracted)


def _useless(
    outcome: Outcome, fetched: Fetched, error: str | None, delay_s: float | None = None, began: float = 0.0
) -> Tried:
    """An answer that gives nothing, with what people need to see why."""
    excerpt, head = _excerpt(fetched), _head(fetched)
    return Tried(outcome, fetched.status, fetched.url, None, error, excerpt, head, delay_s, began)


def _head(fetched: Fetched) -> dict[str, str]:
    """The answer's headers, bounded. (Cookies, which are somebody's identity, are not among `Fetched.headers`.)"""
    fields = islice(fetched.headers.items(), HEAD_FIELDS)
    return {name[:HEAD_CHARS]: _storable(value, HEAD_CHARS) or "" for name, value in fields}


def _excerpt(fetched: Fetched) -> str | None:
    return fetched.body[: EXCERPT_CHARS * 2].decode("utf-8", "replace") or None


def _storable(text: str | None, limit: int) -> str | None:
    """PostgreSQL takes neither NUL nor lone surrogates."""
    if text is None:
        return None
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:limit]
