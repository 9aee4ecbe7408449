"""aiohttp's connector with a protocol of our own: one read timer per connection, and limits on what
a response sends in addition to its body.

All hooks of aiohttp that are not public are here. If they move, an assertion fails, a read timeout
comes too early, or a body with broken framing ends at the page's deadline; tests cover all three.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

# Covers everything that a response sends in addition to its body: interim responses, headers, chunk
# extensions and trailers. Chrome takes as much of headers.
HEADERS_MAX_BYTES = 262_144
# The framing of a chunk that holds a single byte.
_FRAMING_BYTES = 5


class ResponseProtocol(ResponseHandler):
    """Works around four gaps of aiohttp 3.14.

    Its C parser forgets the body when the framing of a later packet is broken, and the reader would
    wait for the page's deadline. It makes a new timer with each packet, and starts one where
    reading goes on after a body came whole. It counts neither interim responses nor chunk
    extensions, so that gigabytes of them would fit within a page's deadline.
    """

    _used = False
    # All bytes since the request.
    _received = 0
    _silent_since: float | None = None

    def _reschedule_timeout(self) -> None:
        if not self._read_timeout:
            self._silent_since = None
            return
        self._silent_since = now = self._loop.time()
        handle, due = self._read_timeout_handle, now + self._read_timeout
        # The timer belongs to an earlier request with a longer timeout.
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

    def resume_reading(self, resume_parser: bool = True) -> None:
        super().resume_reading(resume_parser)
        if self._payload is not None and self._payload.is_eof():
            # The answer is whole: aiohttp would time out a connection that nothing is asked of.
            self._drop_timeout()

    def begin_request(self) -> bool:
        """Forgets the last response. Returns whether the connection has served a request before."""
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
            limit = f"more than {HEADERS_MAX_BYTES} bytes came in addition to the body"
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
    """Gives connections our protocol."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(ResponseProtocol, loop=self._loop)  # type: ignore[assignment]
