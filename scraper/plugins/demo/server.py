"""The sample shop's HTTP server, in one thread.

It is fast rather than complete: HTTP/1.1 with keep-alive and pipelining, GET, HEAD and POST; no
TLS, no chunked requests. `/_control/*` answers only the loopback interface.
"""

from __future__ import annotations

import asyncio
import json
import time
from urllib.parse import parse_qs

from pydantic import ValidationError

from scraper.plugins.demo.faults import Fault
from scraper.plugins.demo.shop import Shop, ShopAnswer, make_answer

HEAD_MAX_BYTES = 32_768


class ShopConnection(asyncio.Protocol):
    """One client. Pipelined requests are answered one by one, in order (RFC 9112, 9.3.2)."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.buffer = b""
        self.waiting = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        if not self.waiting:
            self._answer_requests()

    def _answer_requests(self) -> None:
        while not self.waiting and not self.transport.is_closing():
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self.buffer) > HEAD_MAX_BYTES:
                    self._refuse_request(431)
                return None
            line, _, head = self.buffer[:end].partition(b"\r\n")
            words = line.split(b" ")
            if len(words) != 3:
                return self._refuse_request(400)
            fields = head.lower()
            length = int(_find_header(fields, b"content-length") or 0) if words[0] == b"POST" else 0
            if len(self.buffer) < end + 4 + length:
                if length > HEAD_MAX_BYTES:
                    self._refuse_request(413)
                return None
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            self._answer_request(words[0], words[1], fields, body)

    def _answer_request(self, method: bytes, target: bytes, fields: bytes, body: bytes) -> None:
        closing = b"connection: close" in fields
        self.shop.change_prices(time.time())
        if target.startswith(b"/_"):
            control = self._answer_control(method.decode(), target.decode("latin-1"), body)
            return self._send_data(control.whole, closing)
        if method not in (b"GET", b"HEAD"):
            return self._send_data(make_answer(405, b"", Allow="GET, HEAD").whole, closing)
        fault = self.shop.next_fault(target)
        if fault is Fault.RESET:
            self._log_request(target, 0)
            return self.transport.abort()
        if fault is Fault.HANG:
            self._log_request(target, 0)
            # The connection waits until the client gives up.
            self.waiting = True
            return None
        if fault is not None:
            answer = make_answer(int(fault), b"<h1>Something went wrong</h1>")
            data = answer.whole
        else:
            answer = self._choose_answer(target, fields)
            data = answer.head if method == b"HEAD" else answer.whole
        self._log_request(target, answer.status)
        delay_s = self.shop.draw_delay_s()
        if delay_s:
            self.waiting = True
            asyncio.get_running_loop().call_later(delay_s, self._send_delayed, data, closing)
        else:
            self._send_data(data, closing)
        return None

    def _choose_answer(self, target: bytes, fields: bytes) -> ShopAnswer:
        """Returns the page as the request's headers ask for it: packed, or only 304."""
        accepts_gzip = b"gzip" in (_find_header(fields, b"accept-encoding") or b"")
        if self.shop.options.gzip and accepts_gzip:
            page = self.shop.packed(target)
        else:
            page = self.shop.page(target)
        # The first test spares a search through the headers for most requests.
        if page.etag and b"if-none-match" in fields:
            known_etags = _find_header(fields, b"if-none-match") or b""
            if page.etag in known_etags:
                head = b"HTTP/1.1 304 Not Modified\r\nETag: " + page.etag + b"\r\n\r\n"
                return ShopAnswer(304, head, b"")
        return page

    def _log_request(self, target: bytes, status: int) -> None:
        self.shop.log.append((time.time(), target, status))

    def _send_data(self, data: bytes, closing: bool) -> None:
        self.transport.write(data)
        if closing:
            self.transport.close()

    def _send_delayed(self, data: bytes, closing: bool) -> None:
        self.waiting = False
        if not self.transport.is_closing():
            self._send_data(data, closing)
            self._answer_requests()

    def _refuse_request(self, status: int) -> None:
        self._send_data(make_answer(status, b"").whole, closing=True)

    def _answer_control(self, method: str, target: str, body: bytes) -> ShopAnswer:
        peer = self.transport.get_extra_info("peername")[0]
        if not (peer.startswith("127.") or peer == "::1"):
            return make_answer(403, b"loopback only\n", "text/plain")
        path, _, query = target.partition("?")
        parameters = parse_qs(query, keep_blank_values=True)
        try:
            result = self.shop.answer_control(method, path, parameters, body)
        except KeyError:
            return make_answer(404, b"no such control\n", "text/plain")
        except (ValueError, ValidationError) as error:
            return make_answer(400, str(error).encode(), "text/plain; charset=utf-8")
        return make_answer(200, json.dumps(result).encode(), "application/json")


def _find_header(fields: bytes, name: bytes) -> bytes | None:
    """Returns a header's value from the lower-cased header block."""
    for line in fields.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key == name:
            return value.strip()
    return None


async def serve(shop: Shop, port: int, host: str = "127.0.0.1") -> asyncio.Server:
    """Listens at a port, or at any free one for port 0. The shop's links name that address."""
    server = await asyncio.get_running_loop().create_server(
        lambda: ShopConnection(shop), host, port, backlog=1024
    )
    shop.base_url = shop.base_url or f"http://{host}:{server.sockets[0].getsockname()[1]}"
    shop.render_ahead()
    return server
