"""Forward proxies and a shop that sees who asks: real sockets on loopback, each proxy with a source
address of its own.

A request through proxy number N reaches the shop from 127.0.0.(N + 10), a direct one from
127.0.0.1. `hits` is the shop's log. A proxy speaks HTTP (absolute URLs and CONNECT), the same
within TLS, or SOCKS5, with a login or without; its `mode` may be changed while it runs.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.servers.threaded import Threaded
from tests.support.shops.odd_shop import listing, product, redirect

DIRECT = "127.0.0.1"
CHALLENGE = (
    b"<html><head><title>Just a moment...</title></head><body><div id='challenge-error-text'>Enable JavaScript and cookies"
    b"</div><script>window._cf_chl_opt={cvId:'3'};</script><script src='/cdn-cgi/challenge-platform/h/b/x'></script></body>"
)
# in every test proxy's password: nowhere to be found afterwards
SECRET = "s3cr3t-pa55"


@dataclass(frozen=True)
class Hit:
    """One request as the shop saw it."""

    at: float
    peer: str
    target: str
    headers: dict[str, str]
    method: str = "GET"
    body: bytes = b""


@dataclass
class TestProxy:
    """`mode`: good, slow (a second more), hang (never answers), 502 and 403 (its answer to
    everything), closed, cut (passes a request on, and breaks off before the answer), liar (answers
    everything itself, with one page), puzzle (with an unknown captcha, each another), twin
    (every product with one product's page)."""

    __test__ = False

    number: int
    scheme: str = "http"
    mode: str = "good"
    user: str | None = "user"
    port: int = 0
    tls: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list)
    connections: int = 0
    # A puzzle comes once in this number of its requests.
    lies: int = 1

    @property
    def address(self) -> str:
        return f"127.0.0.{self.number + 10}"

    @property
    def password(self) -> str:
        return f"{SECRET}-{self.number}"

    @property
    def url(self) -> str:
        login = f"{self.user}{self.number}:{self.password}@" if self.user else ""
        return f"{self.scheme}://{login}127.0.0.1:{self.port}"


class Field(Threaded):
    """The shop and its proxies, served from a thread of their own."""

    def __init__(
        self, *proxies: TestProxy, products: int = 20, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__()
        self.proxies = list(proxies)
        self.hits: list[Hit] = []
        self.banned: set[str] = set()
        self.throttled: set[str] = set()
        # they get a challenge page, 200
        self.challenged: set[str] = set()
        self.forbidden: set[str] = set()  # Pages that no proxy gets.
        # Pages that are challenges for this many times.
        self.stubborn: dict[str, int] = {}
        # they get product pages without a title, 200
        self.starved: set[str] = set()
        # The proxy that asks first for a product page becomes the starved one: how often a proxy of a
        # certain address is drawn depends on how fast it was.
        self.starves_first = False
        self.robots = b"User-agent: *\nDisallow: /private\n"
        self.products = products
        self._tls = tls

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def lines(
        self, options: str = "class=datacenter", proxies: list[TestProxy] | None = None
    ) -> str:
        return "".join(
            f"{proxy.url} {options}\n" for proxy in (self.proxies if proxies is None else proxies)
        )

    def peers(self, match: str = "") -> Counter[str]:
        return Counter(hit.peer for hit in self.hits if match in hit.target)

    def definition(self, proxy: str, more: str = "") -> str:
        return (
            f"start: {self.url}/\nallow_private: true\nrate: unlimited\nconcurrency: 8\nrevisit: 0\nproxy: {proxy}\n{more}"
            "sitemap: {url: %s/sitemap.xml, listings: '/list', products: '/p/'}\n"
            "listing: {products: a.p}\n"
            "product:\n  id: {css: 'body::attr(data-id)'}\n"
            "  fields: {title: {css: h1, required: true}, price: {css: .price, type: price}}\n"
            % self.url
        )

    def _answer(self, target: str, peer: str, headers: dict[str, str]) -> bytes:
        if peer in self.banned:
            return _raw(b"<h1>Access denied</h1>", "403 Forbidden")
        if peer in self.challenged and "robots.txt" not in target:
            return _raw(CHALLENGE, "200 OK", "Content-Type: text/html")
        if peer in self.throttled:
            return _raw(b"slow down", "429 Too Many Requests", "Retry-After: 1")
        known = "visitor=" in headers.get("cookie", "")
        cookies = [] if known else [f"Set-Cookie: visitor={peer}; Path=/; Max-Age=600"]
        path = urlsplit(target).path
        if path in self.forbidden:
            return _raw(b"<h1>not for anybody</h1>", "403 Forbidden")
        if self.stubborn.get(path, 0) > 0:
            self.stubborn[path] -= 1
            return _raw(CHALLENGE, "503 Service Unavailable", "Content-Type: text/html")
        if path == "/robots.txt":
            return _raw(self.robots)
        if path == "/sitemap.xml":
            urls = "".join(
                f"<url><loc>{self.url}/p/{n}</loc></url>" for n in range(self.products // 2)
            )
            return _raw(
                f"<urlset>{urls}</urlset>".encode(), "200 OK", "Content-Type: application/xml"
            )
        if path == "/":
            return _raw(
                listing([f"/p/{n}" for n in range(self.products)]),
                "200 OK",
                "Content-Type: text/html",
                *cookies,
            )
        if path == "/moved":
            return redirect("/p/1").raw()
        if path == "/forbidden":
            return _raw(b"<h1>not for anybody</h1>", "403 Forbidden")
        if path.startswith("/p/"):
            if path.endswith("7") and "moved" not in target:
                return redirect(f"{path}?moved=1").raw()
            number = path.removeprefix("/p/")
            body = product(number, f"Product {path}", f"{number}.99 €").encode()
            if self.starves_first and not self.starved:
                self.starved = {peer}
            if peer in self.starved:
                body = b"<h2>Sorry, something is missing here</h2>"
            return _raw(body, "200 OK", "Content-Type: text/html", *cookies)
        return _raw(b"no", "404 Not Found")

    # The rest is sockets.

    async def _listen(self) -> list[asyncio.Server]:
        shop = await asyncio.start_server(self._tracked(self._shop), "127.0.0.1", 0, ssl=self._tls)
        self.port = shop.sockets[0].getsockname()[1]
        servers = [shop]
        for proxy in self.proxies:
            serve = self._tracked(lambda r, w, p=proxy: self._proxy(p, r, w))
            server = await asyncio.start_server(
                serve, "127.0.0.1", 0, ssl=proxy.tls if proxy.scheme == "https" else None
            )
            proxy.port = server.sockets[0].getsockname()[1]
            if proxy.mode == "closed":
                server.close()
            servers.append(server)
        return servers

    async def _shop(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str(writer.get_extra_info("peername")[0])
        while True:
            method, target, headers = _head(await reader.readuntil(b"\r\n\r\n"))
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.hits.append(Hit(time.monotonic(), peer, target, headers, method, body))
            writer.write(_raw(body) if method == "POST" else self._answer(target, peer, headers))
            await writer.drain()

    async def _proxy(
        self, proxy: TestProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        proxy.connections += 1
        if proxy.mode == "hang":
            await self._stopped.wait()
        if proxy.scheme.startswith("socks"):
            await self._socks(proxy, reader, writer)
            return
        while True:
            raw = await reader.readuntil(b"\r\n\r\n")
            method, target, headers = _head(raw)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            proxy.asked.append(f"{method} {target}")
            token = base64.b64encode(
                f"{proxy.user}{proxy.number}:{proxy.password}".encode()
            ).decode()
            if proxy.user and headers.get("proxy-authorization") != f"Basic {token}":
                writer.write(_raw(b"who are you?", "407 Proxy Authentication Required"))
            elif proxy.mode in ("502", "403"):
                writer.write(_raw(b"the proxy says no", f"{proxy.mode} Whatever"))
            elif (proxy.mode in ("liar", "puzzle") and len(proxy.asked) % proxy.lies == 0) or (
                proxy.mode == "twin" and "/p/" in target
            ):
                writer.write(_raw(_lie(proxy), "200 OK", "Content-Type: text/html"))
            elif method == "CONNECT":
                host, _, port = target.rpartition(":")
                there = await asyncio.open_connection(
                    host, int(port), local_addr=(proxy.address, 0)
                )
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _pipe(proxy, (reader, writer), there)
                return
            else:
                await self._forward(proxy, raw, body, target, writer)
                if proxy.mode == "cut":
                    return

    async def _forward(
        self, proxy: TestProxy, raw: bytes, body: bytes, url: str, writer: asyncio.StreamWriter
    ) -> None:
        if proxy.mode == "slow":
            await asyncio.sleep(1.0)
        parts = urlsplit(url)
        there, back = await asyncio.open_connection(
            parts.hostname, parts.port, local_addr=(proxy.address, 0)
        )
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [line for line in raw.split(b"\r\n")[1:] if not line.lower().startswith(b"proxy-")]
        back.write(
            raw.split(b" ", 1)[0] + f" {target} HTTP/1.1\r\n".encode() + b"\r\n".join(lines) + body
        )
        head = await there.readuntil(b"\r\n\r\n")
        if proxy.mode == "cut":
            back.close()
            return
        length = int(_lines(head)["content-length"])
        writer.write(head + await there.readexactly(length))
        back.close()
        await writer.drain()

    async def _socks(
        self, proxy: TestProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if proxy.user:
            if 2 not in methods:
                writer.write(b"\x05\xff")
                return
            writer.write(b"\x05\x02")
            name = await reader.readexactly((await reader.readexactly(2))[1])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            good = (name.decode(), password.decode()) == (
                f"{proxy.user}{proxy.number}",
                proxy.password,
            )
            writer.write(b"\x01\x00" if good else b"\x01\x01")
            if not good:
                return
        else:
            writer.write(b"\x05\x00")
        kind = (await reader.readexactly(4))[3]
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        raw = await reader.readexactly(size)
        host = raw.decode() if kind == 3 else ".".join(map(str, raw))
        port = int.from_bytes(await reader.readexactly(2), "big")
        proxy.asked.append(f"SOCKS {kind} {host}:{port}")
        reply = {"502": 4, "403": 2}.get(proxy.mode, 0)
        writer.write(bytes((5, reply, 0, 1, 0, 0, 0, 0, 0, 0)))
        if reply == 0:
            there = await asyncio.open_connection("127.0.0.1", port, local_addr=(proxy.address, 0))
            await _pipe(proxy, (reader, writer), there)


async def _pipe(
    proxy: TestProxy,
    here: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                if proxy.mode == "cut" and source is there[0]:
                    break
                if proxy.mode == "slow":
                    await asyncio.sleep(0.5)
                sink.write(data)
                await sink.drain()
        with suppress(Exception):
            sink.close()

    try:
        await asyncio.gather(copy(here[0], there[1]), copy(there[0], here[1]))
    finally:
        there[1].transport.abort()
        here[1].transport.abort()


def _lines(head: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.lower(): value.strip() for name, _, value in pairs if name}


def _lie(proxy: TestProxy) -> bytes:
    if proxy.mode == "twin":
        return product("0", "Product /p/0").encode()
    if proxy.mode == "puzzle":
        return (
            f"<h1>Which of these is a bicycle? {len(proxy.asked)}</h1><a href='/'>Home</a>".encode()
        )
    return b"<html><body><h1>Welcome</h1><p>Log in to your network.</p></body></html>"


def _head(raw: bytes) -> tuple[str, str, dict[str, str]]:
    method, target, _ = raw.decode("latin-1").split(" ", 2)
    return method, target, _lines(raw)


def _raw(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    return (
        "\r\n".join(
            [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
        ).encode()
        + body
    )
