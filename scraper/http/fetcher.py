"""The HTTP client: one URL in, one bounded answer out, whatever the other side does.

Owns a page's redirects and its deadline. Every failure is a `FetchError`; any final status is an
answer, and the caller judges it. Refuses to retry, to wait for politeness (a redirect's wait is the
caller's `before_hop`), to read robots.txt, to choose a proxy, to go without one where the policy
says `proxied`, and to keep cookies beyond one page's redirects, but for those of an identity.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic
from typing import Any, NamedTuple, Protocol

import httpx

from scraper.domain import Fetched, Outcome, Validators
from scraper.errors import FetchError
from scraper.http.cookies import CookieJar, Jars
from scraper.http.deadlines import Deadline
from scraper.http.exchange import EMPTY, Answer, Exchanger, exchange, late
from scraper.http.held_bodies import HeldBody
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute, this_machine
from scraper.http.redirects import Chain, host_of, with_cookies
from scraper.http.request import Pairs, conditions, parsed, request_headers
from scraper.http.transport.aiohttp_transport import PoolOptions, StaleConnectionError
from scraper.http.transport.faults import fault

BeforeHop = Callable[[str], Awaitable[None]]


class Visitor(Protocol):
    """Who asks, where that is somebody: the cookies that go along, and what tells their browser
    from others'."""

    @property
    def jar(self) -> CookieJar: ...
    @property
    def seed(self) -> str: ...


class Body(NamedTuple):
    """What a POST sends. It is sent once more only where a redirect asks for that (307, 308) and to
    the same origin."""

    content: bytes
    kind: str


class HttpFetcher(Exchanger):
    """Fetches pages. At most `pool.max_connections` of them are in flight."""

    def __init__(self, pool: PoolOptions | None = None) -> None:
        super().__init__(pool)
        self._jars = Jars()

    async def fetch(
        self,
        url: str,
        policy: FetchPolicy,
        *,
        validators: Validators | None = None,
        before_hop: BeforeHop | None = None,
        extra_headers: Mapping[str, str] | None = None,
        route: ProxyRoute | None = None,
        visitor: Visitor | None = None,
        body: Body | None = None,
        held: HeldBody | None = None,
    ) -> Fetched:
        """GETs a page, redirects followed, all of it through `route`. Raises FetchError alone, and
        what `before_hop` raises. Only the first request is conditional, and only its answer is
        compared: what a redirect leads to is another resource, with validators of its own. Without
        `validators` nothing is compared, now or later. With a `body` it is a POST; `visitor` is an
        account's identity, whose cookies and browser go before `route`'s.

        `before_hop` is awaited with the URL of each further request before it is sent: a
        redirect's, or the same again where a kept-alive connection was closed (not for the first
        request: its slot is the caller's). That wait counts neither against `page_timeout_s` nor
        into `elapsed_s`, and neither does that of a large body for room among those `held`.
        """
        seed, jar = self._identity(policy, route, visitor)
        # `async with` would make two coroutines more.
        await self._slots.acquire()
        try:
            own = policy.headers_from(seed, secure=url.startswith("https:"))
            extensions = (
                policy.extensions
                if route is None
                else {
                    **policy.extensions,
                    "proxy": route.proxy,
                }
            )
            page = _Page(
                url=url,
                hop=_parsed(url),
                policy=policy,
                headers=request_headers(own, extra_headers),
                conditions=conditions(validators),
                jar=jar,
                body=body,
                held=held,
                extensions=extensions,
            )
            try:
                async with self._deadlines.after(policy.page_timeout_s) as page.deadline:
                    while True:
                        try:
                            answer = await exchange(
                                self._way_out(policy, route, seed, page.hop),
                                *(page.request(), policy, jar, page.url),
                                follows=True,
                                validators=validators if page.chain is None else None,
                                growing=page.growing if held is not None else None,
                            )
                            if not answer.redirects:
                                return page.fetched(answer)
                            page.follow(answer)
                        except StaleConnectionError as error:
                            page.resend(error)
                        if before_hop is not None:
                            await page.wait(before_hop(page.url))
            except TimeoutError:
                if not page.deadline.expired:
                    raise
                raise late(policy, page.url) from None
        finally:
            self._slots.release()

    def _identity(
        self, policy: FetchPolicy, route: ProxyRoute | None, visitor: Visitor | None
    ) -> tuple[str, CookieJar | None]:
        """What the browser of whoever asks is chosen by, and their cookies."""
        if visitor is not None:
            return visitor.seed, visitor.jar
        if route is not None:
            return route.proxy.id, route.jar
        return this_machine(), self._jars.of(policy.cookies)


@dataclass(slots=True)
class _Page:
    """One page on its way through its redirects: which request is next, and what has been spent.
    `conditions` go with the first request alone."""

    url: str
    hop: httpx.URL
    policy: FetchPolicy
    headers: Pairs
    conditions: Pairs
    jar: CookieJar | None
    body: Body | None
    held: HeldBody | None
    extensions: dict[str, Any]
    started: float = field(default_factory=monotonic)
    waited_s: float = 0.0
    resent: bool = False
    chain: Chain | None = None
    deadline: Deadline = field(init=False)

    def request(self) -> httpx.Request:
        headers: Pairs | httpx.Headers
        if self.chain is not None:
            headers = self.chain.headers_for(self.hop)
        elif self.jar is not None:
            headers = with_cookies([*self.headers, *self.conditions], self.jar, self.hop)
        elif self.conditions or self.body is not None:
            headers = [*self.headers, *self.conditions]
        else:
            headers = _encoded(tuple(self.headers))
        method, extensions = "GET", self.extensions
        if self.body is not None:
            content, kind = self.body
            length = str(len(content))
            headers = [*headers, ("Content-Type", kind), ("Content-Length", length)]
            method, extensions = "POST", {**extensions, "body": content}
        return httpx.Request(method, self.hop, headers=headers, stream=EMPTY, extensions=extensions)

    def fetched(self, answer: Answer) -> Fetched:
        return Fetched(
            url=self.url,
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
            elapsed_s=monotonic() - self.started - self.waited_s,
            redirects=self.chain.redirects if self.chain else 0,
            conditional=bool(self.conditions) and self.chain is None,
            body_hash=answer.body_hash,
            same=answer.same,
        )

    def follow(self, answer: Answer) -> None:
        """Takes one redirect. Raises FetchError where it may not lead there."""
        hop, policy = self.hop, self.policy
        if self.chain is None:
            self.chain = Chain(hop, self.headers, policy.redirects_max, self.jar)
        location = next(value for name, value in answer.raw if name.lower() == b"location")
        cookies = [value for name, value in answer.raw if name.lower() == b"set-cookie"]
        try:
            target = self.chain.follow(hop, answer.status, location, cookies)
            host = host_of(target)
            if host != host_of(hop) and policy.allowed is not None and not policy.allowed(host):
                message = f"redirects to {host}, which is not a host of the site"
                raise FetchError(Outcome.OFF_SITE, message, url=str(target))
        except FetchError as error:
            raise fault(
                error, url=self.url, host=host_of(hop), limits=policy, status=answer.status
            ) from None
        if answer.status not in (307, 308):
            # As browsers do: a POST becomes a GET, but for the codes that forbid that (RFC 9110
            # 15.4.8, 15.4.9).
            self.body = None
        elif self.body is not None and (hop.scheme, hop.netloc) != (target.scheme, target.netloc):
            message = f"would send what was posted on to {target.scheme}://{host}"
            raise FetchError(Outcome.OFF_SITE, message, url=str(target))
        self.hop, self.url, self.resent = target, str(target), False

    def resend(self, error: StaleConnectionError) -> None:
        """Lets a request that nobody has answered be sent once more, as one more request of the
        host's budget."""
        if self.resent:
            raise fault(error, url=self.url, host=host_of(self.hop), limits=self.policy) from error
        self.resent = True

    async def growing(self, size: int) -> None:
        if self.held is not None and self.held.grows(size):
            await self.wait(self.held.room())

    async def wait(self, waiting: Awaitable[None]) -> None:
        """The page's clock stands still while politeness makes it wait, or other pages."""
        started = monotonic()
        self.deadline.suspend()
        await waiting
        waited_s = monotonic() - started
        self.waited_s += waited_s
        self.deadline.put_off(waited_s)


def _parsed(url: str) -> httpx.URL:
    try:
        hop = parsed(url)
    except Exception as error:
        raise FetchError(Outcome.MALFORMED, f"not a URL: {error}", url=url) from error
    if hop.scheme not in ("http", "https") or not hop.host:
        raise FetchError(Outcome.MALFORMED, "not an http or https URL with a host", url=url)
    return hop


@lru_cache(maxsize=256)
def _encoded(pairs: tuple[tuple[str, str], ...]) -> httpx.Headers:
    """What a site's pages send, encoded once."""
    return httpx.Headers(list(pairs))
