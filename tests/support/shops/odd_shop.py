"""Shops as the web has them: every odd thing that a catalogue or its server may do, each at a path
of its own.

`OddShop` serves on 127.0.0.1 from a thread; `requests` holds (time, port, target). A path is
answered with what `serve` was given for it: bytes for a page, an `Answer`, or a function of the
number of the try. Requests are read by hand and answers written as raw bytes, since no HTTP library
would send most of them.
"""

from __future__ import annotations

import asyncio
import gzip
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from html import escape

from tests.support.servers.threaded import Threaded

Misdeed = Callable[[asyncio.StreamWriter], Awaitable[None]]
HTML = "text/html; charset=utf-8"
# At most this long a misdeed goes on.
LAST_S = 60.0


@dataclass(frozen=True)
class Answer:
    """One response. `kind` None sends no Content-Type at all."""

    body: bytes = b""
    status: int = 200
    kind: str | None = HTML
    headers: tuple[str, ...] = ()

    def raw(self) -> bytes:
        lines = [
            f"HTTP/1.1 {self.status} Whatever",
            *self.headers,
            f"Content-Length: {len(self.body)}",
        ]
        if self.kind is not None:
            lines.append(f"Content-Type: {self.kind}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


Page = bytes | Answer | Misdeed
Pages = Page | Callable[[int], Page]


def product(
    id_: str,
    title: str | None,
    price: str | None = "9.99 €",
    more: str = "",
    head: str = "",
    raw_title: bool = False,
) -> str:
    """A product page: h1, .price, data-id; `more` goes into the body."""
    shown = "" if title is None else f"<h1>{title if raw_title else escape(title)}</h1>"
    cost = "" if price is None else f'<p class="price">{escape(price)}</p>'
    return f'<!doctype html><html><head>{head}</head><body data-id="{escape(id_)}">{shown}{cost}{more}</body></html>'


def listing(hrefs: list[str], more: str = "", head: str = "") -> bytes:
    links = "\n".join(f'<li><a class="p" href="{escape(href)}">see</a></li>' for href in hrefs)
    return f"<html><head>{head}</head><body><ul>{links}</ul>{more}</body></html>".encode()


def redirect(to: str, status: int = 302) -> Answer:
    return Answer(status=status, headers=(f"Location: {to}",))


def at_first(bad: Page, good: Page, times: int = 1) -> Callable[[int], Page]:
    """`bad` the first times it is asked for, `good` after that."""
    return lambda tries: bad if tries <= times else good


async def hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(LAST_S)


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for _ in range(100_000):
        writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        await writer.drain()


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(int(LAST_S / 0.1)):
        writer.write(b"<")
        await writer.drain()
        await asyncio.sleep(0.1)


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def reset_in_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n<h1>half")
    await writer.drain()
    writer.transport.abort()


async def garbage(writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\0\0\xff")
    await writer.drain()
    writer.close()


@cache
def bomb(size: int) -> Answer:
    return Answer(gzip.compress(bytes(size), 9), headers=("Content-Encoding: gzip",))


class OddShop(Threaded):
    """Serves pages on as many ports as asked for; each port is a host of its own to a crawler."""

    def __init__(self, ports: int = 1) -> None:
        super().__init__()
        self.requests: list[tuple[float, int, str]] = []
        self.tries: Counter[tuple[int, str]] = Counter()
        self._pages: dict[tuple[int, str], Pages] = {}
        self._count = ports
        # What is answered where nothing is served.
        self.otherwise: Callable[[str], Page | None] = lambda target: None

    def url(self, target: str = "", port: int = 0) -> str:
        return f"http://127.0.0.1:{self.ports[port]}{target}"

    def serve(self, target: str, page: Pages, port: int = 0) -> str:
        """What is answered to that request target, query included. Returns its URL."""
        self._pages[port, target] = page
        return self.url(target, port)

    def forget(self, target: str, port: int = 0) -> None:
        """From now on the page does not exist."""
        self._pages.pop((port, target), None)

    def asked(self, port: int = 0) -> list[str]:
        return [target for _, at, target in self.requests if at == port]

    def times(self, port: int) -> list[float]:
        return [when for when, at, _ in self.requests if at == port]

    async def _listen(self) -> list[asyncio.Server]:
        servers = []
        for port in range(self._count):
            serve = self._tracked(lambda r, w, p=port: self._connection(r, w, p))
            servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        self.ports = [server.sockets[0].getsockname()[1] for server in servers]
        return servers

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        while not writer.transport.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            await self._answer(head.split(b" ", 2)[1].decode("latin-1"), writer, port)

    async def _answer(self, target: str, writer: asyncio.StreamWriter, port: int) -> None:
        self.requests.append((time.monotonic(), port, target))
        self.tries[port, target] += 1
        page = self._pages.get((port, target))
        page = self.otherwise(target) if page is None else page
        page = Answer(b"<h1>no such page</h1>", 404) if page is None else page
        if callable(page) and not asyncio.iscoroutinefunction(page):
            page = page(self.tries[port, target])  # type: ignore[assignment,arg-type,call-arg]
        if isinstance(page, bytes):
            page = Answer(page)
        if isinstance(page, Answer):
            writer.write(page.raw())
            await writer.drain()
        else:
            await page(writer)  # type: ignore[operator,arg-type,misc]
