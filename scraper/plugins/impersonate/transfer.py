"""One request and its response, between libcurl's callbacks, which must not wait, and a task that
does."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import httpx
from curl_cffi import Curl, CurlError, CurlOpt

from scraper.http.request import absolute_target_of
from scraper.http.transport import guard
from scraper.http.transport.aiohttp_protocol import HEADERS_MAX_BYTES
from scraper.http.transport.aiohttp_transport import (
    HEADER_MAX_BYTES,
    HEADERS_MAX,
    READ_BUFFER_BYTES,
    StaleConnectionError,
)
from scraper.http.transport.guard import ForbiddenAddressError, Networks
from scraper.plugins.impersonate import hooks
from scraper.plugins.impersonate.errors import to_httpx_error

# These are CURL_WRITEFUNC_ERROR, CURL_WRITEFUNC_PAUSE and CURLPAUSE_CONT.
_ABORT, _PAUSE, _RESUME = 0xFFFFFFFF, 0x10000001, 0
# The library works off in one go what has come. With some frames (GOAWAY) it goes on as long as
# more come, and nothing else on the loop would run.
_TURN_MAX_S = 0.25
_BUFFER_MAX_BYTES = 2 * READ_BUFFER_BYTES


class TransferOwner(Protocol):
    """The transport that runs a transfer."""

    def begin_transfer(self, transfer: CurlTransfer, curl: Curl) -> asyncio.Future[None]: ...
    def end_transfer(self, transfer: CurlTransfer, curl: Curl, *, whole: bool) -> None: ...


class CurlTransfer:
    """`connected` says that its sockets come connected, `label` keeps connections apart, and
    `on_connected` is called once its connection is open or has failed."""

    connected = False
    label = ""
    on_connected: Callable[[], None] | None = None

    def __init__(self, owner: TransferOwner, private: Networks) -> None:
        self._owner = owner
        self._private = private
        self._loop = asyncio.get_running_loop()
        self._curl: Curl | None = None
        self._detach: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits_since = 0.0
        self._active_at = 0.0
        self._read_s: float | None = None
        self._sends = 0
        # A connection was opened for this transfer.
        self._fresh = False
        self._fresh_at_first = False
        # When libcurl began its present turn, in the thread's time; None between two turns.
        self._turn_began: float | None = None
        self._paused = False
        self._over = False
        self._have_head = False
        self._error: Exception | None = None
        self._refused: ForbiddenAddressError | None = None
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._lines = 0
        # These include interim responses and trailers.
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
        """Starts the request with a handle; `pins` are the addresses of its host."""
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
            hooks.unset_option(curl, CurlOpt.RESOLVE)
        curl.setopt(CurlOpt.CONNECTTIMEOUT_MS, int((connect_s or 0) * 1000) or 300_000)
        curl.setopt(CurlOpt.HEADERFUNCTION, self._on_header)
        curl.setopt(CurlOpt.WRITEFUNCTION, self._on_body)
        self._detach = hooks.attach_transfer(curl, self)
        self._active_at = self._loop.time()
        self._owner.begin_transfer(self, curl).add_done_callback(self._on_done)
        if read_s is not None:
            self._timer = self._loop.call_later(read_s, self._check_silence)

    async def wait_for_head(self) -> None:
        """Returns once `status` and `headers` are set. Raises httpx's errors."""
        while not self._have_head:
            if self._error is not None:
                raise self._error
            if self._over:
                raise httpx.ReadError("it was closed in the middle of the headers")
            await self._wait_for_callback()

    async def read(self) -> bytes:
        """Returns the next piece of the body; b"" at its end."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._over:
                return b""
            await self._wait_for_callback()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._paused and self._curl is not None:
            self._paused = False
            try:
                # This may bring more at once.
                self._curl.pause(_RESUME)
            except CurlError as error:
                self._fail(httpx.ReadError(str(error)))
        return data

    def close(self) -> None:
        """Ends the transfer, however far it came: a connection in the middle of a response is
        closed, or the stream reset."""
        self._notify_connected()
        curl, self._curl = self._curl, None
        if curl is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        whole = self._over and self._error is None
        self._owner.end_transfer(self, curl, whole=whole)
        if self._detach is not None:
            self._detach()

    async def _wait_for_callback(self) -> None:
        self._waits_since = self._loop.time()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self._wake_waiter()

    def _check_silence(self) -> None:
        """Enforces the read timeout, which runs while a task waits and the request is sent, as in
        the other transport."""
        assert self._read_s is not None
        idle_s = 0.0
        if self._waiter is not None and self._sends:
            idle_s = self._loop.time() - max(self._active_at, self._waits_since)
        left_s = self._read_s - idle_s
        if left_s <= 0.001:
            self._fail(httpx.ReadTimeout("nothing came in time"))
        else:
            self._timer = self._loop.call_later(left_s, self._check_silence)

    def _on_done(self, future: asyncio.Future[None]) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if (
            not future.cancelled()
            and (error := future.exception()) is not None
            and self._error is None
        ):
            self._error = to_httpx_error(error)
            if self._refused is not None and not self._sends:
                self._error = httpx.ConnectError(str(self._refused))
                self._error.__cause__ = self._refused
        self._wake_waiter()

    # The library calls these in the middle of its own work.

    def open_socket(self, family: int, kind: int, proto: int, address: str) -> int:
        self._fresh = True
        if not self._check_address(address):
            return -1
        return socket.socket(family, kind, proto).detach()

    def may_send(self, address: str) -> bool:
        """Returns whether libcurl may send the request to this address. That is true once: libcurl
        repeats a request if the server closes a kept connection, and no budget knows of that."""
        if not self.connected and not self._check_address(address):
            return False
        if self._sends:
            closed = httpx.ReadError if self._fresh_at_first else StaleConnectionError
            self._error = self._error or closed("it was closed before the answer")
            return False
        self._fresh_at_first = self._fresh
        self._sends += 1
        self._active_at = self._loop.time()
        self._notify_connected()
        return True

    def may_go_on(self) -> bool:
        # The thread's own time: a busy machine lets others run in the middle of a turn.
        now = time.thread_time()
        if self._turn_began is None:
            self._turn_began = now
            self._loop.call_soon(self._end_turn)
        if now - self._turn_began < _TURN_MAX_S:
            return True
        self._error = self._error or httpx.RemoteProtocolError("it floods the connection")
        return False

    def _end_turn(self) -> None:
        self._turn_began = None

    def _notify_connected(self) -> None:
        on_connected, self.on_connected = self.on_connected, None
        if on_connected is not None:
            on_connected()

    def _check_address(self, address: str) -> bool:
        reason = guard.forbidden_reason(address, self._private)
        if reason is not None:
            self._refused = ForbiddenAddressError(address, reason)
        return reason is None

    def _on_header(self, line: bytes) -> int:
        self._active_at = self._loop.time()
        self._header_bytes += len(line)
        if self._header_bytes > HEADERS_MAX_BYTES:
            return self._refuse_response("its headers are too long")
        # Later lines are trailers.
        if self._have_head:
            return len(line)
        if line.startswith(b"HTTP/"):
            words = line.split(None, 2)
            self.status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
            self.headers, self._lines = [], 0
            return len(line)
        bare = line.rstrip(b"\r\n")
        if not bare:
            return len(line) if self._end_head() else _ABORT
        self._lines += 1
        if len(line) > HEADER_MAX_BYTES or self._lines > HEADERS_MAX:
            return self._refuse_response("its headers are too long")
        name, colon, value = bare.partition(b":")
        if not colon or not name or name != name.strip():
            return self._refuse_response("a header is malformed")
        self.headers.append((name, value.strip(b" \t")))
        return len(line)

    def _end_head(self) -> bool:
        if self.status < 200 and self.status != 101:
            return True
        lengths = {value for name, value in self.headers if name.lower() == b"content-length"}
        chunked = any(name.lower() == b"transfer-encoding" for name, _ in self.headers)
        # The end of such a response is ambiguous (RFC 9112 6.3).
        if len(lengths) > 1 or (lengths and chunked):
            self._refuse_response("it says in two ways how long it is")
            return False
        self._have_head = True
        self._wake_waiter()
        return True

    def _refuse_response(self, reason: str) -> int:
        self._error = self._error or httpx.RemoteProtocolError(reason)
        return _ABORT

    def _on_body(self, data: bytes) -> int:
        self._active_at = self._loop.time()
        if self._error is not None:
            return _ABORT
        if self._buffered >= _BUFFER_MAX_BYTES:
            self._paused = True
            return _PAUSE
        self._chunks.append(data)
        self._buffered += len(data)
        self._wake_waiter()
        return len(data)


class CurlBody(httpx.AsyncByteStream):
    """The raw body as it arrives. `aclose` keeps the connection if the body was received whole, and
    closes it otherwise."""

    def __init__(self, transfer: CurlTransfer) -> None:
        self._transfer = transfer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._transfer.read()
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        self._transfer.close()


def header_lines(raw: list[tuple[bytes, bytes]]) -> list[bytes]:
    """Returns headers in libcurl's spelling. Raises httpx.LocalProtocolError for a header that
    would be two."""
    lines = []
    for name, value in raw:
        if any(mark in name + value for mark in (b"\r", b"\n", b"\0")):
            raise httpx.LocalProtocolError(f"the header {name.decode('latin-1')!r} is not one line")
        lines.append(name + b": " + value if value else name + b";")
    if not any(name.lower() == b"accept" for name, _ in raw):
        # Otherwise libcurl adds its own.
        lines.append(b"Accept:")
    return lines
