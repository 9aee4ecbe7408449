"""One exchange: a request through a transport, and its bounded response. Follows no redirect.

Owns what the fetcher of pages (`scraper.http.fetcher`) and the sender of users' requests
(`scraper.plugins.functions.worker.request_sender`) share: connections, their number, size limits,
and the choice of the transport. Every failure is a `FetchError`, except a kept-alive connection
that was closed: the caller that sends the request again first pays for it from the host's
budget."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx

from scraper.domain import Outcome, Validators
from scraper.errors import FetchError
from scraper.http.body import WaitForRoom, hash_body, read_body, unpack
from scraper.http.cookies import CookieJar
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.http.redirects import STATUSES, host_of, store_cookie
from scraper.http.request import RequestUrl, headers_dict
from scraper.http.transport.aiohttp_transport import PoolOptions, StaleConnectionError, port_of
from scraper.http.transport.faults import fetch_error
from scraper.http.transports import Transports

# With a stream given, httpx does not build the headers twice. The transport adds Host.
EMPTY = httpx.ByteStream(b"")
# A redirect's body is read up to here to keep the connection. Beyond it, a new one is cheaper.
_DRAIN_MAX_BYTES = 65_536
_DRAIN_S = 0.5
_OK = 200
_NO_BODY = frozenset({204, 304})


@dataclass(slots=True)
class BoundedResponse:
    """A response whose body is within the limits.

    `headers` as `headers_dict` returns them, `raw` as received. `redirects`: the caller follows its
    `location`, and `body` is empty. `body_hash` and `same` are `Fetched`'s.
    """

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
    url: RequestUrl,
    *,
    follows: bool,
    validators: Validators | None = None,
    wait_for_room: WaitForRoom | None = None,
) -> BoundedResponse:
    """Sends one request and reads its response, whatever the status.

    `follows` drops a redirect's body. With `validators` the packed body is hashed, and unpacked
    only if its hash is new. `wait_for_room` is `read_body`'s.

    Raises FetchError, and StaleConnectionError if the request may be sent again.
    """
    status: int | None = None
    try:
        response = await transport.handle_async_request(request)
        status = response.status_code
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        try:
            if jar is not None:
                for name, value in response.headers.raw:
                    if name.lower() == b"set-cookie":
                        store_cookie(jar, url, value)
            return await _read_response(
                response, stream, policy, validators, follows=follows, wait_for_room=wait_for_room
            )
        finally:
            await stream.aclose()
    except StaleConnectionError:
        raise
    except Exception as error:
        host = host_of(url.origin)
        raise fetch_error(error, url=url.text, host=host, limits=policy, status=status) from error


async def _read_response(
    response: httpx.Response,
    stream: httpx.AsyncByteStream,
    policy: FetchPolicy,
    validators: Validators | None,
    *,
    follows: bool,
    wait_for_room: WaitForRoom | None,
) -> BoundedResponse:
    status, raw = response.status_code, response.headers.raw
    bounded = BoundedResponse(status, headers_dict(raw), raw, b"")
    if follows and status in STATUSES and "location" in bounded.headers:
        await _drain_body(stream)
        bounded.redirects = True
        return bounded
    if status < 200:
        raise FetchError(Outcome.MALFORMED, f"answered {status}, which is not a final status")
    if status in _NO_BODY:
        return bounded
    compared = validators if status == _OK else None
    coding = bounded.headers.get("content-encoding", "")
    bounded.body = await read_body(
        stream,
        coding=coding if compared is None else "",
        length=bounded.headers.get("content-length", ""),
        wire_max_bytes=policy.wire_max_bytes,
        body_max_bytes=policy.body_max_bytes if compared is None else policy.wire_max_bytes,
        truncate=policy.truncate and compared is None,
        wait_for_room=wait_for_room,
    )
    if compared is not None:
        _unpack_if_changed(bounded, compared, coding, policy)
    return bounded


def _unpack_if_changed(
    bounded: BoundedResponse, validators: Validators, coding: str, policy: FetchPolicy
) -> None:
    """Hashes the packed body, and unpacks it if the hash differs from last time's."""
    packed = bounded.body
    bounded.body_hash = hash_body(packed, bounded.headers)
    bounded.same = bounded.body_hash == validators.body_hash
    bounded.body = b"" if bounded.same else unpack(packed, coding, policy.body_max_bytes)


async def _drain_body(stream: httpx.AsyncByteStream) -> None:
    """Reads a redirect's small body, so that its connection can be used again. Failures and
    timeouts are ignored."""
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
    """Holds the connections for exchanges. Connections to public addresses, to private ones and
    through proxies are apart, and no other exchanger uses them.

    Belongs to one event loop. At most `pool.max_connections` exchanges are in flight; waiting for
    one of these slots counts against no timeout.
    """

    def __init__(self, pool: PoolOptions | None = None) -> None:
        pool = pool or PoolOptions()
        self._slots = asyncio.Semaphore(pool.max_connections)
        self._transports = Transports(pool)

    async def aclose(self) -> None:
        """Closes every connection. The exchanger may be used again and then opens new ones."""
        await self._transports.aclose()

    def _choose_transport(
        self, policy: FetchPolicy, route: ProxyRoute | None, seed: str, url: httpx.URL
    ) -> httpx.AsyncBaseTransport:
        """Returns the transport for a request to this URL, which may be a redirect's."""
        if route is None and policy.proxied:
            raise RuntimeError("a request that is to go through a proxy would leave without one")
        private = policy.private.networks
        if policy.private.hosts:
            private = policy.private.networks_for(url.raw_host.decode("ascii"), port_of(url))
        return self._transports.choose(policy.handshake, private, seed, proxied=route is not None)


def page_timeout_error(policy: FetchPolicy, url: str) -> FetchError:
    """Returns the error of an exchange that has taken the whole page timeout."""
    why = (
        "other pages of its host need at most a fifth of that"
        if policy.hurried
        else "page timeout: SCRAPER_PAGE_TIMEOUT_S"
    )
    return FetchError(
        Outcome.TIMEOUT, f"not complete within {policy.page_timeout_s:.3g} s ({why})", url=url
    )
