"""One request and its bounded answer, as a user's own httpx client asks for it: no redirect is
followed here.

Owns what `scraper.http.fetcher` owns of a page (deadline, size limits, headers, the guard and
proxies through the transports), for clients that follow redirects and keep cookies themselves.
Every failure is a `FetchError`. Refuses to wait for a host's turn, to read robots.txt, and whatever
the transports cannot send: they know GET, and POST with a whole body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from aiohttp.abc import AbstractResolver

from scraper.connect.faults import fault
from scraper.connect.transport import StaleConnectionError
from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.body import read_body
from scraper.http.cookies import CookieJar
from scraper.http.fetcher import FetchPolicy
from scraper.http.headers import Pairs, merged
from scraper.http.proxy_route import ProxyRoute, this_machine
from scraper.http.redirects import host_of, with_cookies
from scraper.http.transports import Transports
from scraper.impersonate.profiles import MissingExtraError

_EMPTY = httpx.ByteStream(b"")
METHODS = ("GET", "POST")
POSTED_MAX_BYTES = 10_000_000
_UNPACKED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
_NO_BODY = frozenset({204, 304})
# httpx's own name, which nobody has chosen
HTTPX_AGENT = "python-httpx/"


class Hops:
    """Belongs to one event loop. Connections are its own: none is shared with a crawl's pages."""

    def __init__(
        self, *, max_connections: int = 512, resolver: AbstractResolver | None = None
    ) -> None:
        self._slots = asyncio.Semaphore(max_connections)
        self._transports = Transports(
            max_connections=max_connections, resolver=resolver, dns_ttl_s=30
        )

    async def send(
        self,
        request: httpx.Request,
        policy: FetchPolicy,
        via: ProxyRoute | None,
        again: Callable[[], Awaitable[None]],
    ) -> httpx.Response:
        """Its answer, whatever the status, unpacked. Raises FetchError alone, and what `again`
        raises: that is awaited before a GET is sent a second time, since a kept-alive connection
        was closed. A POST is not: who knows what it has done (RFC 9110 9.2.2)."""
        check(request)
        url = request.url
        if via is None and policy.proxied:
            raise RuntimeError("a request that is to go through a proxy would leave without one")
        seed = via.proxy.id if via else this_machine()
        jar = via.jar if via else None
        try:
            transport = self._transports.of(policy, seed, proxied=via is not None)
            pairs = _headers(request, policy.headers_from(seed, secure=url.scheme == "https"))
        except MissingExtraError as error:
            raise FetchError(
                Outcome.CRASHED, f"this worker cannot fetch it: {error}", url=str(url)
            ) from None
        if jar is not None:
            pairs = with_cookies(pairs, jar, url)
        extensions: dict[str, Any] = {"timeout": _timeouts(request, policy)}
        if via is not None:
            extensions["proxy"] = via.proxy
        posts = request.method == "POST"
        if posts:
            extensions["body"] = content = await _content(request)
            pairs = [*pairs, ("Content-Length", str(len(content)))]
        sent = httpx.Request(
            request.method, url, headers=pairs, stream=_EMPTY, extensions=extensions
        )
        async with self._slots:
            try:
                return await self._in_time(transport, request, sent, policy, jar)
            except StaleConnectionError as error:
                if posts:
                    raise fault(error, url=str(url), host=host_of(url), limits=policy) from error
        await again()
        async with self._slots:
            try:
                return await self._in_time(transport, request, sent, policy, jar)
            except StaleConnectionError as error:
                raise fault(error, url=str(url), host=host_of(url), limits=policy) from error

    async def aclose(self) -> None:
        await self._transports.aclose()

    async def _in_time(
        self,
        transport: httpx.AsyncBaseTransport,
        request: httpx.Request,
        sent: httpx.Request,
        policy: FetchPolicy,
        jar: CookieJar | None,
    ) -> httpx.Response:
        try:
            async with asyncio.timeout(policy.page_timeout_s) as deadline:
                return await _answered(transport, request, sent, policy, jar)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise FetchError(
                Outcome.TIMEOUT,
                f"not complete within {policy.page_timeout_s:g} s (page timeout: SCRAPER_PAGE_TIMEOUT_S)",
                url=str(sent.url),
            ) from None


async def _answered(
    transport: httpx.AsyncBaseTransport,
    request: httpx.Request,
    sent: httpx.Request,
    policy: FetchPolicy,
    jar: CookieJar | None,
) -> httpx.Response:
    status: int | None = None
    try:
        response = await transport.handle_async_request(sent)
        status = response.status_code
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        try:
            if status < 200:
                raise FetchError(
                    Outcome.MALFORMED, f"answered {status}, which is not a final status"
                )
            body = b""
            if status not in _NO_BODY:
                body = await read_body(
                    stream,
                    coding=response.headers.get("content-encoding", ""),
                    length=response.headers.get("content-length", ""),
                    wire_max_bytes=policy.wire_max_bytes,
                    body_max_bytes=policy.body_max_bytes,
                )
        finally:
            await stream.aclose()
    except StaleConnectionError:
        raise
    except Exception as error:
        raise fault(
            error, url=str(sent.url), host=host_of(sent.url), limits=policy, status=status
        ) from error
    if jar is not None:
        for name, value in response.headers.raw:
            if name.lower() == b"set-cookie":
                jar.keep(sent.url.host, sent.url.path or "/", value)
    fields = [pair for pair in response.headers.raw if pair[0].lower() not in _UNPACKED]
    return httpx.Response(status, headers=fields, content=body, request=request)


async def _content(request: httpx.Request) -> bytes:
    content = (
        await request.aread()
        if isinstance(request.stream, httpx.AsyncByteStream)
        else request.read()
    )
    if len(content) > POSTED_MAX_BYTES:
        told = f"a body of {len(content):,} bytes is larger than {POSTED_MAX_BYTES:,}"
        raise FetchError(Outcome.MALFORMED, told, url=str(request.url))
    return content


def check(request: httpx.Request) -> None:
    """Raises FetchError for what cannot be sent from here."""
    if request.url.scheme not in ("http", "https") or not request.url.host:
        raise FetchError(
            Outcome.MALFORMED, "not an http or https URL with a host", url=str(request.url)
        )
    if request.method not in METHODS:
        told = f"only {' and '.join(METHODS)} can be sent from here, not {request.method[:20]}"
        raise FetchError(Outcome.MALFORMED, told, url=str(request.url))


def _headers(request: httpx.Request, own: Pairs | tuple[tuple[str, str], ...]) -> Pairs:
    """What the function says itself goes before what is ours; what can be unpacked is ours to say."""
    said = {
        name: value
        for name, value in request.headers.items()
        if name not in ("host", "accept-encoding", "connection", "content-length")
        and not value.startswith(HTTPX_AGENT)
    }
    return merged(list(own), said)


def _timeouts(request: httpx.Request, policy: FetchPolicy) -> dict[str, float]:
    """Those that the function's client asks for, where they are shorter."""
    asked = request.extensions.get("timeout", {})
    return {
        name: min(own, asked.get(name) or own)
        for name, own in (("connect", policy.connect_timeout_s), ("read", policy.read_timeout_s))
    }
