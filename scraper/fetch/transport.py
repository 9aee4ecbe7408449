"""httpx's transport interface over one aiohttp session: connections, TLS, the guard, and nothing above one request.

Not the one of httpx-aiohttp: that one lower-cases header names, quotes URLs a second time, tells neither the guard's
refusals nor TLS failures nor bad framing apart, costs 20 us more a GET, and leaves aiohttp's repetition of requests as it
is. Here nothing is sent a second time: a kept-alive connection that turns out to be closed is a `StaleConnectionError`,
and whoever asked sends the request again once its host's budget has room for it. Redirects, decompression, cookies and
size limits are the callers' business.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from functools import lru_cache, partial
from typing import Any

import aiohttp
import certifi
import httpx
import yarl
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.tracing import Trace

from scraper.fetch.guard import GuardedResolver, socket_factory

KEEPALIVE_S = 30.0
HEADER_MAX_BYTES = 32_768  # a line or a field; aiohttp's 8190 is below what Content-Security-Policy takes in shops
HEADERS_MAX = 256
READ_BUFFER_BYTES = 65_536  # twice this is held of a body that arrives faster than it is unpacked


def tls_context() -> ssl.SSLContext:
    """Verifies against SSL_CERT_FILE or SSL_CERT_DIR, else the system's store, else (slim images) certifi's."""
    context = ssl.create_default_context()
    chosen = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not chosen and context.cert_store_stats()["x509_ca"] == 0:
        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


class AiohttpTransport(httpx.AsyncBaseTransport):
    """One pool of connections. Made inside a running loop, and used in that one only.

    Raises httpx's errors, each with aiohttp's as its cause: ConnectTimeout, ReadTimeout, ConnectError (the guard's
    `ForbiddenAddressError` or an `ssl.SSLError` further down the causes), ReadError, RemoteProtocolError, InvalidURL.
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        tls: ssl.SSLContext,
        max_connections: int,
        resolver: AbstractResolver | None = None,
        dns_ttl_s: int = 30,
    ) -> None:
        options: dict[str, Any] = {
            "resolver": GuardedResolver(resolver or aiohttp.ThreadedResolver(), allow_private=allow_private),
            "socket_factory": socket_factory(allow_private=allow_private),
            "ttl_dns_cache": dns_ttl_s,
            "limit": max_connections,
            "keepalive_timeout": KEEPALIVE_S,
            "ssl": tls,
        }
        self._session = aiohttp.ClientSession(
            connector=self._connector(options),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            request_class=self._request_class(),
            middlewares=(_never_resend,),
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=HEADER_MAX_BYTES,
            max_field_size=HEADER_MAX_BYTES,
            max_headers=HEADERS_MAX,
        )

    def _connector(self, options: dict[str, Any]) -> aiohttp.TCPConnector:
        return Connector(**options)

    def _request_class(self) -> type[aiohttp.ClientRequest]:
        return Request

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a GET without a body; `request.extensions["timeout"]` may hold `connect` and `read`, in seconds."""
        return await self._sent(request, None)

    async def _sent(self, request: httpx.Request, proxy: yarl.URL | None) -> httpx.Response:
        timeout = request.extensions.get("timeout", {})
        try:
            response = await self._session.request(
                request.method,
                yarl.URL(str(request.url), encoded=True),  # httpx has quoted it: quoting again would change it
                headers=[(name.decode("ascii"), value.decode("latin-1")) for name, value in request.headers.raw],
                allow_redirects=False,
                proxy=proxy,
                timeout=_timeout(timeout.get("connect"), timeout.get("read")),
            )
        except Exception as error:
            raise _as_httpx(error) from error
        return httpx.Response(response.status, headers=response.raw_headers, stream=_Stream(response), request=request)

    async def aclose(self) -> None:
        await self._session.close()


class StaleConnectionError(httpx.ReadError):
    """A kept-alive connection was closed by the other side before it answered: the request may be sent again (RFC 9112
    9.3.1)."""


class _Stream(httpx.AsyncByteStream):
    """The raw body, as it arrives. `aclose` keeps the connection if the body was received whole, else drops it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._response.content.readany()
        except Exception as error:
            raise _as_httpx(error) from error
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        if not self._response.closed:
            self._response.close()


class Request(aiohttp.ClientRequest):
    fresh_connection = False


class _Protocol(ResponseHandler):
    """Wakes the reader of a body whose framing turns out broken in a later packet.

    aiohttp 3.14's C parser forgets the body then, and the reader would wait for the page's deadline.
    """

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError(exc.message))


class Connector(aiohttp.TCPConnector):
    """Notes on a request that a connection was opened for it, and gives connections our protocol.

    Two hooks of aiohttp that are not public. Should they move, what fails on a fresh connection passes for stale, and a body
    with broken framing ends at the page's deadline; the tests say so.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_Protocol, loop=self._loop)  # type: ignore[assignment]

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if isinstance(req, Request):
            req.fresh_connection = True
        return await super()._create_connection(req, traces, timeout)


async def _never_resend(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """aiohttp repeats a GET once after these errors, by itself and whether or not the connection was a reused one."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if not isinstance(request, Request) or not request.fresh_connection:
            raise _StaleError(str(error)) from error
        if isinstance(error, aiohttp.ServerDisconnectedError):  # its text may be a whole half-read header
            raise aiohttp.ClientConnectionError("it was closed before the answer") from None
        raise aiohttp.ClientConnectionError(str(error)) from error


class _StaleError(aiohttp.ClientConnectionError):
    pass


@lru_cache(maxsize=256)
def _timeout(connect_s: float | None, read_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_s, sock_read=read_s)


def _as_httpx(error: Exception) -> Exception:
    """The nearest error of httpx, most telling first: aiohttp's own classes overlap."""
    text = str(error) or type(error).__name__
    match error:
        case _StaleError():
            return StaleConnectionError(text)
        case aiohttp.ConnectionTimeoutError():
            return httpx.ConnectTimeout(text)
        case aiohttp.ServerTimeoutError():
            return httpx.ReadTimeout(text)
        case aiohttp.ClientConnectorError() | aiohttp.ClientSSLError():
            return httpx.ConnectError(text)
        case aiohttp.InvalidURL():
            return httpx.InvalidURL(text)
        case aiohttp.ClientPayloadError() if text.startswith("Response payload is not completed"):
            return httpx.ReadError(text)
        case aiohttp.ClientPayloadError() | aiohttp.ClientResponseError():
            return httpx.RemoteProtocolError(text)
        case aiohttp.ClientConnectionError() | OSError():
            return httpx.ReadError(text)
        case _:
            return error
