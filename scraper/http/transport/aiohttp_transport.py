"""httpx's transport interface over aiohttp's connector: connections, TLS, the guard, and nothing
above one request.

Uses aiohttp's pool, C parser and flow control, but not its session: the session's requests,
cookies, tracing and timers double the cost, and it repeats requests by itself. This transport sends
nothing twice: a kept-alive connection that turns out to be closed raises `StaleConnectionError`,
and the caller sends the request again once its host's budget has room. Redirects, decompression,
cookies and size limits are the caller's business.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import aiohttp
import certifi
import httpx
import yarl
from aiohttp.abc import AbstractResolver
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import EofStream, StreamReader

from scraper.http.request import target_of
from scraper.http.transport.aiohttp_protocol import Connector, ResponseProtocol
from scraper.http.transport.guard import GuardedResolver, Networks, socket_factory

KEEPALIVE_S = 30.0
# Limits a line or a field. aiohttp's 8190 is too small for the Content-Security-Policy of some
# shops.
HEADER_MAX_BYTES = 32_768
HEADERS_MAX = 256
ORIGINS_MAX = 5000
# A body that arrives faster than it is unpacked fills two of these.
READ_BUFFER_BYTES = 65_536


def tls_context() -> ssl.SSLContext:
    """Returns a context that verifies against SSL_CERT_FILE or SSL_CERT_DIR, else the system's
    store, else (slim images) certifi's."""
    context = ssl.create_default_context()
    chosen = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not chosen and context.cert_store_stats()["x509_ca"] == 0:
        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Options of every pool of connections. `resolver` replaces the system's; the guard judges its
    addresses as well."""

    max_connections: int = 512
    resolver: AbstractResolver | None = None
    dns_ttl_s: int = 30

    def make_resolver(self) -> AbstractResolver:
        """Returns what looks names up. Needs a running loop."""
        return self.resolver or aiohttp.ThreadedResolver()


class AiohttpTransport(httpx.AsyncBaseTransport):
    """One pool of connections. Made inside a running loop, and used in that loop only.

    Raises httpx's errors, each with aiohttp's as its cause: ConnectTimeout, ReadTimeout,
    ConnectError (the guard's `ForbiddenAddressError` or an `ssl.SSLError` further down the causes),
    ReadError, RemoteProtocolError, InvalidURL.
    """

    connector_class: type[Connector] = Connector

    def __init__(self, pool: PoolOptions, private: Networks, tls: ssl.SSLContext) -> None:
        self._connector = self.connector_class(
            resolver=GuardedResolver(pool.make_resolver(), private),
            socket_factory=socket_factory(private),
            ttl_dns_cache=pool.dns_ttl_s,
            limit=pool.max_connections,
            keepalive_timeout=KEEPALIVE_S,
            ssl=tls,
        )
        self._origins: dict[tuple[str, bytes, str], aiohttp.ClientRequest] = {}

    def _origin_request(self, url: httpx.URL, label: str = "") -> aiohttp.ClientRequest:
        """Returns the form in which the connector takes a request's destination. `label`
        (`http://ID`) keeps connections apart."""
        key = url.scheme, url.netloc, label
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) >= ORIGINS_MAX:
                self._origins.clear()
            try:
                root = yarl.URL(f"{url.scheme}://{url.netloc.decode('ascii')}/", encoded=True)
                proxy = yarl.URL(label) if label else None
                origin = aiohttp.ClientRequest(
                    "GET", root, proxy=proxy, loop=asyncio.get_running_loop()
                )
            except (ValueError, aiohttp.InvalidURL) as error:
                raise httpx.InvalidURL(str(error)) from error
            self._origins[key] = origin
        return origin

    async def handle_async_request(
        self, request: httpx.Request, label: str = "", target: bytes = b"", extra: Fields = ()
    ) -> httpx.Response:
        """Sends the request's head, and `request.extensions["body"]` (bytes) if there is one;
        `["timeout"]` may hold `connect` and `read`, in seconds, and `["target"]` the path and
        query. `label` is `_origin_request`'s, `target` replaces the request's own, `extra` adds
        fields to the request's."""
        origin = self._origin_request(request.url, label)
        timeout = request.extensions.get("timeout", {})
        fields = [*request.headers.raw, *extra]
        head = request_head(
            target or target_of(request), origin.headers["Host"], fields, request.method
        )
        head += request.extensions.get("body", b"")
        try:
            connection = await self._connector.connect(
                origin, [], _client_timeout(timeout.get("connect"))
            )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error) or "no connection in time") from error
        except Exception as error:
            raise _to_httpx_error(error) from error
        try:
            protocol = connection.protocol
            assert isinstance(protocol, ResponseProtocol)
            message, payload = await _send_request(protocol, head, timeout.get("read"))
            stream = _AiohttpBody(connection, payload)
        except BaseException:
            _abort_connection(connection)
            raise
        return httpx.Response(
            message.code, headers=message.raw_headers, stream=stream, request=request
        )

    async def aclose(self) -> None:
        await self._connector.close()


Fields = Sequence[tuple[bytes, bytes]]


def request_head(target: bytes, host: str, fields: Fields, method: str = "GET") -> bytes:
    """Returns the bytes of a request's head. Raises httpx.LocalProtocolError if a field would break
    out of its line."""
    return (
        _join_lines((b"%b %b HTTP/1.1" % (method.encode("ascii"), target),))
        + _encode_fields(host, tuple(fields))
        + b"\r\n"
    )


# Most pages of a site send the same fields.
@lru_cache(maxsize=256)
def _encode_fields(host: str, fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    named = any(name.lower() == b"host" for name, _ in fields)
    ours = () if named else (b"Host: " + host.encode("ascii"),)
    return _join_lines((*ours, *(b"%b: %b" % field for field in fields)))


def _join_lines(lines: Sequence[bytes]) -> bytes:
    text = b"\r\n".join((*lines, b""))
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines) or b"\0" in text:
        raise httpx.LocalProtocolError("a line break or NUL in a request header")
    return text


async def _send_request(
    protocol: ResponseProtocol, head: bytes, read_timeout_s: float | None
) -> tuple[RawResponseMessage, StreamReader]:
    """Sends a request and waits for the head of its final response."""
    used = protocol.begin_request()
    protocol.set_response_params(
        read_until_eof=True,
        auto_decompress=False,
        read_timeout=read_timeout_s,
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=HEADER_MAX_BYTES,
        max_field_size=HEADER_MAX_BYTES,
        max_headers=HEADERS_MAX,
    )
    try:
        if protocol.transport is None or protocol.transport.is_closing():
            raise aiohttp.ServerDisconnectedError
        protocol.transport.write(head)
        protocol.start_timeout()
        message, payload = await protocol.read()
        while 100 <= message.code < 200 and message.code != 101:
            message, payload = await protocol.read()
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, EofStream) as error:
        if used:
            raise StaleConnectionError(str(error)) from error
        if isinstance(error, aiohttp.ClientOSError):
            raise httpx.ReadError(str(error)) from error
        # The error's text may be a whole half-read header.
        raise httpx.ReadError("it was closed before the answer") from None
    except Exception as error:
        raise _to_httpx_error(error) from error
    return message, payload


class StaleConnectionError(httpx.ReadError):
    """The other side closed a kept-alive connection before it responded: the request may be sent
    again (RFC 9112 9.3.1)."""


class _AiohttpBody(httpx.AsyncByteStream):
    """The raw body as it arrives. `aclose` keeps the connection if the body was received whole, and
    aborts it otherwise."""

    def __init__(self, connection: Connection, payload: StreamReader) -> None:
        self._connection = connection
        self._payload = payload
        payload.on_eof(self._connection.release)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._payload.readany()
        except Exception as error:
            raise _to_httpx_error(error) from error
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        # This does nothing if the connection was released.
        _abort_connection(self._connection)


def _abort_connection(connection: Connection) -> None:
    """Closes at once: a TLS closing handshake would keep the connection open for as long as the
    other side is silent."""
    if connection.protocol is not None:
        connection.protocol.abort()
    connection.close()


@lru_cache(maxsize=256)
def _client_timeout(connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_s)


def _to_httpx_error(error: Exception) -> Exception:
    """Returns the nearest error of httpx, most specific first: aiohttp's classes overlap."""
    text = str(error) or type(error).__name__
    match error:
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
        case aiohttp.ClientPayloadError() | HttpProcessingError():
            return httpx.RemoteProtocolError(text)
        case aiohttp.ClientConnectionError() | OSError():
            return httpx.ReadError(text)
        case _:
            return error


def port_of(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
