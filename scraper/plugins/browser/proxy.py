"""The proxy on loopback that applies the guard to Chromium. It runs on the worker's event loop.

Chromium resolves no names and connects only to this proxy. The proxy resolves a name and checks its
addresses once, for the connection that it then opens (`scraper.http.transport.resolver`), so that a
name cannot be rebound. If the page has a proxy, it connects only through that
(`scraper.http.transport.tunnel`). WebSockets take the same way, as CONNECT.

A `ProxyUser` is a user name and a one-time password that one browser context has. Other programs
on the machine get a 407. After `release`, a user is no longer served, and its connections are
closed. Bytes are counted as they arrive. Within TLS the proxy sees only the host and port. It
reuses no connections: each plain http request has its own.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver

from scraper.domain import ProxySignal
from scraper.http.transport import guard
from scraper.http.transport.aiohttp_transport import tls_context
from scraper.http.transport.guard import ForbiddenAddressError, Networks, PrivateAccess
from scraper.http.transport.resolver import AddressCache
from scraper.http.transport.tunnel import (
    Dial,
    ProxyHopError,
    open_tunnel,
    proxy_authorization,
    proxy_timeout_error,
)
from scraper.rules.proxies import Proxy

HEAD_S = 10.0
# A connection may send this many heads before one of them has a password.
HEADS_MAX = 4
# The limit for the connections of a user.
CONNECTIONS_MAX = 100
CHUNK_BYTES = 65_536
_CLOSE = b"Connection: close"
_HOP_BY_HOP = (b"proxy-authorization:", b"proxy-connection:", b"connection:", b"keep-alive:")

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class PageGrant:
    """The limits of a page. `count` is called with the number of bytes that arrive, `failed` with a
    host and the error of its connection."""

    private: PrivateAccess
    proxy: Proxy | None
    connect_timeout_s: float
    count: Callable[[int], None]
    failed: Callable[[str, Exception], None]


@dataclass(slots=True)
class ProxyUser:
    """The user of a browser context, which is served while it has a `grant`."""

    user: str
    password: str
    grant: PageGrant | None = None
    connections: set[asyncio.Task[None]] = field(default_factory=set)

    def release(self) -> None:
        self.grant = None
        for task in list(self.connections):
            task.cancel()


class BrowserProxy:
    """The proxy of a process, on its event loop. `resolver` replaces the system's; the guard checks
    its answers too."""

    def __init__(
        self, *, resolver: AbstractResolver | None = None, dns_ttl_s: float = 30.0
    ) -> None:
        self._resolver = resolver or aiohttp.ThreadedResolver()
        self._dns_ttl_s = dns_ttl_s
        self._addresses: dict[Networks, AddressCache] = {}
        self._users: dict[str, ProxyUser] = {}
        self._server: asyncio.Server | None = None
        self._tls: ssl.SSLContext | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Starts the proxy. Returns its address: `http://127.0.0.1:PORT`."""
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept_connection, "127.0.0.1", 0, limit=CHUNK_BYTES
            )
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    def admit(self) -> ProxyUser:
        proxy_user = ProxyUser(secrets.token_hex(8), secrets.token_urlsafe(24))
        self._users[proxy_user.user] = proxy_user
        return proxy_user

    def dismiss(self, proxy_user: ProxyUser) -> None:
        proxy_user.release()
        self._users.pop(proxy_user.user, None)

    async def aclose(self) -> None:
        for proxy_user in list(self._users.values()):
            self.dismiss(proxy_user)
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.ensure_future(self._serve_connection(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        proxy_user = None
        try:
            async with asyncio.timeout(HEAD_S):
                head = await self._read_head(reader, writer)
            if head is None:
                return
            proxy_user, lines = head
            if proxy_user.grant is None or len(proxy_user.connections) >= CONNECTIONS_MAX:
                return
            proxy_user.connections.add(task)
            await self._forward(proxy_user.grant, lines, (reader, writer))
        except (OSError, EOFError, asyncio.CancelledError, asyncio.LimitOverrunError, ValueError):
            # The page is hostile or has ended, which the operator cannot fix.
            return
        finally:
            if proxy_user is not None:
                proxy_user.connections.discard(task)
            writer.transport.abort()

    async def _read_head(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[ProxyUser, list[bytes]] | None:
        """Reads the first request that has a password; Chromium sends its first one without."""
        for _ in range(HEADS_MAX):
            lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            proxy_user = self._find_user(lines)
            if proxy_user is not None:
                return proxy_user, lines
            writer.write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                b'Proxy-Authenticate: Basic realm="scraper"\r\nContent-Length: 0\r\n\r\n'
            )
            await writer.drain()
            if not lines[0].startswith((b"CONNECT ", b"GET ", b"HEAD ")):
                # A body may follow, and would be read as a head.
                return None
        return None

    def _find_user(self, lines: list[bytes]) -> ProxyUser | None:
        value = next(
            (line for line in lines[1:] if line.lower().startswith(b"proxy-authorization:")), b""
        )
        kind, _, encoded = value.partition(b":")[2].strip().partition(b" ")
        if kind.lower() != b"basic":
            return None
        with suppress(ValueError):
            user, _, password = base64.b64decode(encoded).decode("latin-1").partition(":")
            proxy_user = self._users.get(user)
            if proxy_user is not None and hmac.compare_digest(
                proxy_user.password.encode(), password.encode()
            ):
                return proxy_user
        return None

    async def _forward(self, grant: PageGrant, lines: list[bytes], client: Stream) -> None:
        method, target, _ = lines[0].split(b" ", 2)
        tunnel = method == b"CONNECT"
        parts = urlsplit(("//" if tunnel else "") + target.decode("ascii"))
        host, port = parts.hostname, parts.port or (443 if tunnel else 80)
        if not host or (not tunnel and parts.scheme != "http"):
            return
        try:
            upstream = await self._connect_upstream(grant, host, port, tunnel=tunnel)
        except Exception as error:  # noqa: BLE001 - the page judges the error
            grant.failed(host, error)
            if tunnel:
                client[1].write(
                    b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                await client[1].drain()
            # A plain request gets no answer, since Chromium would take it for the host's.
            return
        try:
            if tunnel:
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _relay_until_end(
                    _copy_stream(client[0], upstream[1]), _copy_answer(grant, upstream, client)
                )
            else:
                await self._forward_request(grant, host, lines, client, upstream)
        finally:
            upstream[1].transport.abort()

    @staticmethod
    async def _forward_request(
        grant: PageGrant, host: str, lines: list[bytes], client: Stream, upstream: Stream
    ) -> None:
        """Forwards one request and its answer, and nothing that follows on either connection."""
        method, target, version = lines[0].split(b" ", 2)
        # Within a tunnel, the request goes to the host itself.
        own = grant.proxy is None or grant.proxy.tunnels
        if own:
            target = b"/" + target.split(b"/", 3)[3] if target.count(b"/") > 2 else b"/"
        fields = {
            line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in lines[1:]
        }
        if b"transfer-encoding" in fields:
            # Browsers send no such coding over HTTP/1.1.
            return
        kept = _end_to_end(lines[1:])
        if not own and grant.proxy is not None and (value := proxy_authorization(grant.proxy)):
            kept.append(b"Proxy-Authorization: " + value.encode("ascii"))
        upstream[1].write(
            b"\r\n".join((b" ".join((method, target, version)), *kept, _CLOSE, b"", b""))
        )

        size = fields.get(b"content-length", b"0")
        answer = _forward_answer(grant, host, client, upstream, own=own)
        await _relay_until_end(_copy_stream(client[0], upstream[1], int(size)), answer)

    async def _connect_upstream(
        self, grant: PageGrant, host: str, port: int, *, tunnel: bool
    ) -> Stream:
        dial = None if grant.proxy is None else Dial(grant.proxy)
        try:
            async with asyncio.timeout(grant.connect_timeout_s):
                private = grant.private.networks_for(host, port)
                cache = self._addresses.get(private)
                if cache is None:
                    cache = AddressCache(self._resolver, private, ttl_s=self._dns_ttl_s)
                    self._addresses[private] = cache
                addresses = await cache.addresses(host)
                if dial is None:
                    return await self._connect_directly(addresses, port, private)
                dial.address = addresses[0]
                return await self._connect_through_proxy(dial, host, port, tunnel=tunnel)
        except ProxyHopError as error:
            assert grant.proxy is not None
            raise ProxyHopError(error.signal, f"proxy {grant.proxy.id}: {error}") from None
        except TimeoutError as error:
            raise (proxy_timeout_error(dial) if dial is not None else None) or httpx.ConnectTimeout(
                "no connection in time"
            ) from error
        except ForbiddenAddressError:
            raise
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error

    @staticmethod
    async def _connect_directly(addresses: list[str], port: int, private: Networks) -> Stream:
        """Connects to the first address that answers, after checking it with the guard."""
        error: OSError | None = None
        for address in addresses:
            if (reason := guard.forbidden_reason(address, private)) is not None:
                raise ForbiddenAddressError(address, reason)
            try:
                return await asyncio.open_connection(address, port)
            except OSError as failed:
                error = failed
        raise error or OSError("the name has no address")

    async def _connect_through_proxy(
        self, dial: Dial, host: str, port: int, *, tunnel: bool
    ) -> Stream:
        self._tls = self._tls or tls_context()
        transport = await open_tunnel(dial, host, port, proxy_tls=self._tls, tunnel=tunnel)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=CHUNK_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _forward_answer(
    grant: PageGrant, host: str, client: Stream, upstream: Stream, *, own: bool
) -> None:
    """Forwards an answer, or reports its failure. `own`: the host itself answers, not a proxy."""
    try:
        head = b"HTTP/1.1 100 "
        # A page ignores interim responses.
        while head[9:10] == b"1":
            head = await upstream[0].readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        broken = (
            httpx.RemoteProtocolError("no answer in HTTP")
            if error.partial
            else httpx.ReadError("no answer")
        )
        return grant.failed(host, broken)
    except asyncio.LimitOverrunError:
        return grant.failed(host, httpx.RemoteProtocolError("its head does not end"))
    first, *rest = head.split(b"\r\n")
    # Only a proxy sends a 407 (RFC 9110 15.5.8).
    if not own and first[9:12] == b"407":
        assert grant.proxy is not None
        text = f"proxy {grant.proxy.id}: it does not accept the login (407)"
        return grant.failed(host, ProxyHopError(ProxySignal.UNUSABLE, text))
    grant.count(len(head))
    client[1].write(b"\r\n".join((first, *_end_to_end(rest), _CLOSE, b"", b"")))
    await _copy_answer(grant, upstream, client)


def _end_to_end(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line and not line.lower().startswith(_HOP_BY_HOP)]


async def _copy_stream(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, size: int | None = None
) -> None:
    """Copies at most `size` bytes; ends when the source ends or has sent more."""
    while data := await source.read(CHUNK_BYTES):
        if size is not None:
            data, size = data[:size], size - len(data)
        sink.write(data)
        await sink.drain()
        if size is not None and size < 0:
            return


async def _copy_answer(grant: PageGrant, upstream: Stream, client: Stream) -> None:
    while data := await upstream[0].read(CHUNK_BYTES):
        grant.count(len(data))
        client[1].write(data)
        await client[1].drain()
    # Closing first sends all data that was written.
    client[1].close()
    with suppress(OSError):
        await client[1].wait_closed()


async def _relay_until_end(*ways: Coroutine[Any, Any, None]) -> None:
    """Runs both directions until one of them ends."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
