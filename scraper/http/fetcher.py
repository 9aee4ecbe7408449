"""The HTTP client: one URL in, one bounded response out, whatever the other side does.

Owns a page's redirects and its deadline. Every failure is a `FetchError`; any final status is a
response, and the caller judges it. Does not retry, read robots.txt or choose a proxy, and leaves
waiting for politeness to the caller's `before_hop`. Never goes without a proxy if the policy says
`proxied`. Keeps cookies for one page's redirects, or in the jar of an identity.
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
from scraper.http.exchange import EMPTY, BoundedResponse, Exchanger, exchange, page_timeout_error
from scraper.http.held_bodies import HeldBody
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute, this_machine
from scraper.http.redirects import Chain, find_refresh, host_of, with_cookies
from scraper.http.request import Pairs, RequestUrl, conditional_headers, request_headers, split_url
from scraper.http.transport.aiohttp_transport import PoolOptions, StaleConnectionError
from scraper.http.transport.deadline import Deadline
from scraper.http.transport.faults import fetch_error

BeforeHop = Callable[[str], Awaitable[None]]


class Visitor(Protocol):
    """The identity that a page is fetched with: its cookies, and the seed that chooses its
    browser."""

    @property
    def jar(self) -> CookieJar: ...
    @property
    def seed(self) -> str: ...


class PostBody(NamedTuple):
    """The content of a POST. It is sent again only if a redirect to the same origin asks for that
    (307, 308)."""

    content: bytes
    media_type: str


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
        body: PostBody | None = None,
        held_body: HeldBody | None = None,
    ) -> Fetched:
        """GETs a page and follows its redirects, all of them through `route`.

        With a `body` it is a POST. `visitor` is an account's identity, whose cookies and browser
        take precedence over the route's. With `validators` the first request is conditional, and
        its response is compared; a redirect leads to another resource, with validators of its own.

        `before_hop` is awaited with the URL of each further request before it is sent: a
        redirect's, or the same one after a kept-alive connection was closed. The caller already
        holds the first request's permit. This wait counts neither against `page_timeout_s` nor into
        `elapsed_s`; a large body's wait for room in `held_body` does not either, nor does a
        standstill of this process.

        Raises FetchError, and what `before_hop` raises.
        """
        seed, jar = self._choose_identity(policy, route, visitor)
        # `async with` would make two more coroutines.
        await self._slots.acquire()
        try:
            own = policy.headers_from(seed, secure=url.startswith("https:"))
            extensions = policy.extensions
            if route is not None:
                extensions = {**extensions, "proxy": route.proxy}
            page = _PageRequests(
                url=_split_http_url(url),
                policy=policy,
                headers=request_headers(own, extra_headers),
                conditions=conditional_headers(validators),
                jar=jar,
                body=body,
                held_body=held_body,
                extensions=extensions,
            )
            try:
                async with Deadline(policy.page_timeout_s) as page.deadline:
                    while True:
                        transport = self._choose_transport(policy, route, seed, page.url.origin)
                        fetched = await page.exchange(transport, validators)
                        if fetched is not None:
                            return fetched
                        if before_hop is not None:
                            await page.pause(before_hop(page.url.text))
            except TimeoutError:
                if not page.deadline.expired():
                    raise
                raise page_timeout_error(policy, page.url.text) from None
        finally:
            self._slots.release()

    def _choose_identity(
        self, policy: FetchPolicy, route: ProxyRoute | None, visitor: Visitor | None
    ) -> tuple[str, CookieJar | None]:
        """Returns the seed that chooses the browser, and the cookies."""
        if visitor is not None:
            return visitor.seed, visitor.jar
        if route is not None:
            return route.proxy.id, route.jar
        return this_machine(), self._jars.get(policy.cookies)


@dataclass(slots=True)
class _PageRequests:
    """The requests of one page along its redirects: which one is next, and what they have spent.
    Only the first request sends `conditions`."""

    url: RequestUrl
    policy: FetchPolicy
    headers: Pairs
    conditions: Pairs
    jar: CookieJar | None
    body: PostBody | None
    held_body: HeldBody | None
    extensions: dict[str, Any]
    started: float = field(default_factory=monotonic)
    waited_s: float = 0.0
    resent: bool = False
    chain: Chain | None = None
    deadline: Deadline = field(init=False)

    async def exchange(
        self, transport: httpx.AsyncBaseTransport, validators: Validators | None
    ) -> Fetched | None:
        """Sends the next request. Returns the page; None if one more request is due."""
        try:
            response = await exchange(
                transport,
                self.next_request(),
                self.policy,
                self.jar,
                self.url,
                follows=True,
                validators=validators if self.chain is None else None,
                wait_for_room=self.wait_for_room if self.held_body is not None else None,
            )
        except StaleConnectionError as error:
            self.resend(error)
            return None
        location: bytes | None = None
        if response.redirects:
            location = next(value for name, value in response.raw if name.lower() == b"location")
        elif response.status == 200 and not response.same:
            location = find_refresh(response.headers, response.body, self.url.text)
        if location is None:
            return self.to_fetched(response)
        self.follow(response, location)
        return None

    def next_request(self) -> httpx.Request:
        headers: Pairs | httpx.Headers
        if self.chain is not None:
            headers = self.chain.headers_for(httpx.URL(self.url.text))
        elif self.jar is not None:
            headers = with_cookies([*self.headers, *self.conditions], self.jar, self.url)
        elif self.conditions or self.body is not None:
            headers = [*self.headers, *self.conditions]
        else:
            headers = _encode_headers(tuple(self.headers))
        method, extensions = "GET", {**self.extensions, "target": self.url.target}
        if self.body is not None:
            content, media_type = self.body
            length = str(len(content))
            headers = [*headers, ("Content-Type", media_type), ("Content-Length", length)]
            method, extensions["body"] = "POST", content
        return httpx.Request(
            method, self.url.origin, headers=headers, stream=EMPTY, extensions=extensions
        )

    def to_fetched(self, response: BoundedResponse) -> Fetched:
        return Fetched(
            url=self.url.text,
            status=response.status,
            headers=response.headers,
            body=response.body,
            elapsed_s=monotonic() - self.started - self.waited_s - self.deadline.stalled_s,
            redirects=self.chain.redirects if self.chain else 0,
            conditional=bool(self.conditions) and self.chain is None,
            body_hash=response.body_hash,
            same=response.same,
        )

    def follow(self, response: BoundedResponse, location: bytes) -> None:
        """Takes one redirect. Raises FetchError if it may not lead there."""
        hop, policy = httpx.URL(self.url.text), self.policy
        if self.chain is None:
            self.chain = Chain(hop, self.headers, policy.redirects_max, self.jar)
        cookies = [value for name, value in response.raw if name.lower() == b"set-cookie"]
        try:
            target = self.chain.follow(hop, response.status, location, cookies)
            host = host_of(target)
            if host != host_of(hop) and policy.allowed is not None and not policy.allowed(host):
                message = f"redirects to {host}, which is not a host of the site"
                raise FetchError(Outcome.OFF_SITE, message, url=str(target))
        except FetchError as error:
            raise fetch_error(
                error, url=self.url.text, host=host_of(hop), limits=policy, status=response.status
            ) from None
        if response.status not in (307, 308):
            # As in browsers, a POST becomes a GET, except for the codes that forbid it (RFC 9110
            # 15.4.8, 15.4.9).
            self.body = None
        elif self.body is not None and (hop.scheme, hop.netloc) != (target.scheme, target.netloc):
            message = f"would send what was posted on to {target.scheme}://{host}"
            raise FetchError(Outcome.OFF_SITE, message, url=str(target))
        self.url, self.resent = split_url(str(target)), False

    def resend(self, error: StaleConnectionError) -> None:
        """Allows an unanswered request to be sent again, as another request of the host's budget.
        Raises FetchError the second time."""
        if self.resent:
            host = host_of(self.url.origin)
            raise fetch_error(error, url=self.url.text, host=host, limits=self.policy) from error
        self.resent = True

    async def wait_for_room(self, size: int) -> None:
        if self.held_body is not None and self.held_body.grow(size):
            await self.pause(self.held_body.wait_for_room())

    async def pause(self, waiting: Awaitable[None]) -> None:
        """Awaits politeness, or room for a body, without the page's time running."""
        started, deadline_at = monotonic(), self.deadline.when()
        if not self.deadline.expired():
            self.deadline.reschedule(None)
        await waiting
        waited_s = monotonic() - started
        self.waited_s += waited_s
        if deadline_at is not None and not self.deadline.expired():
            self.deadline.reschedule(deadline_at + waited_s)


def _split_http_url(text: str) -> RequestUrl:
    try:
        url = split_url(text)
    except Exception as error:
        raise FetchError(Outcome.MALFORMED, f"not a URL: {error}", url=text) from error
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise FetchError(Outcome.MALFORMED, "not an http or https URL with a host", url=text)
    return url


@lru_cache(maxsize=256)
def _encode_headers(pairs: tuple[tuple[str, str], ...]) -> httpx.Headers:
    """Encodes the headers that all pages of a site send."""
    return httpx.Headers(list(pairs))
