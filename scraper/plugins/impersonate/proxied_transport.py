"""The libcurl transport through proxies: libcurl gets open connections, and does not know the
proxies.

`scraper.http.transport.tunnel` opens the connections, as for aiohttp: its errors say who is to
blame, and libcurl never sees a proxy's address or password. When libcurl asks for a socket it gets
one end of a socket pair at once; the other end is joined to the tunnel once that is open. The
proxy's id keeps connections apart: libcurl takes it for the name of the machine to connect to. The
guard holds as in `scraper.http.transport.proxied_transport`: the target's name is looked up and
judged here, before the proxy gets it."""

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
from scraper.plugins.impersonate.transfer import CurlTransfer
from scraper.plugins.impersonate.transport import CurlTransport
from scraper.rules.proxies import Proxy


class CurlProxiedTransport(CurlTransport):
    """One pool of connections through any number of proxies; `request.extensions["proxy"]` says
    which.

    Raises what `CurlTransport` does, and `ProxyHopError` if the proxy failed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.dials: set[asyncio.Task[None]] = set()

    async def _prepare_transfer(self, request: httpx.Request) -> tuple[CurlTransfer, list[bytes]]:
        proxy: Proxy = request.extensions["proxy"]
        host = request.url.raw_host.decode("ascii")
        dial = Dial(proxy, await self._addresses.first_address(host))
        transfer = _ProxiedTransfer(self, self._private, dial, request.url, self._tls)
        return transfer, [f"{transfer.label}:{port_of(request.url)}:127.0.0.1".encode("ascii")]

    def _attribute_error(self, transfer: CurlTransfer, error: Exception) -> Exception:
        assert isinstance(transfer, _ProxiedTransfer)
        dial, failed = transfer.dial, transfer.failed
        if isinstance(failed, ProxyHopError):
            return ProxyHopError(failed.signal, f"proxy {dial.proxy.id}: {failed}")
        if isinstance(error, httpx.ConnectTimeout) and transfer.dialled:
            return proxy_timeout_error(dial) or error
        return error

    async def aclose(self) -> None:
        await super().aclose()
        for task in list(self.dials):
            task.cancel()
        await asyncio.gather(*self.dials, return_exceptions=True)


class _ProxiedTransfer(CurlTransfer):
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
        self._dials = transport.dials
        self._url = url
        self._tls = tls
        self._connect_to: Any = None
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
        target = f"::{self.label}:".encode("ascii")
        self._connect_to = hooks.set_list(curl, CurlOpt.CONNECT_TO, [target])
        super().start(curl, request, pins, connect_s, read_s)

    def close(self) -> None:
        super().close()
        if self._dialling is not None and self.dial.step != "host":
            self._dialling.cancel()
        linked, self._connect_to = self._connect_to, None
        if linked is not None:
            hooks.free_list(linked)

    def open_socket(self, family: int, kind: int, proto: int, address: str) -> int:
        """Returns one end of a socket pair, whichever address libcurl asks for."""
        self._fresh = self.dialled = True
        curl_end, pair_end = socket.socketpair()
        pair_end.setblocking(False)
        task = self._dialling = self._loop.create_task(self._join_tunnel(pair_end))
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)
        return curl_end.detach()

    async def _join_tunnel(self, pair_end: socket.socket) -> None:
        """Opens the tunnel and forwards its bytes until the connection ends."""
        try:
            host, port = self._url.raw_host.decode("ascii"), port_of(self._url)
            tunnel = await open_tunnel(self.dial, host, port, proxy_tls=self._tls, tunnel=True)
        except asyncio.CancelledError:
            pair_end.close()
            raise
        except (ProxyHopError, OSError) as error:
            self.failed = error
            # For libcurl this is a failed handshake; `failed` has the reason.
            pair_end.close()
            return
        tunnel_end = _TunnelEnd()
        tunnel.set_protocol(tunnel_end)
        tunnel_end.transport = tunnel
        try:
            joined, joined_end = await self._loop.create_connection(_TunnelEnd, sock=pair_end)
        except BaseException:
            tunnel.abort()
            pair_end.close()
            raise
        joined_end.other, tunnel_end.other = tunnel_end, joined_end
        joined_end.transport = joined
        for end in (tunnel_end, joined_end):
            end.flush_early()
        try:
            # Once this is set, all bytes of the tunnel are on their way to libcurl.
            await tunnel_end.over.wait()
        finally:
            tunnel.abort()


class _TunnelEnd(asyncio.Protocol):
    """One end of a joined pair: it forwards its bytes to the other end, no faster than that end
    takes them."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _TunnelEnd | None = None
        # Both ends set it when one is lost.
        self.over = asyncio.Event()
        self._early: list[bytes] = []
        self._lost = False

    def flush_early(self) -> None:
        """Forwards the bytes that came before the ends were joined."""
        assert self.other is not None and self.other.transport is not None
        for data in self._early:
            self.other.transport.write(data)
        self._early.clear()
        if self._lost:
            self._close_other()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._close_other()

    def _close_other(self) -> None:
        self.over.set()
        if self.other is not None and self.other.transport is not None:
            self.other.over.set()
            self.other.transport.close()

    def pause_writing(self) -> None:
        self._set_reading(reading=False)

    def resume_writing(self) -> None:
        self._set_reading(reading=True)

    def _set_reading(self, *, reading: bool) -> None:
        if self.other is None or self.other.transport is None:
            return
        # A transport that is closing raises this.
        with suppress(RuntimeError):
            if reading:
                self.other.transport.resume_reading()
            else:
                self.other.transport.pause_reading()
