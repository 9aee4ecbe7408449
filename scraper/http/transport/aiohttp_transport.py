"""httpx's transport interface over aiohttp's connector: connections, TLS, the guard, and nothing
above one request.

What aiohttp does below its session is used as it is: the pool, its C parser, its flow control. The
session itself, with its requests, cookies, tracing and timers, costs as much again as all of that,
and repeats requests by itself. Here nothing is sent a second time: a kept-alive connection that
turns out to be closed is a `StaleConnectionError`, and whoever asked sends the request again once
its host's budget has room for it. Redirects, decompression, cookies and size limits are the
callers' business.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import aiohttp
import certifi
import httpx
import yarl
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import EofStream, StreamReader

from scraper.http.transport.guard import GuardedResolver, Networks, socket_factory

KEEPALIVE_S = 30.0
# The limit of a line or a field: aiohttp's 8190 is below what Content-Security-Policy takes in
# shops.
HEADER_MAX_BYTES = 32_768
HEADERS_MAX = 256
# All that an answer sends beside its body: interim answers, headers, chunk extensions and trailers.
# Chrome takes as much of headers.
HEADERS_MAX_BYTES = 262_144
# The framing of a chunk that holds a single byte.
_FRAMING_BYTES = 5
ORIGINS_MAX = 5000
# Twice this is held of a body that arrives faster than it is unpacked.
READ_BUFFER_BYTES = 65_536


def tls_context() -> ssl.SSLContext:
    """Verifies against SSL_CERT_FILE or SSL_CERT_DIR, else the system's store, else (slim images)
    certifi's."""
    context = ssl.create_default_context()
    chosen = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not chosen and context.cert_store_stats()["x509_ca"] == 0:
        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """What pools of connections have in common. `resolver` replaces the system's; its answers pass
    the guard all the same."""

    max_connections: int = 512
    resolver: AbstractResolver | None = None
    dns_ttl_s: int = 30

    def names(self) -> AbstractResolver:
        """What looks names up. To be called on a loop."""
        return self.resolver or aiohttp.ThreadedResolver()


class AiohttpTransport(httpx.AsyncBaseTransport):
    """One pool of connections. Made inside a running loop, and used in that one only.

    Raises httpx's errors, each with aiohttp's as its cause: ConnectTimeout, ReadTimeout,
    ConnectError (the guard's `ForbiddenAddressError` or an `ssl.SSLError` further down the causes),
    ReadError, RemoteProtocolError, InvalidURL.
    """

    # What opens its connections.
    connector: type[aiohttp.TCPConnector]

    def __init__(self, pool: PoolOptions, private: Networks, tls: ssl.SSLContext) -> None:
        self._connector = self.connector(
            resolver=GuardedResolver(pool.names(), private),
            socket_factory=socket_factory(private),
            ttl_dns_cache=pool.dns_ttl_s,
            limit=pool.max_connections,
            keepalive_timeout=KEEPALIVE_S,
            ssl=tls,
        )
        self._origins: dict[tuple[str, str, int | None, str], aiohttp.ClientRequest] = {}

    def _origin(self, url: httpx.URL, label: str = "") -> aiohttp.ClientRequest:
        """Where a request goes, as the connector wants to be told it. `label` (`http://ID`) keeps
        connections apart."""
        key = url.scheme, url.host, url.port, label
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) >= ORIGINS_MAX:
                self._origins.clear()
            try:
                place = yarl.URL(f"{url.scheme}://{url.netloc.decode('ascii')}/", encoded=True)
                proxy = yarl.URL(label) if label else None
                origin = aiohttp.ClientRequest(
                    "GET", place, proxy=proxy, loop=asyncio.get_running_loop()
                )
            except (ValueError, aiohttp.InvalidURL) as error:
                raise httpx.InvalidURL(str(error)) from error
            self._origins[key] = origin
        return origin

    async def handle_async_request(
        self, request: httpx.Request, label: str = "", target: bytes = b"", extra: Fields = ()
    ) -> httpx.Response:
        """Sends the request's head, and `request.extensions["body"]` (bytes) where there is one;
        `["timeout"]` may hold `connect` and `read`, in seconds. `label` is `_origin`'s, `target`
        stands in place of the URL's path and query, `extra` fields go beside the request's own."""
        origin = self._origin(request.url, label)
        timeout = request.extensions.get("timeout", {})
        fields = [*request.headers.raw, *extra]
        head = request_head(
            target or request.url.raw_path, origin.headers["Host"], fields, request.method
        )
        head += request.extensions.get("body", b"")
        try:
            connection = await self._connector.connect(origin, [], _timeout(timeout.get("connect")))
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error) or "no connection in time") from error
        except Exception as error:
            raise _as_httpx(error) from error
        try:
            protocol = connection.protocol
            assert isinstance(protocol, _Protocol)
            message, payload = await _asked(protocol, head, timeout.get("read"))
            stream = _Stream(connection, payload)
        except BaseException:
            _drop(connection)
            raise
        return httpx.Response(
            message.code, headers=message.raw_headers, stream=stream, request=request
        )

    async def aclose(self) -> None:
        await self._connector.close()


Fields = Sequence[tuple[bytes, bytes]]


def request_head(target: bytes, host: str, fields: Fields, method: str = "GET") -> bytes:
    """The request as it is sent. Raises httpx.LocalProtocolError where a field would break out of
    its line."""
    return (
        _lines((b"%b %b HTTP/1.1" % (method.encode("ascii"), target),))
        + _field_lines(host, tuple(fields))
        + b"\r\n"
    )


# Cached, since most pages of a site send the same.
@lru_cache(maxsize=256)
def _field_lines(host: str, fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    named = any(name.lower() == b"host" for name, _ in fields)
    ours = () if named else (b"Host: " + host.encode("ascii"),)
    return _lines((*ours, *(b"%b: %b" % field for field in fields)))


def _lines(lines: Sequence[bytes]) -> bytes:
    text = b"\r\n".join((*lines, b""))
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines) or b"\0" in text:
        raise httpx.LocalProtocolError("a line break or NUL in a request header")
    return text


async def _asked(
    protocol: _Protocol, head: bytes, read_timeout_s: float | None
) -> tuple[RawResponseMessage, StreamReader]:
    """Sends a request and waits for the head of its final answer."""
    used = protocol.begin()
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
        # Its text may be a whole half-read header.
        raise httpx.ReadError("it was closed before the answer") from None
    except Exception as error:
        raise _as_httpx(error) from error
    return message, payload


class StaleConnectionError(httpx.ReadError):
    """A kept-alive connection was closed by the other side before it answered: the request may be
    sent again (RFC 9112 9.3.1)."""


class _Stream(httpx.AsyncByteStream):
    """The raw body, as it arrives. `aclose` keeps the connection if the body was received whole,
    else drops it."""

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
            raise _as_httpx(error) from error
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        # Nothing happens where it was released.
        _drop(self._connection)


def _drop(connection: Connection) -> None:
    """At once: with TLS a farewell would keep it open for as long as the other side cares to be
    silent."""
    if connection.protocol is not None:
        connection.protocol.abort()
    connection.close()


class _Protocol(ResponseHandler):
    """Knows whether it was asked anything before; keeps one timer for the silences of all its
    answers; wakes the reader of a body whose framing turns out broken in a later packet; and ends
    an answer that sends too much beside its body.

    aiohttp 3.14's C parser forgets the body then, and the reader would wait for the page's
    deadline; it makes a timer anew with each packet; and it counts neither interim answers nor
    chunk extensions, so that gigabytes of them would fit within a page's deadline.
    """

    _used = False
    # The bytes since the request, whatever they are.
    _received = 0
    _silent_since: float | None = None

    def _reschedule_timeout(self) -> None:
        if not self._read_timeout:
            self._silent_since = None
            return
        self._silent_since = now = self._loop.time()
        handle, due = self._read_timeout_handle, now + self._read_timeout
        # It is of an earlier request, which had more patience.
        if handle is not None and handle.when() > due:
            handle.cancel()
            handle = None
        if handle is None:
            self._read_timeout_handle = self._loop.call_at(due, self._on_read_timeout)

    def _drop_timeout(self) -> None:
        self._silent_since = None
        if self.transport is None and self._read_timeout_handle is not None:
            self._read_timeout_handle.cancel()
            self._read_timeout_handle = None

    def _on_read_timeout(self) -> None:
        self._read_timeout_handle = None
        if self._silent_since is None or not self._read_timeout:
            return
        left_s = self._silent_since + self._read_timeout - self._loop.time()
        if left_s > 0:
            self._read_timeout_handle = self._loop.call_later(left_s, self._on_read_timeout)
        else:
            super()._on_read_timeout()

    def begin(self) -> bool:
        """Forgets the last answer. Returns whether there was a request before this one."""
        used, self._used = self._used, True
        self._received, self._payload = 0, None
        return used

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._received += len(data)
        # While reading is paused, the parser holds back bytes that may be the body's.
        if self._reading_paused or self._received <= HEADERS_MAX_BYTES or self.transport is None:
            return
        body = 0 if self._payload is None else self._payload.total_bytes
        if self._received > HEADERS_MAX_BYTES + (1 + _FRAMING_BYTES) * body:
            self.transport.abort()
            limit = f"more than {HEADERS_MAX_BYTES} bytes came beside the body"
            self.set_exception(HttpProcessingError(message=limit))

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        body = self._payload
        if (
            isinstance(exc, HttpProcessingError)
            and body is not None
            and not body.is_eof()
            and body.exception() is None
        ):
            body.set_exception(aiohttp.ClientPayloadError(exc.message))


class Connector(aiohttp.TCPConnector):
    """Gives connections our protocol.

    Hooks of aiohttp that are not public, here and in `_Protocol`. Should they move, an assertion
    fails, a read timeout comes too early, or a body with broken framing ends at the page's
    deadline; the tests say so.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_Protocol, loop=self._loop)  # type: ignore[assignment]


AiohttpTransport.connector = Connector


@lru_cache(maxsize=256)
def _timeout(connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_s)


def _as_httpx(error: Exception) -> Exception:
    """The nearest error of httpx, most telling first: aiohttp's own classes overlap."""
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
