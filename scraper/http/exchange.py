"""One exchange: a request through a transport, and its bounded answer. No redirect is followed.

Owns what the fetcher of pages (`scraper.http.fetcher`) and the sender of users' requests
(`scraper.plugins.functions.request_sender`) share: connections, their number, the deadline, size
limits, and headers by the policy. Every failure is a `FetchError`, but for a kept-alive connection
that was closed: whoever sends the request again pays for it from the host's budget first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx

from scraper.domain import Outcome, Validators
from scraper.errors import FetchError
from scraper.http.body import Growing, hash_of, read_body, unpack
from scraper.http.cookies import CookieJar
from scraper.http.deadlines import Deadlines
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.http.redirects import STATUSES, host_of
from scraper.http.request import headers_dict
from scraper.http.transport.aiohttp_transport import PoolOptions, StaleConnectionError, port_of
from scraper.http.transport.faults import fault
from scraper.http.transports import Transports

# With a stream given, httpx does not build the headers twice; the transport adds Host.
EMPTY = httpx.ByteStream(b"")
# A redirect's body is read so far to keep the connection. Beyond it, a new one is cheaper.
_DRAIN_MAX_BYTES = 65_536
_DRAIN_S = 0.5
_OK = 200
_NO_BODY = frozenset({204, 304})


@dataclass(slots=True)
class Answer:
    """`headers` as `headers_dict` gives them, `raw` as they came. `redirects`: its `location` is to
    be followed, and there is no body. `body_hash` and `same` are `Fetched`'s."""

    status: int
    headers: dict[str, str]
    raw: list[tuple[bytes, bytes]]
    body: bytes
    redirects: bool = False
    body_hash: int | None = None
    same: bool = False


async def exchange(
    transport: httpx.AsyncBaseTransport,
    request: httpx.Request,
    policy: FetchPolicy,
    jar: CookieJar | None,
    url: str,
    *,
    follows: bool,
    validators: Validators | None = None,
    growing: Growing | None = None,
) -> Answer:
    """Sends one request and reads its answer, whatever the status. `follows`: a redirect's body is
    not wanted. `url` is what errors name. With `validators` the body is hashed before it is
    unpacked, which a body that has their hash is not. `growing` as in `read_body`.

    Raises FetchError, and StaleConnectionError where the request may be sent again.
    """
    status: int | None = None
    hop = request.url
    try:
        response = await transport.handle_async_request(request)
        status = response.status_code
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        try:
            if jar is not None:
                for name, value in response.headers.raw:
                    if name.lower() == b"set-cookie":
                        jar.keep(hop.host, hop.path or "/", value)
            answer = Answer(status, headers_dict(response.headers.raw), response.headers.raw, b"")
            if follows and status in STATUSES and "location" in answer.headers:
                await _drain(stream)
                answer.redirects = True
                return answer
            if status < 200:
                raise FetchError(
                    Outcome.MALFORMED, f"answered {status}, which is not a final status"
                )
            if status in _NO_BODY:
                return answer
            compared = validators if status == _OK else None
            limit, coding = policy.wire_max_bytes, answer.headers.get("content-encoding", "")
            answer.body = await read_body(
                stream,
                coding=coding if compared is None else "",
                length=answer.headers.get("content-length", ""),
                wire_max_bytes=limit,
                body_max_bytes=policy.body_max_bytes if compared is None else limit,
                truncate=policy.truncate and compared is None,
                growing=growing,
            )
            if compared is not None:
                _compare(answer, compared, coding, policy)
            return answer
        finally:
            await stream.aclose()
    except StaleConnectionError:
        raise
    except Exception as error:
        raise fault(error, url=url, host=host_of(hop), limits=policy, status=status) from error


def _compare(answer: Answer, validators: Validators, coding: str, policy: FetchPolicy) -> None:
    """Unpacks a body that has another hash than last time's."""
    packed = answer.body
    answer.body_hash = hash_of(packed, answer.headers)
    answer.same = answer.body_hash == validators.body_hash
    answer.body = b"" if answer.same else unpack(packed, coding, policy.body_max_bytes)


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


class Exchanger:
    """Connections for exchanges: those that reach public addresses alone, those that reach others,
    too, and apart from both those through proxies. No connection is shared with another exchanger.

    Belongs to one event loop. At most `pool.max_connections` exchanges are in flight; a wait for
    that counts against no timeout.
    """

    def __init__(self, pool: PoolOptions | None = None) -> None:
        pool = pool or PoolOptions()
        self._slots = asyncio.Semaphore(pool.max_connections)
        self._transports = Transports(pool)
        self._deadlines = Deadlines()

    async def aclose(self) -> None:
        """Closes every connection. The exchanger may be used again and then opens new ones."""
        await self._transports.aclose()

    def _way_out(
        self, policy: FetchPolicy, route: ProxyRoute | None, seed: str, url: httpx.URL
    ) -> httpx.AsyncBaseTransport:
        """The transport for a request to this URL, which may be a redirect's."""
        if route is None and policy.proxied:
            raise RuntimeError("a request that is to go through a proxy would leave without one")
        private = policy.private.networks
        if policy.private.hosts:
            private = policy.private.networks_of(url.raw_host.decode("ascii"), port_of(url))
        return self._transports.of(policy, private, seed, proxied=route is not None)


def late(policy: FetchPolicy, url: str) -> FetchError:
    """The error of an exchange that has taken the whole page timeout."""
    why = (
        "others of its host take a fifth of it at the most"
        if policy.hurried
        else "page timeout: SCRAPER_PAGE_TIMEOUT_S"
    )
    return FetchError(
        Outcome.TIMEOUT, f"not complete within {policy.page_timeout_s:.3g} s ({why})", url=url
    )
