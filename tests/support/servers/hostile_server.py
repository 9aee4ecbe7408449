"""A web server that does everything wrong, on 127.0.0.1: each path is one misdeed.

`async with HostileServer() as server` gives `server.url("/path")`; `server.requests` holds what was
asked, as (path, headers with lower-case names). Requests are read by hand and answers written as
raw bytes: no HTTP library would send most of these.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlsplit

Handler = Callable[["Exchange"], Awaitable[None]]
BIG = 64 * 1024 * 1024
LARGE_BYTES = 450_000


def answer(
    body: bytes = b"ok", status: str = "200 OK", *headers: str, length: int | None = None
) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        *headers,
        f"Content-Length: {len(body) if length is None else length}",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def redirect(location: bytes, *headers: str, status: str = "302 Found") -> bytes:
    head = "".join(f"{header}\r\n" for header in headers).encode("latin-1")
    return (
        b"HTTP/1.1 "
        + status.encode()
        + b"\r\nLocation: "
        + location
        + b"\r\n"
        + head
        + b"Content-Length: 0\r\n\r\n"
    )


class Exchange:
    """One request, and the raw stream to misbehave on."""

    def __init__(
        self,
        server: HostileServer,
        target: str,
        headers: dict[str, str],
        writer: asyncio.StreamWriter,
    ) -> None:
        self.server = server
        self.target = target
        self.headers = headers
        self.writer = writer
        self.query = dict(parse_qsl(urlsplit(target).query))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        # Over TLS `drain` does not let the loop say that the connection is lost.
        await asyncio.sleep(0)


RAW: dict[str, bytes] = {
    "/ok": answer(b"<h1>fine</h1>", "200 OK", "Content-Type: text/html", 'ETag: "v1"'),
    "/large": answer(bytes(LARGE_BYTES)),
    "/404": answer(b"nothing here", "404 Not Found"),
    "/500": answer(b"oops", "500 Internal Server Error"),
    "/429": answer(b"slow down", "429 Too Many Requests", "Retry-After: 7"),
    "/999": answer(b"denied", "999 Request Denied"),
    "/204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "/300": answer(b"choices", "300 Multiple Choices", "Location: /ok"),
    "/302-no-location": answer(b"where to?", "302 Found"),
    "/latin": b"HTTP/1.1 200 OK\r\nX-Name: caf\xe9\r\nVia: a\r\nVia: b\r\nSet-Cookie: s=1\r\nContent-Length: 2\r\n\r\nok",
    "/charset": answer(
        "zażółć".encode("cp1250"), "200 OK", "Content-Type: text/html; charset=utf-8"
    ),
    "/nul": answer(b"a\0b\0\xff\xfe", "200 OK", "Content-Type: text/html"),
    "/until-close": b"HTTP/1.1 200 OK\r\n\r\nall until the end",
    "/early-hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    + answer(b"after"),
    "/101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nabc",
    "/disconnect": b"",
    "/half-header": b"HTTP/1.1 200 OK\r\nCont",
    "/too-short": answer(b"hello", length=50),
    "/too-long": answer(b"hello and more", length=5),
    "/truncated-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "/single-bytes": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"1\r\nz\r\n" * 100_000
    + b"0\r\n\r\n",
    "/bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\nx\r\n0\r\n\r\n",
    "/chunked-and-length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "/two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "/negative-length": answer(b"hello", length=-5),
    "/garbage": b"SSH-2.0-OpenSSH_9.2\r\n\0\0\xff",
    "/http09": b"<html>hello</html>",
    "/nul-header": b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 2\r\n\r\nok",
    "/giant-header": b"HTTP/1.1 200 OK\r\nX-A: "
    + b"a" * 200_000
    + b"\r\nContent-Length: 2\r\n\r\nok",
    "/many-headers": b"HTTP/1.1 200 OK\r\n"
    + b"X-A: a\r\n" * 5_000
    + b"Content-Length: 2\r\n\r\nok",
    "/gzip": answer(gzip.compress(b"packed " * 1000), "200 OK", "Content-Encoding: gzip"),
    "/deflate": answer(zlib.compress(b"packed " * 1000), "200 OK", "Content-Encoding: deflate"),
    "/gzip-truncated": answer(
        gzip.compress(b"packed " * 1000)[:-12], "200 OK", "Content-Encoding: gzip"
    ),
    "/gzip-not": answer(b"<html>plain</html>", "200 OK", "Content-Encoding: gzip"),
    "/gzip-empty": answer(b"", "200 OK", "Content-Encoding: gzip"),
    "/brotli": answer(b"\x0b\x02\x80", "200 OK", "Content-Encoding: br"),
    "/robots.txt": answer(b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n"),
}


async def hang(exchange: Exchange) -> None:
    await exchange.server.stopped.wait()


async def hang_in_body(exchange: Exchange) -> None:
    await exchange.send(answer(b"start", length=5000))
    await exchange.server.stopped.wait()


async def drip(exchange: Exchange) -> None:
    await exchange.send(answer(b"", length=100_000))
    while not exchange.server.stopped.is_set():
        await exchange.send(b"x")
        await asyncio.sleep(0.02)


async def drip_header(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not exchange.server.stopped.is_set():
        await exchange.send(b"x")
        await asyncio.sleep(0.02)


async def endless(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not exchange.server.stopped.is_set():
        await exchange.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


async def endless_hints(exchange: Exchange) -> None:
    while not exchange.server.stopped.is_set():
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 50)


async def endless_extension(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=")
    while not exchange.server.stopped.is_set():
        await exchange.send(b"x" * 0x4000)


async def endless_extensions(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not exchange.server.stopped.is_set():
        await exchange.send(b"1;a=" + b"x" * 16_000 + b"\r\nz\r\n")


async def endless_trailers(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n")
    while not exchange.server.stopped.is_set():
        await exchange.send(b"X-A: a\r\n" * 50)


async def reset_in_body(exchange: Exchange) -> None:
    await exchange.send(answer(b"start", length=5000))
    await asyncio.sleep(0.05)
    exchange.writer.transport.abort()


async def late_bad_chunk(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await asyncio.sleep(0.05)
    await exchange.send(b"nonsense\r\n")
    await exchange.server.stopped.wait()


@cache
def make_bomb() -> bytes:
    """Takes a while: not for those who only import this module. Tests measure the memory of this
    process, so the zeros are never there as a whole."""
    packer, zeros = zlib.compressobj(9, wbits=31), bytes(1_000_000)
    return b"".join(packer.compress(zeros) for _ in range(BIG // len(zeros))) + packer.flush()


async def bomb(exchange: Exchange) -> None:
    await exchange.send(answer(make_bomb(), "200 OK", "Content-Encoding: gzip"))


async def to(exchange: Exchange) -> None:
    """/to?u=… redirects to the decoded value, byte for byte."""
    raw = exchange.target.partition("?u=")[2]
    location = bytearray()
    at = 0
    while at < len(raw):
        if raw[at] == "%":
            location.append(int(raw[at + 1 : at + 3], 16))
            at += 3
        else:
            location.append(ord(raw[at]))
            at += 1
    await exchange.send(redirect(bytes(location)))


async def count_down(exchange: Exchange) -> None:
    left = int(exchange.query.get("n", "0"))
    await exchange.send(redirect(f"/count?n={left - 1}".encode()) if left else answer(b"arrived"))


async def cookie_gate(exchange: Exchange) -> None:
    """Sets a cookie and redirects to the same URL, as shops' consent and anti-bot walls do."""
    if "gate=open" in exchange.headers.get("cookie", ""):
        await exchange.send(answer(b"inside"))
    else:
        await exchange.send(redirect(b"/cookie-gate", "Set-Cookie: gate=open; Path=/; HttpOnly"))


async def slow_redirect_body(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 1000\r\n\r\n")
    await exchange.server.stopped.wait()


async def conditional(exchange: Exchange) -> None:
    if exchange.headers.get("if-none-match") == '"v1"':
        await exchange.send(b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n')
    else:
        await exchange.send(answer(b"fresh", "200 OK", 'ETag: "v1"'))


async def once_then_close(exchange: Exchange) -> None:
    """Answers as if the connection stayed open, and closes it when the next request comes: a stale
    keep-alive."""
    await exchange.send(answer(b"first"))
    exchange.server.close_next.add(exchange.writer)


HANDLERS: dict[str, Handler] = {
    "/hang": hang,
    "/hang-in-body": hang_in_body,
    "/drip": drip,
    "/drip-header": drip_header,
    "/endless": endless,
    "/endless-hints": endless_hints,
    "/endless-extension": endless_extension,
    "/endless-extensions": endless_extensions,
    "/endless-trailers": endless_trailers,
    "/reset-in-body": reset_in_body,
    "/late-bad-chunk": late_bad_chunk,
    "/bomb": bomb,
    "/to": to,
    "/count": count_down,
    "/cookie-gate": cookie_gate,
    "/slow-redirect-body": slow_redirect_body,
    "/conditional": conditional,
    "/once-then-close": once_then_close,
}
CLOSES = frozenset(
    {
        "/until-close",
        "/disconnect",
        "/half-header",
        "/too-short",
        "/truncated-chunk",
        "/garbage",
        "/http09",
        "/101",
    }
)


class HostileServer:
    """Listens on a free port of 127.0.0.1 (or `host`), with TLS where a context is given."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.close_next: set[asyncio.StreamWriter] = set()
        self.extra: dict[str, bytes] = {}

    async def __aenter__(self) -> Self:
        self.stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls, limit=1 << 20
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stopped.set()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        with suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError
        ):
            while await self._exchange(reader, writer):
                pass
        with suppress(Exception):
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first_byte = await reader.readexactly(1)
        # a TLS hello on a plain port
        if first_byte == b"\x16":
            writer.write(answer(b"plain HTTP request expected", "400 Bad Request"))
            return False
        head = (first_byte + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if writer in self.close_next:
            return False
        first, *lines = head.strip().split("\r\n")
        target = first.split(" ")[1]
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self.requests.append((target, headers))
        path = urlsplit(target).path
        raw = self.extra.get(path, RAW.get(path))
        if raw is not None:
            writer.write(raw)
            await writer.drain()
        elif path in HANDLERS:
            await HANDLERS[path](Exchange(self, target, headers, writer))
        else:
            writer.write(answer(target.encode(), "200 OK", "X-Echo: 1"))
            await writer.drain()
        return path not in CLOSES


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server context for 127.0.0.1 with an untrusted certificate; `folder` keeps cert.pem and
    key.pem."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            str(key),
            "-out",
            str(cert),
        ]
        + [
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:shop.example",
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context
