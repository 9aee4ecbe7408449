"""httpx's transport interface over libcurl, as curl_cffi builds it: HTTP/2, and the TLS of a
browser if one is named.

Serves https only: plain http has no handshake to imitate and no HTTP/2, and goes through the
transport that the caller provides. The rules of the aiohttp transport hold here, too. Addresses
come from the guarded resolver and are pinned for the request; the socket hook judges each one again
before it is connected to, and the sending hook judges the connected one. libcurl follows no
redirect, keeps no cookie, unpacks no body, and reads no proxy from the environment and no .netrc.
It would repeat a request by itself if a kept connection turns out to be closed, or HTTP/2 refuses a
stream. The sending hook stops that, and the caller may ask again, as one more request of the host's
budget (`StaleConnectionError`).

Three things differ. Bytes beyond a Content-Length are dropped with their connection, as browsers
do, while aiohttp calls the response malformed. The whole window of an unread HTTP/2 stream may
arrive (6 MB with Chrome's settings). libcurl skips chunk extensions without showing them, so they
end at the read timeout, or, with a byte of the body now and then, at the page's.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Hashable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import certifi
import httpx
from curl_cffi import (
    AsyncCurl,
    Curl,
    CurlECode,
    CurlError,
    CurlHttpVersion,
    CurlInfo,
    CurlMOpt,
    CurlOpt,
)

from scraper.http.transport.aiohttp_transport import (
    KEEPALIVE_S,
    READ_BUFFER_BYTES,
    PoolOptions,
    port_of,
)
from scraper.http.transport.guard import Networks
from scraper.http.transport.resolver import AddressCache
from scraper.plugins.impersonate import hooks
from scraper.plugins.impersonate.transfer import CurlBody, CurlTransfer

_IDLE_HANDLES_MAX = 64
# A request waits this long for another's connection, then opens one of its own.
_OPENING_S = 1.0
# The settings are: no pushed responses, 100 streams, a window of 1 MB.
_NEUTRAL_SETTINGS = b"2:0;3:100;4:1048576"
_OPTIONS: tuple[tuple[CurlOpt, Any], ...] = (
    (CurlOpt.HTTP_VERSION, CurlHttpVersion.V2TLS),
    (CurlOpt.PROTOCOLS_STR, b"https"),
    # The environment's proxy is not used.
    (CurlOpt.PROXY, b""),
    (CurlOpt.NOPROXY, b"*"),
    (CurlOpt.NETRC, 0),
    (CurlOpt.FOLLOWLOCATION, 0),
    (CurlOpt.HTTP_CONTENT_DECODING, 0),
    (CurlOpt.HTTP09_ALLOWED, 0),
    (CurlOpt.PATH_AS_IS, 1),
    (CurlOpt.NOSIGNAL, 1),
    (CurlOpt.NOPROGRESS, 0),
    (CurlOpt.SSL_VERIFYPEER, 1),
    (CurlOpt.SSL_VERIFYHOST, 2),
    # A session ticket would link identities.
    (CurlOpt.SSL_SESSIONID_CACHE, 0),
    (CurlOpt.MAXAGE_CONN, int(KEEPALIVE_S)),
    (CurlOpt.BUFFERSIZE, READ_BUFFER_BYTES),
)


class CurlTransport(httpx.AsyncBaseTransport):
    """One pool of connections, all with the same handshake. Made inside a running loop, and used in
    that loop only.

    `target` is curl_cffi's name of a browser (`chrome150`); None is libcurl as it is. `plain` takes
    http URLs and is closed with this transport. Raises httpx's errors as `AiohttpTransport` does.
    """

    def __init__(
        self,
        pool: PoolOptions,
        private: Networks,
        tls: ssl.SSLContext,
        *,
        target: str | None,
        plain: httpx.AsyncBaseTransport,
    ) -> None:
        self._target = target
        self._plain = plain
        self._private = private
        self._tls = tls
        self._addresses = AddressCache(pool.make_resolver(), private, ttl_s=pool.dns_ttl_s)
        self._loop = asyncio.get_running_loop()
        self._multi: Any = _CurlMulti()
        self._multi.setopt(CurlMOpt.MAXCONNECTS, pool.max_connections)  # type: ignore[no-untyped-call]
        self._multi.setopt(CurlMOpt.MAX_TOTAL_CONNECTIONS, pool.max_connections)  # type: ignore[no-untyped-call]
        self._idle: list[Curl] = []
        self._stores = ca_stores()
        self._under_way: set[CurlTransfer] = set()
        self._opening: dict[Hashable, asyncio.Event] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request's head, and `request.extensions["body"]` (bytes) if there is one;
        `["timeout"]` may hold `connect` and `read`, in seconds, and `["target"]` the path and
        query."""
        if request.url.scheme != "https":
            return await self._plain.handle_async_request(request)
        limits = request.extensions.get("timeout", {})
        connect_s, read_s = limits.get("connect"), limits.get("read")
        started = self._loop.time()
        try:
            async with asyncio.timeout(connect_s):
                transfer, pins = await self._prepare_transfer(request)
            key = request.url.raw_host, port_of(request.url), transfer.label
            await self._wait_for_opening(key)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("its name was not looked up in time") from error
        left_s = (
            None if connect_s is None else max(0.001, connect_s - (self._loop.time() - started))
        )
        self._announce_opening(key, transfer)
        try:
            transfer.start(self._take_handle(), request, pins, left_s, read_s)
            await transfer.wait_for_head()
        except BaseException as error:
            transfer.close()
            if isinstance(error, Exception):
                raise self._attribute_error(transfer, error) from error.__cause__
            raise
        return httpx.Response(
            transfer.status, headers=transfer.headers, stream=CurlBody(transfer), request=request
        )

    async def _prepare_transfer(self, request: httpx.Request) -> tuple[CurlTransfer, list[bytes]]:
        """Returns a transfer and the addresses that libcurl uses for its host's name."""
        host = request.url.raw_host.decode("ascii")
        addresses = await self._addresses.addresses(host)
        pins = [] if _is_ip_address(host) else [_pin_host(host, port_of(request.url), addresses)]
        return CurlTransfer(self, self._private), pins

    async def _wait_for_opening(self, key: Hashable) -> None:
        """Waits while another request opens a connection to the host. HTTP/2 then takes this
        request too, and one connection serves all, as with browsers. (With libcurl's own PIPEWAIT a
        request that hangs on an HTTP/1.1 connection holds up every other one.)"""
        opening = self._opening.get(key)
        if opening is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_OPENING_S):
                    await opening.wait()

    def _announce_opening(self, key: Hashable, transfer: CurlTransfer) -> None:
        if key in self._opening:
            return
        opening = self._opening[key] = asyncio.Event()

        def end_opening() -> None:
            if self._opening.get(key) is opening:
                del self._opening[key]
            opening.set()

        transfer.on_connected = end_opening

    def _attribute_error(self, _transfer: CurlTransfer, error: Exception) -> Exception:
        """Returns the error to raise, which names a proxy at fault in a subclass."""
        return error

    async def aclose(self) -> None:
        for transfer in list(self._under_way):
            transfer.close()
        await self._multi.close()
        for curl in self._idle:
            curl.close()
        self._idle.clear()
        await self._plain.aclose()

    # Transfers call these.

    def begin_transfer(self, transfer: CurlTransfer, curl: Curl) -> asyncio.Future[None]:
        self._under_way.add(transfer)
        future: asyncio.Future[None] = self._multi.add_handle(curl)
        return future

    def end_transfer(self, transfer: CurlTransfer, curl: Curl, *, whole: bool) -> None:
        self._under_way.discard(transfer)
        if not whole:
            with suppress(CurlError):
                self._multi.remove_handle(curl)
        curl.clean_handles_and_buffers()
        if whole and len(self._idle) < _IDLE_HANDLES_MAX:
            self._idle.append(curl)
        else:
            curl.close()

    def _take_handle(self) -> Curl:
        if self._idle:
            return self._idle.pop()
        curl = Curl()
        if self._target is not None and curl.impersonate(self._target, default_headers=True) != 0:
            curl.close()
            raise httpx.UnsupportedProtocol(f"curl_cffi cannot impersonate {self._target}")
        if self._target is None:
            # By default this libcurl sends Chrome's settings.
            curl.setopt(CurlOpt.HTTP2_SETTINGS, _NEUTRAL_SETTINGS)
        for option, value in _OPTIONS:
            curl.setopt(option, value)
        hooks.unset_option(curl, CurlOpt.ACCEPT_ENCODING)
        for option, path in zip((CurlOpt.CAINFO, CurlOpt.CAPATH), self._stores, strict=True):
            # Otherwise curl_cffi would set a store of its own.
            curl.setopt(option, (path or "").encode())
            if path is None:
                hooks.unset_option(curl, option)
        hooks.set_hooks(curl)
        return curl


class _CurlMulti(AsyncCurl):
    """Ends connections whose HTTP/2 is broken: libcurl keeps them, and each later request would
    fail in its turn."""

    def set_exception(self, curl: Curl, exception: BaseException) -> None:
        if getattr(exception, "code", 0) in (CurlECode.HTTP2, CurlECode.RECV_ERROR):
            # The socket is known only before the handle is removed.
            number = curl.getinfo(CurlInfo.ACTIVESOCKET)
            if isinstance(number, int) and number >= 0:
                with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
        super().set_exception(curl, exception)


def ca_stores() -> tuple[str | None, str | None]:
    """Returns file and folder of the certificates to verify against, chosen as by `tls_context`:
    SSL_CERT_FILE and SSL_CERT_DIR, else the system's, else certifi's. A folder is looked into as
    needed; a file is read for each connection (6 ms for 140)."""
    paths = ssl.get_default_verify_paths()
    chosen = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if chosen or paths.cafile or (paths.capath and os.listdir(paths.capath)):
        return paths.cafile, paths.capath
    return certifi.where(), None


def _is_ip_address(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host.strip("[]"))
        return True
    return False


def _pin_host(host: str, port: int, addresses: list[str]) -> bytes:
    shown = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
    return f"{host}:{port}:{shown}".encode("ascii")
