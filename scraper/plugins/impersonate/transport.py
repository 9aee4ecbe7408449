"""httpx's transport interface over libcurl, as curl_cffi builds it: HTTP/2, and the TLS of a
browser where one is named.

For https alone: plain http has no handshake to imitate and no HTTP/2, and goes through the
transport that is given for it. What holds for aiohttp's transport holds here. Addresses come from
the guarded resolver and are pinned for the request; the socket hook judges each one again before it
is connected to, and the sending hook the one it is connected to. libcurl follows no redirect, keeps
no cookie, unpacks no body, reads no proxy from the environment and no .netrc. It would repeat a
request by itself when a kept connection turns out to be closed, or HTTP/2 refuses a stream: that is
stopped before it is sent, and the caller may ask again, as one more request of the host's budget
(`StaleConnectionError`).

Three things differ. Bytes beyond a Content-Length are dropped with their connection, as browsers
do, where aiohttp calls the answer malformed; of a stream of HTTP/2 that nobody reads its whole
window may arrive (6 MB with Chrome's settings); and chunk extensions, which libcurl skips and shows
to nobody, end at the read timeout, or with a byte of the body now and then at the page's.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import certifi
import httpx
from curl_cffi import (
    AsyncCurl,
    Curl,
    CurlECode,
    CurlError,
    CurlHttpVersion,
    CurlInfo,
    CurlMOpt,
    CurlOpt,
)

from scraper.http.request import absolute_target_of
from scraper.http.transport import guard
from scraper.http.transport.aiohttp_protocol import HEADERS_MAX_BYTES
from scraper.http.transport.aiohttp_transport import (
    HEADER_MAX_BYTES,
    HEADERS_MAX,
    KEEPALIVE_S,
    READ_BUFFER_BYTES,
    PoolOptions,
    StaleConnectionError,
    port_of,
)
from scraper.http.transport.guard import ForbiddenAddressError, Networks
from scraper.http.transport.resolver import AddressCache
from scraper.plugins.impersonate import hooks

# These are CURL_WRITEFUNC_ERROR, CURL_WRITEFUNC_PAUSE and CURLPAUSE_CONT.
_ABORT, _PAUSE, _RESUME = 0xFFFFFFFF, 0x10000001, 0
_HELD_MAX_BYTES = 2 * READ_BUFFER_BYTES
_IDLE_HANDLES_MAX = 64
# A request waits this long for another's connection, then opens one of its own.
_OPENING_S = 1.0
# The settings are: no pushed answers, 100 streams, a window of 1 MB.
_NEUTRAL_SETTINGS = b"2:0;3:100;4:1048576"

_TLS = frozenset({
    CurlECode.SSL_CONNECT_ERROR, CurlECode.PEER_FAILED_VERIFICATION, CurlECode.SSL_CIPHER,
    CurlECode.SSL_CACERT_BADFILE,
    CurlECode.SSL_ISSUER_ERROR, CurlECode.SSL_CERTPROBLEM, CurlECode.SSL_INVALIDCERTSTATUS,
    CurlECode.SSL_CLIENTCERT,
})  # fmt: skip
_BROKEN = frozenset({
    CurlECode.GOT_NOTHING, CurlECode.SEND_ERROR, CurlECode.RECV_ERROR, CurlECode.PARTIAL_FILE,
    CurlECode.HTTP2_STREAM,
})  # fmt: skip
_NO_CONNECTION = frozenset({
    CurlECode.COULDNT_CONNECT, CurlECode.COULDNT_RESOLVE_HOST, CurlECode.NO_CONNECTION_AVAILABLE,
})  # fmt: skip


class CurlTransport(httpx.AsyncBaseTransport):
    """One pool of connections, all with the same handshake. Made inside a running loop, and used in
    that one only.

    `target` is curl_cffi's name of a browser (`chrome150`); None is libcurl as it is. `plain` takes
    http URLs and is closed with it. Raises httpx's errors as `AiohttpTransport` does.
    """

    def __init__(
        self,
        pool: PoolOptions,
        private: Networks,
        tls: ssl.SSLContext,
        *,
        target: str | None,
        plain: httpx.AsyncBaseTransport,
    ) -> None:
        self._target = target
        self._plain = plain
        self._private = private
        self._tls = tls
        self._addresses = AddressCache(pool.make_resolver(), private, ttl_s=pool.dns_ttl_s)
        self._loop = asyncio.get_running_loop()
        self._multi: Any = _Multi()
        self._multi.setopt(CurlMOpt.MAXCONNECTS, pool.max_connections)  # type: ignore[no-untyped-call]
        self._multi.setopt(CurlMOpt.MAX_TOTAL_CONNECTIONS, pool.max_connections)  # type: ignore[no-untyped-call]
        self._idle: list[Curl] = []
        self._stores = ca_stores()
        self._under_way: set[Exchange] = set()
        self._opening: dict[Hashable, asyncio.Event] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request's head, and `request.extensions["body"]` (bytes) where there is one;
        `["timeout"]` may hold `connect` and `read`, in seconds."""
        if request.url.scheme != "https":
            return await self._plain.handle_async_request(request)
        limits = request.extensions.get("timeout", {})
        connect_s, read_s = limits.get("connect"), limits.get("read")
        started = self._loop.time()
        try:
            async with asyncio.timeout(connect_s):
                exchange, pins = await self._prepared(request)
            key = request.url.raw_host, port_of(request.url), exchange.label
            await self._after_the_opener(key)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("its name was not looked up in time") from error
        left_s = (
            None if connect_s is None else max(0.001, connect_s - (self._loop.time() - started))
        )
        self._opens(key, exchange)
        try:
            exchange.start(self._handle(), request, pins, left_s, read_s)
            await exchange.head()
        except BaseException as error:
            exchange.drop()
            if isinstance(error, Exception):
                raise self._blamed(exchange, error) from error.__cause__
            raise
        return httpx.Response(
            exchange.status, headers=exchange.headers, stream=_Stream(exchange), request=request
        )

    async def _prepared(self, request: httpx.Request) -> tuple[Exchange, list[bytes]]:
        """An exchange, and the addresses that libcurl is to take its host's name for."""
        host = request.url.host
        addresses = await self._addresses.addresses(host)
        pins = (
            []
            if _literal(host)
            else [_pin(request.url.raw_host.decode(), port_of(request.url), addresses)]
        )
        return Exchange(self, self._private), pins

    async def _after_the_opener(self, key: Hashable) -> None:
        """Where somebody is opening a connection to the host, waits until it stands: then HTTP/2
        takes this request too, and one connection serves all, as with browsers. (libcurl's own
        PIPEWAIT lets a request that hangs on an HTTP/1.1 connection hold up every other one.)"""
        opening = self._opening.get(key)
        if opening is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_OPENING_S):
                    await opening.wait()

    def _opens(self, key: Hashable, exchange: Exchange) -> None:
        if key in self._opening:
            return
        stands = self._opening[key] = asyncio.Event()

        def over() -> None:
            if self._opening.get(key) is stands:
                del self._opening[key]
            stands.set()

        exchange.connected_or_over = over

    def _blamed(self, _exchange: Exchange, error: Exception) -> Exception:
        return error

    async def aclose(self) -> None:
        for exchange in list(self._under_way):
            exchange.drop()
        await self._multi.close()
        for curl in self._idle:
            curl.close()
        self._idle.clear()
        await self._plain.aclose()

    # What exchanges need.

    def begun(self, exchange: Exchange, curl: Curl) -> asyncio.Future[None]:
        self._under_way.add(exchange)
        future: asyncio.Future[None] = self._multi.add_handle(curl)
        return future

    def ended(self, exchange: Exchange, curl: Curl, *, whole: bool) -> None:
        self._under_way.discard(exchange)
        if not whole:
            with suppress(CurlError):
                self._multi.remove_handle(curl)
        curl.clean_handles_and_buffers()
        if whole and len(self._idle) < _IDLE_HANDLES_MAX:
            self._idle.append(curl)
        else:
            curl.close()

    def _handle(self) -> Curl:
        if self._idle:
            return self._idle.pop()
        curl = Curl()
        if self._target is not None and curl.impersonate(self._target, default_headers=True) != 0:
            curl.close()
            raise httpx.UnsupportedProtocol(f"curl_cffi cannot impersonate {self._target}")
        if self._target is None:
            # It is not Chrome's, which this libcurl has for everybody.
            curl.setopt(CurlOpt.HTTP2_SETTINGS, _NEUTRAL_SETTINGS)
        for option, value in (
            (CurlOpt.HTTP_VERSION, CurlHttpVersion.V2TLS),
            (CurlOpt.PROTOCOLS_STR, b"https"),
            (CurlOpt.PROXY, b""),  # not the environment's
            (CurlOpt.NOPROXY, b"*"),
            (CurlOpt.NETRC, 0),
            (CurlOpt.FOLLOWLOCATION, 0),
            (CurlOpt.HTTP_CONTENT_DECODING, 0),
            (CurlOpt.HTTP09_ALLOWED, 0),
            (CurlOpt.PATH_AS_IS, 1),
            (CurlOpt.NOSIGNAL, 1),
            (CurlOpt.SSL_VERIFYPEER, 1),
            (CurlOpt.SSL_VERIFYHOST, 2),
            # A ticket would tell a host which identities are one.
            (CurlOpt.SSL_SESSIONID_CACHE, 0),
            (CurlOpt.MAXAGE_CONN, int(KEEPALIVE_S)),
            (CurlOpt.BUFFERSIZE, READ_BUFFER_BYTES),
        ):
            curl.setopt(option, value)
        hooks.unset(curl, CurlOpt.ACCEPT_ENCODING)
        for option, path in zip((CurlOpt.CAINFO, CurlOpt.CAPATH), self._stores, strict=True):
            if path is None:
                hooks.unset(curl, option)
            else:
                curl.setopt(option, path.encode())
        curl._is_cert_set = True  # noqa: SLF001  else it puts a store of its own in place
        hooks.hook(curl)
        return curl


class _Multi(AsyncCurl):
    """Ends connections whose HTTP/2 is broken: libcurl keeps them, and each later request would
    fail in its turn."""

    def set_exception(self, curl: Curl, exception: BaseException) -> None:
        if getattr(exception, "code", 0) == CurlECode.HTTP2:
            # It is known while the handle is still in.
            number = curl.getinfo(CurlInfo.ACTIVESOCKET)
            if isinstance(number, int) and number >= 0:
                with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
        super().set_exception(curl, exception)


class Exchange:
    """One request and its answer, between libcurl's callbacks, which must not wait, and a task that
    does."""

    connected = False
    label = ""
    connected_or_over: Callable[[], None] | None = None

    def __init__(self, transport: CurlTransport, private: Networks) -> None:
        self._transport = transport
        self._private = private
        self._loop = asyncio.get_running_loop()
        self._curl: Curl | None = None
        self._detach: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits_since = 0.0
        self._moved = 0.0
        self._read_s: float | None = None
        self._sends = 0
        # A connection was opened for it.
        self._fresh = False
        self._fresh_at_first = False
        self._paused = False
        self._over = False
        self._have_head = False
        self._error: Exception | None = None
        self._refused: ForbiddenAddressError | None = None
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._lines = 0
        # These are of interim answers and trailers, too.
        self._header_bytes = 0
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []

    def start(
        self,
        curl: Curl,
        request: httpx.Request,
        pins: list[bytes],
        connect_s: float | None,
        read_s: float | None,
    ) -> None:
        self._curl, self._read_s = curl, read_s
        curl.setopt(CurlOpt.URL, absolute_target_of(request))
        curl.setopt(CurlOpt.HTTPHEADER, header_lines(request.headers.raw))
        body = request.extensions.get("body")
        if body is None:
            # The handle may have sent something else before.
            curl.setopt(CurlOpt.HTTPGET, 1)
        else:
            curl.setopt(CurlOpt.POST, 1)
            curl.setopt(CurlOpt.POSTFIELDSIZE, len(body))
            curl.setopt(CurlOpt.COPYPOSTFIELDS, body)
        if pins:
            curl.setopt(CurlOpt.RESOLVE, pins)
        else:
            # An earlier transfer's list is freed by now.
            hooks.unset(curl, CurlOpt.RESOLVE)
        curl.setopt(CurlOpt.CONNECTTIMEOUT_MS, int((connect_s or 0) * 1000) or 300_000)
        curl.setopt(CurlOpt.HEADERFUNCTION, self._header)
        curl.setopt(CurlOpt.WRITEFUNCTION, self._body)
        self._detach = hooks.attach(curl, self)
        self._moved = self._loop.time()
        self._transport.begun(self, curl).add_done_callback(self._done)
        if read_s is not None:
            self._timer = self._loop.call_later(read_s, self._check_silence)

    async def head(self) -> None:
        """Returns when `status` and `headers` are there. Raises httpx's errors."""
        while not self._have_head:
            if self._error is not None:
                raise self._error
            if self._over:
                raise httpx.ReadError("it was closed in the middle of the headers")
            await self._wait()

    async def data(self) -> bytes:
        """The next piece of the body; b"" at its end."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._over:
                return b""
            await self._wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        if self._paused and self._curl is not None:
            self._paused = False
            try:
                # It may bring more at once.
                self._curl.pause(_RESUME)
            except CurlError as error:
                self._fail(httpx.ReadError(str(error)))
        return data

    def drop(self) -> None:
        """The end, however far it came: a connection in the middle of an answer is closed, or the
        stream reset."""
        self._stands()
        curl, self._curl = self._curl, None
        if curl is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        whole = self._over and self._error is None
        self._transport.ended(self, curl, whole=whole)
        if self._detach is not None:
            self._detach()

    async def _wait(self) -> None:
        self._waits_since = self._loop.time()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    def _check_silence(self) -> None:
        """The read timeout: measured while somebody waits and the request is out, as the other
        transport does."""
        assert self._read_s is not None
        idle_s = 0.0
        if self._waiter is not None and self._sends:
            idle_s = self._loop.time() - max(self._moved, self._waits_since)
        left_s = self._read_s - idle_s
        if left_s <= 0.001:
            self._fail(httpx.ReadTimeout("nothing came in time"))
        else:
            self._timer = self._loop.call_later(left_s, self._check_silence)

    def _done(self, future: asyncio.Future[None]) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if (
            not future.cancelled()
            and (error := future.exception()) is not None
            and self._error is None
        ):
            self._error = _as_httpx(error)
            if self._refused is not None and not self._sends:
                self._error = httpx.ConnectError(str(self._refused))
                self._error.__cause__ = self._refused
        self._wake()

    # These are called by libcurl, in the middle of its own work.

    def opened(self, family: int, kind: int, proto: int, address: str) -> int:
        self._fresh = True
        return socket.socket(family, kind, proto).detach() if self._allowed(address) else -1

    def may_send(self, address: str) -> bool:
        if not self.connected and not self._allowed(address):
            return False
        # It is libcurl's own repetition, which no budget knows of.
        if self._sends:
            stale = httpx.ReadError if self._fresh_at_first else StaleConnectionError
            self._error = self._error or stale("it was closed before the answer")
            return False
        if not self._sends:
            self._fresh_at_first = self._fresh
        self._sends += 1
        self._moved = self._loop.time()
        self._stands()
        return True

    def _stands(self) -> None:
        """Whatever it opened stands, or never will: those who wait for it go on."""
        on_connected, self.connected_or_over = self.connected_or_over, None
        if on_connected is not None:
            on_connected()

    def _allowed(self, address: str) -> bool:
        reason = guard.forbidden_reason(address, self._private)
        if reason is not None:
            self._refused = ForbiddenAddressError(address, reason)
        return reason is None

    def _header(self, line: bytes) -> int:
        self._moved = self._loop.time()
        self._header_bytes += len(line)
        if self._header_bytes > HEADERS_MAX_BYTES:
            return self._refuse("its headers are too long")
        if self._have_head:  # trailers
            return len(line)
        if line.startswith(b"HTTP/"):
            words = line.split(None, 2)
            self.status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
            self.headers, self._lines = [], 0
            return len(line)
        bare = line.rstrip(b"\r\n")
        if not bare:
            return len(line) if self._head_over() else _ABORT
        self._lines += 1
        if len(line) > HEADER_MAX_BYTES or self._lines > HEADERS_MAX:
            return self._refuse("its headers are too long")
        name, colon, value = bare.partition(b":")
        if not colon or not name or name != name.strip():
            return self._refuse("a header is no header")
        self.headers.append((name, value.strip(b" \t")))
        return len(line)

    def _head_over(self) -> bool:
        if self.status < 200 and self.status != 101:
            return True
        lengths = {value for name, value in self.headers if name.lower() == b"content-length"}
        chunked = any(name.lower() == b"transfer-encoding" for name, _ in self.headers)
        # Where the answer ends is anybody's guess (RFC 9112 6.3).
        if len(lengths) > 1 or (lengths and chunked):
            self._refuse("it says in two ways how long it is")
            return False
        self._have_head = True
        self._wake()
        return True

    def _refuse(self, why: str) -> int:
        self._error = self._error or httpx.RemoteProtocolError(why)
        return _ABORT

    def _body(self, data: bytes) -> int:
        self._moved = self._loop.time()
        if self._error is not None:
            return _ABORT
        if self._held >= _HELD_MAX_BYTES:
            self._paused = True
            return _PAUSE
        self._chunks.append(data)
        self._held += len(data)
        self._wake()
        return len(data)


class _Stream(httpx.AsyncByteStream):
    """The raw body, as it arrives. `aclose` keeps the connection if the body was received whole,
    else drops it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._exchange.data()
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        self._exchange.drop()


def ca_stores() -> tuple[str | None, str | None]:
    """File and folder of the certificates to verify against, as `tls_context` chooses:
    SSL_CERT_FILE and SSL_CERT_DIR, else the system's, else certifi's. A folder is looked into as
    needed; a file is read for each connection (6 ms for 140)."""
    paths = ssl.get_default_verify_paths()
    chosen = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if chosen or paths.cafile or (paths.capath and os.listdir(paths.capath)):
        return paths.cafile, paths.capath
    return certifi.where(), None


def header_lines(raw: list[tuple[bytes, bytes]]) -> list[bytes]:
    """Headers in libcurl's spelling. Raises httpx.LocalProtocolError for what would be two."""
    lines = []
    for name, value in raw:
        if any(mark in name + value for mark in (b"\r", b"\n", b"\0")):
            raise httpx.LocalProtocolError(f"the header {name.decode('latin-1')!r} is not one line")
        lines.append(name + b": " + value if value else name + b";")
    if not any(name.lower() == b"accept" for name, _ in raw):
        # Otherwise libcurl adds its own.
        lines.append(b"Accept:")
    return lines


def _literal(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host.strip("[]"))
        return True
    return False


def _pin(host: str, port: int, addresses: list[str]) -> bytes:
    shown = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
    return f"{host}:{port}:{shown}".encode("ascii")


def _as_httpx(error: BaseException) -> Exception:
    """The nearest error of httpx for what libcurl says, by its code and, where one code means
    several things, its words."""
    if not isinstance(error, CurlError):
        return error if isinstance(error, Exception) else httpx.ReadError(type(error).__name__)
    text = _words(error)
    code = error.code
    if code == CurlECode.OPERATION_TIMEDOUT:
        return httpx.ConnectTimeout(text)
    if code in _TLS:
        if code == CurlECode.SSL_CONNECT_ERROR and _closed(text):
            return httpx.ConnectError("the connection was closed during the TLS handshake")
        failed = httpx.ConnectError(text)
        failed.__cause__ = ssl.SSLError(1, text)
        return failed
    if code in _NO_CONNECTION:
        return httpx.ConnectError(text)
    if code == CurlECode.URL_MALFORMAT:
        return httpx.InvalidURL(text)
    if (code in _BROKEN and "chunk" not in text) or (code == CurlECode.HTTP2 and not text):
        return httpx.ReadError(text or "it was closed before the answer")
    return httpx.RemoteProtocolError(text or f"libcurl's error {int(code)}")


def _closed(text: str) -> bool:
    return any(
        sign in text
        for sign in ("SSL_ERROR_SYSCALL", "reset by peer", "Broken pipe", "unexpected eof")
    )


def _words(error: CurlError) -> str:
    """libcurl's own words, without the binding's frame: `Failed to perform, curl: (56) … . See
    https://…`."""
    text = str(error)
    _, separator, rest = text.partition(f"({int(error.code)}) ")
    return (rest if separator else text).partition(". See https://curl.se")[0]
