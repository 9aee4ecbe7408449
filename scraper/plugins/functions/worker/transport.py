"""The httpx transport of users' functions, with the same limits as a crawl's pages.

Every request and every hop of a redirect goes through robots.txt, its host's permit (the fleet's
budget, an operator's limits), a proxy if the call asks for one, the guard, sizes and deadlines. A
context variable holds the input that a request belongs to. Tasks that the function starts inherit
it, so one client may serve many inputs; a request outside any input is refused.

Waiting for a permit counts against no deadline: it stops the `Clock`. A request that waits longer
than `PATIENCE_S` raises an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import TypeVar

import httpx

from scraper.domain import Fetched, Kind, LeasedPage, Outcome
from scraper.errors import DeferredError, FetchError, NoProxyError
from scraper.http.proxy_route import ProxyRoute
from scraper.http.request import headers_dict
from scraper.plugins.functions.worker.context import CallContext
from scraper.plugins.functions.worker.request_sender import RequestSender, check_request
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.robots import RobotsRules, Unavailable, require_allowed
from scraper.politeness.robots_cache import RobotsCache
from scraper.proxies.rotation import ProxyRotation
from scraper.rules.urls import host_of
from scraper.rules.verdict import outcome_of_status, retry_after_s

# A request waits this long for a permit, or for a free proxy.
PATIENCE_S = 300.0
PAUSE_MIN_S, PAUSE_MAX_S = 0.05, 5.0

T = TypeVar("T")


class Clock:
    """The time that an input has taken, without its waits for hosts. Made on a running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._since = self._loop.time()
        self._waited_s = 0.0
        # The number of waiting requests.
        self.waiting = 0

    @property
    def spent_s(self) -> float:
        waiting_s = self._loop.time() - self._since if self.waiting else 0.0
        return self._loop.time() - self._began - self._waited_s - waiting_s

    @contextmanager
    def pause(self) -> Iterator[None]:
        if not self.waiting:
            self._since = self._loop.time()
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            if not self.waiting:
                self._waited_s += self._loop.time() - self._since


@dataclass(slots=True)
class CallInput:
    """A running input, as its requests see it."""

    context: CallContext
    urgency: int = 0
    clock: Clock = field(default_factory=Clock)


current_input: ContextVar[CallInput] = ContextVar("current_input")


class PoliteTransport(httpx.AsyncBaseTransport):
    """The transport of a worker process, on its event loop. Raises httpx's errors; the cause of
    each is a `FetchError`, which says what to blame.

    It outlives its clients: closing one does not close it.
    """

    def __init__(
        self,
        *,
        sender: RequestSender,
        limiters: HostLimiters,
        robots: RobotsCache,
        rotation: ProxyRotation,
    ) -> None:
        self._sender = sender
        self.limiters = limiters
        self._robots = robots
        self._rotation = rotation
        self._numbers = count(1)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        by = current_input.get(None)
        if by is None:
            raise RuntimeError(
                "a request outside of any call has no limits to apply "
                "(fix: make it in the function)"
            )
        try:
            check_request(request)
            if by.context.need is None:
                return await self._send_politely(request, by, None)
            return await self._send_proxied(request, by)
        except FetchError as error:
            raise as_httpx(error, request) from error

    async def _send_proxied(self, request: httpx.Request, by: CallInput) -> httpx.Response:
        """Sends the request through one proxy after another, like pages
        (`scraper.proxies.rotation`). A POST that was sent is not repeated, since the host may have
        acted on it (RFC 9110 9.2.2): another proxy is tried only if the one before has not
        forwarded it."""
        need, loop = by.context.need, asyncio.get_running_loop()
        assert need is not None
        url, deadline_at = str(request.url), loop.time() + PATIENCE_S
        page = LeasedPage(
            -next(self._numbers), 0, url, Kind.PRODUCT, host_of(url), 0, 0, 0, by.urgency
        )
        answers: list[httpx.Response] = []
        left = False

        def leaves() -> None:
            nonlocal left
            left = True

        async def get(route: ProxyRoute) -> Fetched:
            nonlocal left
            began, left = loop.time(), False
            answers.append(response := await self._send_politely(request, by, route, leaves))
            headers = headers_dict(response.headers.raw)
            return Fetched(
                url, response.status_code, headers, response.content, loop.time() - began
            )

        def final(met: Fetched | FetchError) -> bool:
            passed_on = left and (isinstance(met, Fetched) or met.signal is None)
            return request.method != "GET" and passed_on

        while True:
            try:
                await self._rotation.fetch(
                    page, need, get, block_of=by.context.block_of, final=final
                )
                return answers[-1]
            except NoProxyError as none:
                if loop.time() + none.delay_s > deadline_at:
                    raise FetchError(Outcome.NO_PROXY, none.reason, url=url) from None
                with by.clock.pause():
                    # The list may have another one sooner.
                    await asyncio.sleep(min(none.delay_s, PAUSE_MAX_S))
            except DeferredError as away:
                await self._pause_input(
                    by, away.delay_s, deadline_at, f"no proxy within {PATIENCE_S:g} s", url
                )

    async def _send_politely(
        self,
        request: httpx.Request,
        by: CallInput,
        route: ProxyRoute | None,
        leaves: Callable[[], None] = lambda: None,
    ) -> httpx.Response:
        """Sends the request within all limits. Calls `leaves` just before."""
        url, context = str(request.url), by.context
        limiter = self.limiters.for_host(host_of(url))
        limiter.pending += 1
        try:
            await self.heed_robots(url, limiter, by, route)
            await self.when_permitted(
                limiter, by, lambda deadline_at: limiter.acquire(deadline_at, by.urgency)
            )
            began = asyncio.get_running_loop().time()
            leaves()

            async def before_resend() -> None:
                await self.when_permitted(
                    limiter, by, lambda deadline_at: limiter.take_slot(deadline_at, by.urgency)
                )

            try:
                response = await self._sender.send(request, context.policy, route, before_resend)
            except FetchError as error:
                await limiter.heed_answer(
                    error.outcome, error.status, began, retry_after_s=error.retry_after_s
                )
                raise
            finally:
                limiter.release(began)
            wish_s = (
                retry_after_s(response.headers, datetime.now(UTC))
                if "retry-after" in response.headers
                else None
            )
            outcome = outcome_of_status(response.status_code, retry_after=wish_s is not None)
            await limiter.heed_answer(outcome, response.status_code, began, retry_after_s=wish_s)
            return response
        finally:
            limiter.pending -= 1

    async def heed_robots(
        self, url: str, limiter: HostLimiter, by: CallInput, route: ProxyRoute | None
    ) -> None:
        """Sets the host's budget, and refuses what robots.txt disallows."""
        context = by.context
        limiter.set_budget(context.site_id, context.budget)
        if not context.robots:
            return

        async def before_hop(to: str) -> None:
            other = self.limiters.for_host(host_of(to))
            other.set_budget(context.site_id, context.budget)
            await other.take_slot(
                asyncio.get_running_loop().time() + context.policy.page_timeout_s, by.urgency
            )

        async def rules_within(deadline_at: float) -> RobotsRules | Unavailable:
            @asynccontextmanager
            async def permit() -> AsyncIterator[None]:
                async with limiter.permit(deadline_at, by.urgency):
                    yield

            permit_of: Callable[[], AbstractAsyncContextManager[None]] = permit
            return await self._robots.rules(url, context, permit_of, before_hop, route)

        rules = require_allowed(await self.when_permitted(limiter, by, rules_within), url)
        limiter.set_crawl_delay(context.site_id, rules.crawl_delay_s or 0.0)

    async def when_permitted(
        self, limiter: HostLimiter, by: CallInput, do: Callable[[float], Awaitable[T]]
    ) -> T:
        """Awaits `do` with the deadline of its permit; repeats it if the limiter defers it."""
        deadline_at = asyncio.get_running_loop().time() + PATIENCE_S
        with by.clock.pause():
            while True:
                limiter.set_budget(by.context.site_id, by.context.budget)
                try:
                    return await do(deadline_at)
                except DeferredError as deferred:
                    message = (
                        f"no permit of {limiter.host} within {PATIENCE_S:g} s: "
                        "the host is paused, or too many requests wait for it"
                    )
                    await self._pause_input(
                        by, deferred.delay_s, deadline_at, message, limiter.host
                    )

    @staticmethod
    async def _pause_input(
        by: CallInput, delay_s: float, deadline_at: float, message: str, url: str
    ) -> None:
        left_s = deadline_at - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise FetchError(Outcome.DEFERRED, message, url=url)
        with by.clock.pause():
            await asyncio.sleep(min(left_s, max(PAUSE_MIN_S, min(delay_s, PAUSE_MAX_S))))


def as_httpx(error: FetchError, request: httpx.Request) -> httpx.TransportError:
    """Returns the error as the httpx exception that a function expects to catch."""
    match error.outcome:
        case Outcome.TIMEOUT:
            return httpx.ReadTimeout(str(error), request=request)
        case Outcome.UNREACHABLE | Outcome.TLS:
            return httpx.ConnectError(str(error), request=request)
        case Outcome.PROXY_FAILED | Outcome.NO_PROXY:
            return httpx.ProxyError(str(error), request=request)
        case Outcome.MALFORMED:
            return httpx.RemoteProtocolError(str(error), request=request)
        case Outcome.TOO_LARGE:
            return httpx.ReadError(str(error), request=request)
        case _:
            return RefusedRequestError(str(error), request=request)


class RefusedRequestError(httpx.TransportError):
    """The request was not sent: robots.txt, an internal address, or no permit of its host."""
