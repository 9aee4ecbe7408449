"""The libcurl transport through proxies: libcurl is handed connections that are open already, and
knows of no proxy.

The way through a proxy is `scraper.http.transport.tunnel`'s, as for aiohttp: its words say who is
to blame, and no address or password of a proxy is ever in libcurl's hands. When libcurl wants a
socket it gets one end of a socket pair at once; the other end is joined to the tunnel as soon as
that stands. Connections are kept apart by the proxy's id, which libcurl takes for the name of the
machine to connect to. The guard holds as in `scraper.http.transport.proxied_transport`: the
target's name is looked up and judged here, before the proxy hears of it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any, cast

import httpx
from curl_cffi import Curl, CurlOpt

from scraper.http.transport.aiohttp_transport import port_of
from scraper.http.transport.guard import Networks
from scraper.http.transport.tunnel import Dial, ProxyHopError, open_tunnel, proxy_timeout_error
from scraper.plugins.impersonate import hooks
from scraper.plugins.impersonate.transport import CurlTransport, Exchange
from scraper.rules.proxies import Proxy


class CurlProxiedTransport(CurlTransport):
    """One pool of connections through any number of proxies; `request.extensions["proxy"]` says
    which.

    Raises what `CurlTransport` does, and `ProxyHopError` where it is the proxy that failed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.dials: set[asyncio.Task[None]] = set()

    async def _prepared(self, request: httpx.Request) -> tuple[Exchange, list[bytes]]:
        proxy: Proxy = request.extensions["proxy"]
        dial = Dial(proxy, await self._addresses.first_address(request.url.host))
        exchange = _ProxiedExchange(self, self._private, dial, request.url, self._tls)
        return exchange, [f"{exchange.label}:{port_of(request.url)}:127.0.0.1".encode("ascii")]

    def _blamed(self, exchange: Exchange, error: Exception) -> Exception:
        assert isinstance(exchange, _ProxiedExchange)
        dial, failed = exchange.dial, exchange.failed
        if isinstance(failed, ProxyHopError):
            return ProxyHopError(failed.signal, f"proxy {dial.proxy.id}: {failed}")
        if isinstance(error, httpx.ConnectTimeout) and exchange.dialled:
            return proxy_timeout_error(dial) or error
        return error

    async def aclose(self) -> None:
        await super().aclose()
        for task in list(self.dials):
            task.cancel()
        await asyncio.gather(*self.dials, return_exceptions=True)


class _ProxiedExchange(Exchange):
    connected = True

    def __init__(
        self,
        transport: CurlProxiedTransport,
        private: Networks,
        dial: Dial,
        url: httpx.URL,
        tls: ssl.SSLContext,
    ) -> None:
        super().__init__(transport, private)
        self._owner = transport
        self._url = url
        self._tls = tls
        self._way: Any = None
        self._dialling: asyncio.Task[None] | None = None
        self.dial = dial
        self.dialled = False
        self.failed: Exception | None = None
        self.label = f"{dial.proxy.id}.proxy.invalid"

    def start(
        self,
        curl: Curl,
        request: httpx.Request,
        pins: list[bytes],
        connect_s: float | None,
        read_s: float | None,
    ) -> None:
        self._way = hooks.set_list(curl, CurlOpt.CONNECT_TO, [f"::{self.label}:".encode("ascii")])
        super().start(curl, request, pins, connect_s, read_s)

    def drop(self) -> None:
        super().drop()
        if self._dialling is not None and self.dial.step != "host":
            self._dialling.cancel()
        way, self._way = self._way, None
        if way is not None:
            hooks.free_list(way)

    def opened(self, family: int, kind: int, proto: int, address: str) -> int:
        """One end of a pair for libcurl, whatever address it thinks it goes to."""
        self._fresh = self.dialled = True
        theirs, ours = socket.socketpair()
        ours.setblocking(False)
        task = self._dialling = self._loop.create_task(self._join(ours))
        self._owner.dials.add(task)
        task.add_done_callback(self._owner.dials.discard)
        return theirs.detach()

    async def _join(self, ours: socket.socket) -> None:
        """Lasts for as long as the connection does."""
        try:
            far = await open_tunnel(
                self.dial, self._url.host, port_of(self._url), proxy_tls=self._tls, tunnel=True
            )
        except asyncio.CancelledError:
            ours.close()
            raise
        except (ProxyHopError, OSError) as error:
            self.failed = error
            # For libcurl it is a failed handshake, and `failed` says better.
            ours.close()
            return
        far_end = _End()
        far.set_protocol(far_end)
        far_end.transport = far
        try:
            near, near_end = await self._loop.create_connection(_End, sock=ours)
        except BaseException:
            far.abort()
            ours.close()
            raise
        near_end.other, far_end.other = far_end, near_end
        near_end.transport = near
        far_end.joined()
        try:
            # All that came from there is on its way to libcurl.
            await far_end.over.wait()
        finally:
            far.abort()


class _End(asyncio.Protocol):
    """One end of a joint: what it gets goes out at the other, no faster than that takes it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        # It is set at both ends when one is lost.
        self.over = asyncio.Event()
        self._early: list[bytes] = []
        self._lost = False

    def joined(self) -> None:
        assert self.other is not None and self.other.transport is not None
        for data in self._early:
            self.other.transport.write(data)
        self._early.clear()
        if self._lost:
            self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._end()

    def _end(self) -> None:
        self.over.set()
        if self.other is not None and self.other.transport is not None:
            self.other.over.set()
            self.other.transport.close()

    def pause_writing(self) -> None:
        self._turn(reading=False)

    def resume_writing(self) -> None:
        self._turn(reading=True)

    def _turn(self, *, reading: bool) -> None:
        if self.other is None or self.other.transport is None:
            return
        with suppress(RuntimeError):  # it is closing
            if reading:
                self.other.transport.resume_reading()
            else:
                self.other.transport.pause_reading()
