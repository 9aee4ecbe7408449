"""The HTTP client: one URL in, one bounded answer out, whatever the other side does.

Owns deadlines, redirects, size limits and request headers. Every failure is a `FetchError`; any
final status is an answer, and the caller judges it. Refuses to retry, to wait for politeness (a
redirect's wait is the caller's `before_hop`), to read robots.txt, to choose a proxy, to go without
one where the policy says `proxied`, and to keep cookies beyond one page's redirects, but for those
of an identity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic
from typing import Any, NamedTuple, Protocol

import httpx
from aiohttp.abc import AbstractResolver

from scraper.connect.faults import fault
from scraper.connect.transport import StaleConnectionError
from scraper.domain import NO_VALIDATORS, Fetched, Outcome, Validators
from scraper.errors import FetchError
from scraper.http import codings
from scraper.http.body import ACCEPT_ENCODING, read_body
from scraper.http.cookies import CookieJar, Jars
from scraper.http.deadlines import Deadline, Deadlines
from scraper.http.headers import (
    Pairs,
    conditions,
    headers_dict,
    merged,
    request_headers,
)
from scraper.http.parsed_url import parsed
from scraper.http.proxy_route import ProxyRoute, this_machine
from scraper.http.redirects import (
    STATUSES,
    Chain,
    host_of,
    with_cookies,
)
from scraper.http.transports import Transports
from scraper.impersonate import profiles
from scraper.impersonate.profiles import MissingExtraError
from scraper.rules import browsers

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en;q=0.9,*;q=0.5"
# a redirect's body is read so far to keep the connection; beyond it, a new one is cheaper
_DRAIN_MAX_BYTES = 65_536
_DRAIN_S = 0.5
_NO_BODY = frozenset({204, 304})
# with a stream given, httpx does not build the headers twice; aiohttp adds Host
_EMPTY = httpx.ByteStream(b"")

BeforeHop = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """How one site's pages are fetched. Built once a site; `dataclasses.replace` makes variants.

    `headers` go out beside and instead of our own. `allowed` takes host[:port] in lower case and
    says whether a redirect may lead there (None: anywhere). `truncate` cuts a body at
    `body_max_bytes` instead of failing. A `proxied` site's pages are never asked for without a
    proxy. `user_agent` may be `browser`, with languages of the `region`. `impersonate` names a
    browser whose handshake and headers are sent (`scraper.impersonate.profiles`), or `any`;
    `cookies` a jar of the fetcher's that is kept from page to page, where there is no proxy.
    """

    user_agent: str
    headers: Mapping[str, str]
    allow_private: bool
    allowed: Callable[[str], bool] | None
    body_max_bytes: int
    wire_max_bytes: int
    redirects_max: int
    connect_timeout_s: float
    read_timeout_s: float
    page_timeout_s: float
    truncate: bool = False
    proxied: bool = False
    region: str | None = None
    impersonate: str | None = None
    http2: bool = False
    cookies: str | None = None
    base_headers: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    extensions: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = [
            ("User-Agent", self.user_agent),
            ("Accept", ACCEPT),
            ("Accept-Language", ACCEPT_LANGUAGE),
            ("Accept-Encoding", ACCEPT_ENCODING),
        ]
        object.__setattr__(self, "base_headers", self._with_the_sites(own))
        timeout = {"connect": self.connect_timeout_s, "read": self.read_timeout_s}
        object.__setattr__(self, "extensions", {"timeout": timeout})

    def headers_from(self, seed: str, *, secure: bool) -> tuple[tuple[str, str], ...]:
        """What a page's first request sends: our own headers, or those of the browser that `seed`
        (a proxy's id) has."""
        if self.impersonate is not None:
            browser = browsers.impersonated(self.impersonate, seed)
            own = [
                (name, codings.understood(value) if name.lower() == "accept-encoding" else value)
                for name, value in profiles.headers_of(browser, self.region, secure=secure)
            ]
            return self._with_the_sites(own)
        if self.user_agent != browsers.BROWSER:
            return self.base_headers
        accepted = codings.understood(browsers.ACCEPT_ENCODING if secure else ACCEPT_ENCODING)
        return self._with_the_sites(
            list(browsers.headers(seed, self.region, accepted, secure=secure))
        )

    def _with_the_sites(self, own: Pairs) -> tuple[tuple[str, str], ...]:
        # Accept-Encoding is not the site's to change: only what can be unpacked may be asked for.
        extra = {
            name: value for name, value in self.headers.items() if name.lower() != "accept-encoding"
        }
        return tuple(merged(own, extra))


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


class HttpFetcher:
    """Fetches pages over pools of connections, guarded ones and ones for sites with
    `allow_private`, and apart from both those through proxies.

    Belongs to one event loop. At most `max_connections` pages are in flight; a wait for that counts
    against no timeout. `resolver` replaces the system's (its answers pass the guard all the same).
    """

    def __init__(
        self,
        *,
        max_connections: int = 512,
        resolver: AbstractResolver | None = None,
        dns_ttl_s: int = 30,
    ) -> None:
        self._slots = asyncio.Semaphore(max_connections)
        self._transports = Transports(
            max_connections=max_connections, resolver=resolver, dns_ttl_s=dns_ttl_s
        )
        self._jars = Jars()
        self._deadlines = Deadlines()

    async def fetch(
        self,
        url: str,
        policy: FetchPolicy,
        *,
        validators: Validators = NO_VALIDATORS,
        before_hop: BeforeHop | None = None,
        extra_headers: Mapping[str, str] | None = None,
        via: ProxyRoute | None = None,
        visitor: Visitor | None = None,
        body: Body | None = None,
    ) -> Fetched:
        """GETs a page, redirects followed, all of it through `via`. Raises FetchError alone, and
        what `before_hop` raises. Only the first request is conditional: what a redirect leads to is
        another resource, with validators of its own. With a `body` it is a POST; `visitor` is an
        account's identity, whose cookies and browser go before `via`'s.

        `before_hop` is awaited with the URL of each further request before it is sent: a
        redirect's, or the same again where a kept-alive connection was closed (not for the first
        request: its slot is the caller's). That wait counts neither against `page_timeout_s` nor
        into `elapsed_s`.
        """
        if via is None and policy.proxied:
            raise RuntimeError("a page of a site with a proxy would leave without one")
        seed = via.proxy.id if via else this_machine()
        jar = via.jar if via else self._jars.of(policy.cookies)
        if visitor is not None:
            seed, jar = visitor.seed, visitor.jar
        try:
            transport = self._transports.of(policy, seed, proxied=via is not None)
            base = policy.headers_from(seed, secure=url.startswith("https:"))
        except MissingExtraError as error:
            raise FetchError(
                Outcome.CRASHED, f"this worker cannot fetch it: {error}", url=url
            ) from None
        headers, asked = request_headers(base, extra_headers), conditions(validators)
        # `async with` would make two coroutines more
        await self._slots.acquire()
        try:
            page = _Page(transport, policy, before_hop, via, jar, body)
            try:
                async with self._deadlines.after(policy.page_timeout_s) as page.deadline:
                    return await page.fetch(url, headers, asked)
            except TimeoutError:
                if not page.deadline.expired:
                    raise
                raise FetchError(
                    Outcome.TIMEOUT,
                    f"not complete within {policy.page_timeout_s:g} s (page timeout: SCRAPER_PAGE_TIMEOUT_S)",
                    url=page.url,
                ) from None
        finally:
            self._slots.release()

    async def aclose(self) -> None:
        """Closes every connection. The fetcher may be used again and then opens new ones."""
        await self._transports.aclose()


class _Page:
    """One page on its way through its redirects."""

    __slots__ = (
        "_before_hop",
        "_body",
        "_extensions",
        "_jar",
        "_policy",
        "_transport",
        "_waited_s",
        "deadline",
        "url",
    )

    deadline: Deadline

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        policy: FetchPolicy,
        before_hop: BeforeHop | None,
        via: ProxyRoute | None,
        jar: CookieJar | None,
        body: Body | None = None,
    ) -> None:
        self._body = body
        self._transport = transport
        self._extensions: dict[str, Any] = policy.extensions
        self._jar = jar
        if via is not None:
            self._extensions = {**policy.extensions, "proxy": via.proxy}
        self._policy = policy
        self._before_hop = before_hop
        self._waited_s = 0.0
        self.url = ""

    async def fetch(self, url: str, headers: Pairs, asked: Pairs) -> Fetched:
        """`asked` goes with the first request alone: validators are those of the URL that they came
        from."""
        started = monotonic()
        self.url = url
        hop = self._parsed(url)
        jar = self._jar
        first: Pairs | httpx.Headers
        if jar is None and not asked:
            first = _known_headers(tuple(headers))
        else:
            first = (
                [*headers, *asked] if jar is None else with_cookies([*headers, *asked], jar, hop)
            )
        answer = await self._request(hop, first)
        chain: Chain | None = None
        while isinstance(answer, _Redirect):
            chain = chain or Chain(hop, headers, self._policy.redirects_max, jar)
            before, hop = hop, await self._followed(chain, hop, answer)
            self._redirected(before, hop, answer.status)
            self.url = str(hop)
            answer = await self._request(hop, chain.headers_for(hop))
        return Fetched(
            url=self.url,
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
            elapsed_s=monotonic() - started - self._waited_s,
            redirects=chain.redirects if chain else 0,
            conditional=bool(asked) and chain is None,
        )

    def _parsed(self, url: str) -> httpx.URL:
        try:
            hop = parsed(url)
        except Exception as error:
            raise FetchError(Outcome.MALFORMED, f"not a URL: {error}", url=url) from error
        if hop.scheme not in ("http", "https") or not hop.host:
            raise FetchError(Outcome.MALFORMED, "not an http or https URL with a host", url=url)
        return hop

    async def _followed(self, chain: Chain, hop: httpx.URL, answer: _Redirect) -> httpx.URL:
        """The redirect's target, once the caller lets us go there."""
        try:
            target = chain.follow(hop, answer.status, answer.location, answer.set_cookies)
            host = host_of(target)
            if (
                host != host_of(hop)
                and self._policy.allowed is not None
                and not self._policy.allowed(host)
            ):
                raise FetchError(
                    Outcome.OFF_SITE,
                    f"redirects to {host}, which is not a host of the site",
                    url=str(target),
                )
        except FetchError as error:
            raise fault(
                error, url=self.url, host=host_of(hop), limits=self._policy, status=answer.status
            ) from None
        if self._before_hop is not None:
            await self._wait(self._before_hop, str(target))
        return target

    def _redirected(self, before: httpx.URL, hop: httpx.URL, status: int) -> None:
        """What a POST becomes: as browsers do, a GET, but for the codes that forbid that (RFC 9110
        15.4.8, 15.4.9)."""
        if self._body is None:
            return
        if status not in (307, 308):
            self._body = None
        elif (before.scheme, before.netloc) != (hop.scheme, hop.netloc):
            raise FetchError(
                Outcome.OFF_SITE,
                f"would send what was posted on to {hop.scheme}://{host_of(hop)}",
                url=str(hop),
            )

    async def _wait(self, before_hop: BeforeHop, url: str) -> None:
        """The page's clock stands still while politeness makes it wait."""
        started = monotonic()
        self.deadline.suspend()
        await before_hop(url)
        waited_s = monotonic() - started
        self._waited_s += waited_s
        self.deadline.put_off(waited_s)

    async def _request(self, hop: httpx.URL, headers: Pairs | httpx.Headers) -> _Answer | _Redirect:
        try:
            return await self._send(hop, headers)
        except StaleConnectionError:
            # nobody has answered: once more, as one more request of the host's budget
            if self._before_hop is not None:
                await self._wait(self._before_hop, self.url)
        try:
            return await self._send(hop, headers)
        except StaleConnectionError as error:
            raise fault(error, url=self.url, host=host_of(hop), limits=self._policy) from error

    async def _send(self, hop: httpx.URL, headers: Pairs | httpx.Headers) -> _Answer | _Redirect:
        status: int | None = None
        try:
            if self._body is None:
                request = httpx.Request(
                    "GET", hop, headers=headers, stream=_EMPTY, extensions=self._extensions
                )
            else:
                content, kind = self._body
                sent = [
                    *_pairs(headers),
                    ("Content-Type", kind),
                    ("Content-Length", str(len(content))),
                ]
                extensions = {**self._extensions, "body": content}
                request = httpx.Request(
                    "POST", hop, headers=sent, stream=_EMPTY, extensions=extensions
                )
            response = await self._transport.handle_async_request(request)
            status = response.status_code
            stream = response.stream
            assert isinstance(stream, httpx.AsyncByteStream)
            if self._jar is not None:
                for name, value in response.headers.raw:
                    if name.lower() == b"set-cookie":
                        self._jar.keep(hop.host, hop.path or "/", value)
            try:
                return await self._read(status, response.headers.raw, stream)
            finally:
                await stream.aclose()
        except StaleConnectionError:
            raise
        except Exception as error:
            raise fault(
                error, url=self.url, host=host_of(hop), limits=self._policy, status=status
            ) from error

    async def _read(
        self, status: int, raw: list[tuple[bytes, bytes]], stream: httpx.AsyncByteStream
    ) -> _Answer | _Redirect:
        headers = headers_dict(raw)
        if status in STATUSES and "location" in headers:
            await _drain(stream)
            return _Redirect(status, raw)
        if status < 200:
            raise FetchError(Outcome.MALFORMED, f"answered {status}, which is not a final status")
        if status in _NO_BODY:
            return _Answer(status, headers, b"")
        policy = self._policy
        body = await read_body(
            stream,
            coding=headers.get("content-encoding", ""),
            length=headers.get("content-length", ""),
            wire_max_bytes=policy.wire_max_bytes,
            body_max_bytes=policy.body_max_bytes,
            truncate=policy.truncate,
        )
        return _Answer(status, headers, body)


@lru_cache(maxsize=256)
def _known_headers(pairs: tuple[tuple[str, str], ...]) -> httpx.Headers:
    """What a site's pages send, encoded once."""
    return httpx.Headers(list(pairs))


def _pairs(headers: Pairs | httpx.Headers) -> Pairs:
    return headers.multi_items() if isinstance(headers, httpx.Headers) else headers


@dataclass(slots=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class _Redirect:
    __slots__ = ("location", "set_cookies", "status")

    def __init__(self, status: int, raw: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.location = next(value for name, value in raw if name.lower() == b"location")
        self.set_cookies = [value for name, value in raw if name.lower() == b"set-cookie"]


async def _drain(stream: httpx.AsyncByteStream) -> None:
    """Reads a redirect's small body, so that its connection can be used again. That it fails or
    hangs matters not."""
    size = 0
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for chunk in stream:
                size += len(chunk)
                if size > _DRAIN_MAX_BYTES:
                    return
    except (TimeoutError, httpx.HTTPError):
        return
