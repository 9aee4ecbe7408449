"""The sample shop's state and its HTTP server, both in one thread: what is asked, and what is
answered.

Fast rather than complete: HTTP/1.1 with keep-alive and pipelining, GET, HEAD and POST; no TLS, no
chunked requests. Everything it serves is rendered once a visit and kept. `/_control/*` is for
loopback alone.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib
from collections import Counter, deque
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from urllib.parse import parse_qs

from pydantic import ValidationError

from scraper.plugins.demo import pages
from scraper.plugins.demo.catalogue import Catalogue, Generation
from scraper.plugins.demo.faults import Fault, Options, fault

HEAD_MAX_BYTES = 32_768
LOG_MAX = 2_000_000
WARM_MAX = 20_000
PAGES_MAX = 200_000
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, ready to send: HEAD gets `head` alone."""

    status: int
    head: bytes
    body: bytes
    etag: bytes = b""

    @property
    def whole(self) -> bytes:
        return self.head + self.body


def answer(status: int, body: bytes, kind: str = HTML, **headers: str) -> Answer:
    etag = f'"{zlib.crc32(body):08x}"'
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
    ]
    if status == HTTPStatus.OK:
        lines.append(f"ETag: {etag}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Answer(status, "\r\n".join([*lines, "", ""]).encode(), body, etag.encode())


class Shop:
    """What the shop is at the moment: its visit, its options, its log. Not for two threads."""

    def __init__(self, catalogue: Catalogue, options: Options, base_url: str = "") -> None:
        self.catalogue, self.options, self.base_url = catalogue, options, base_url
        self.log: deque[tuple[float, bytes, int]] = deque(maxlen=LOG_MAX)
        self.jitter = Random(catalogue.seed)
        self.attempts: Counter[str] = Counter()
        self.generation: Generation
        self.visit_at(1)

    def visit_at(self, visit: int) -> None:
        """Moves to a visit; ValueError for one that there is not."""
        self.generation = self.catalogue.at(visit)
        self.attempts.clear()
        self._pages: dict[bytes, Answer] = {}
        self._packed: dict[bytes, Answer] = {}
        self._sitemaps: dict[str, bytes] = {}

    def warm(self) -> None:
        """Renders the products of a shop of usual size ahead, so that no crawl waits for it."""
        if len(self.generation.items) > WARM_MAX:
            return
        for item in self.generation.items.values():
            self.page(item.path.encode())

    def page(self, target: bytes) -> Answer:
        """The page at a request target, as it is without faults."""
        page = self._pages.get(target)
        if page is None:
            page = self._render(target.decode("latin-1"))
            # The client chooses targets, so their number is bounded.
            if len(self._pages) < PAGES_MAX:
                self._pages[target] = page
        return page

    def packed(self, target: bytes) -> Answer:
        """The same, compressed."""
        packed = self._packed.get(target)
        if packed is None:
            packed = self.page(target)
            if packed.status == HTTPStatus.OK and b"gzip" not in packed.head:
                body = gzip.compress(packed.body, 5, mtime=0)
                packed = answer(200, body, Content_Encoding="gzip", Vary="Accept-Encoding")
            self._packed[target] = packed
        return packed

    def _render(self, target: str) -> Answer:
        path, _, query = target.partition("?")
        match path.split("/")[1:]:
            case [""]:
                return answer(200, pages.home(self.generation))
            case ["all"]:
                return self._listing("all", query)
            case ["c", name] if name in self.generation.listings and name != "all":
                return self._listing(name, query)
            case ["p", slug]:
                return self._product(slug)
            case ["robots.txt"]:
                return answer(200, pages.robots(self.base_url), "text/plain")
            case ["img", _]:
                return answer(200, b"\xff\xd8\xff\xd9", "image/jpeg")
            case ["basket" | "search" | "imprint"]:
                return answer(200, pages.notice(path[1:].title(), "Nothing for crawlers here."))
        self._sitemaps = self._sitemaps or pages.sitemaps(self.generation, self.base_url)
        if path in self._sitemaps:
            kind = "application/gzip" if path.endswith(".gz") else "application/xml"
            return answer(200, self._sitemaps[path], kind)
        return answer(404, pages.notice("Not found", "There is no such page."))

    def _listing(self, name: str, query: str) -> Answer:
        number = parse_qs(query).get("page", ["1"])[0]
        body = pages.listing(
            self.generation, name, int(number) if number.isdecimal() else 0, self.base_url
        )
        return (
            answer(404, pages.notice("Not found", "No such page."))
            if body is None
            else answer(200, body)
        )

    def _product(self, slug: str) -> Answer:
        number = slug.partition("-")[0]
        item = (
            self.generation.items.get(int(number))
            if number.isdecimal() and len(number) < 12
            else None
        )
        if item is None:
            gone = number.isdecimal() and number[-1] in "02468"
            return answer(
                410 if gone else 404, pages.notice("Gone", "We do not sell this any more.")
            )
        if slug != item.path.removeprefix("/p/"):
            return answer(301, b"", Location=item.path)
        others = (self.generation.items.get(item.id + step) for step in (1, 5, 12, 31, 58, 77))
        return answer(200, pages.product(item, [other for other in others if other], self.base_url))

    def fault(self, target: bytes) -> Fault | None:
        """Counts the attempt and says what goes wrong with it. An outage counts none: no page has
        failed by itself."""
        if self.options.outage is not None:
            return self.options.outage
        if not (self.options.fail_share or self.options.hang_share) or not target.startswith(
            b"/p/"
        ):
            return None
        path = target.partition(b"?")[0].decode("latin-1")
        self.attempts[path] += 1
        return fault(
            self.options, self.catalogue.seed, path, self.generation.visit, self.attempts[path]
        )

    def delay_s(self) -> float:
        mean_ms = self.options.latency_ms
        return mean_ms * self.jitter.uniform(0.5, 1.5) / 1000 if mean_ms else 0.0

    def control(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> object:
        """What `/_control/*` and `/_visit` answer. ValueError for what makes no sense, KeyError for
        no such path."""
        match method, path:
            case "POST", "/_visit":
                self.visit_at(self.generation.visit + 1)
                self.warm()
                return {"visit": self.generation.visit}
            case _, "/_control/visit":
                if "n" in query:
                    self.visit_at(int(query["n"][0]))
                    self.warm()
                return {"visit": self.generation.visit}
            case "POST", "/_control/options":
                self.options = Options.model_validate(
                    {**self.options.model_dump(), **json.loads(body)}
                )
                return self.options.model_dump()
            case "GET", "/_control/options":
                return self.options.model_dump()
            case "GET", "/_control/truth":
                visit = int(query.get("visit", [str(self.generation.visit)])[0])
                return self.catalogue.truth(visit, self.base_url)
            case "GET", "/_control/log" if "counts" in query:
                return Counter(target.decode("latin-1") for _, target, _ in self.log)
            case "GET", "/_control/log":
                return [(at, target.decode("latin-1"), status) for at, target, status in self.log]
            case "DELETE", "/_control/log":
                self.log.clear()
                return []
        raise KeyError(path)


class Connection(asyncio.Protocol):
    """One client. Requests are answered one by one and in order, however many arrive at once (RFC
    9112, 9.3.2)."""

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
            self._serve()

    def _serve(self) -> None:
        while not self.waiting and not self.transport.is_closing():
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self.buffer) > HEAD_MAX_BYTES:
                    self._refuse(431)
                return None
            line, _, head = self.buffer[:end].partition(b"\r\n")
            words = line.split(b" ")
            if len(words) != 3:
                return self._refuse(400)
            fields = head.lower()
            length = int(_field(fields, b"content-length") or 0) if words[0] == b"POST" else 0
            if len(self.buffer) < end + 4 + length:
                if length > HEAD_MAX_BYTES:
                    self._refuse(413)
                return None
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            self._request(words[0], words[1], fields, body)

    def _request(self, method: bytes, target: bytes, fields: bytes, body: bytes) -> None:
        closing = b"connection: close" in fields
        if target.startswith(b"/_"):
            return self._send(
                self._control(method.decode(), target.decode("latin-1"), body).whole, closing
            )
        if method not in (b"GET", b"HEAD"):
            return self._send(answer(405, b"", Allow="GET, HEAD").whole, closing)
        match self.shop.fault(target):
            case None:
                packed = self.shop.options.gzip and b"gzip" in (
                    _field(fields, b"accept-encoding") or b""
                )
                page = self.shop.packed(target) if packed else self.shop.page(target)
                if (
                    page.etag
                    and b"if-none-match" in fields
                    and page.etag in (_field(fields, b"if-none-match") or b"")
                ):
                    page = Answer(
                        304, b"HTTP/1.1 304 Not Modified\r\nETag: " + page.etag + b"\r\n\r\n", b""
                    )
                data = page.head if method == b"HEAD" else page.head + page.body
            case Fault.INTERNAL | Fault.UNAVAILABLE as failure:
                page = answer(int(failure), b"<h1>Something went wrong</h1>")
                data = page.whole
            case Fault.RESET:
                self._log(target, 0)
                return self.transport.abort()
            case Fault.HANG:
                self._log(target, 0)
                # It waits until the client gives up.
                self.waiting = True
                return None
        self._log(target, page.status)
        delay_s = self.shop.delay_s()
        if delay_s:
            self.waiting = True
            asyncio.get_running_loop().call_later(delay_s, self._send_late, data, closing)
        else:
            self._send(data, closing)
        return None

    def _log(self, target: bytes, status: int) -> None:
        self.shop.log.append((time.time(), target, status))

    def _send(self, data: bytes, closing: bool) -> None:
        self.transport.write(data)
        if closing:
            self.transport.close()

    def _send_late(self, data: bytes, closing: bool) -> None:
        self.waiting = False
        if not self.transport.is_closing():
            self._send(data, closing)
            self._serve()

    def _refuse(self, status: int) -> None:
        self._send(answer(status, b"").whole, closing=True)

    def _control(self, method: str, target: str, body: bytes) -> Answer:
        peer = self.transport.get_extra_info("peername")[0]
        if not (peer.startswith("127.") or peer == "::1"):
            return answer(403, b"loopback only\n", "text/plain")
        path, _, query = target.partition("?")
        try:
            result = self.shop.control(method, path, parse_qs(query, keep_blank_values=True), body)
        except KeyError:
            return answer(404, b"no such control\n", "text/plain")
        except (ValueError, ValidationError) as error:
            return answer(400, str(error).encode(), "text/plain; charset=utf-8")
        return answer(200, json.dumps(result).encode(), "application/json")


def _field(fields: bytes, name: bytes) -> bytes | None:
    """A header's value from the lower-cased header block."""
    for line in fields.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key == name:
            return value.strip()
    return None


async def serve(shop: Shop, port: int, host: str = "127.0.0.1") -> asyncio.Server:
    """Listens; port 0 takes a free one. The shop's links name the address that came of it."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(shop), host, port, backlog=1024
    )
    shop.base_url = shop.base_url or f"http://{host}:{server.sockets[0].getsockname()[1]}"
    shop.warm()
    return server
