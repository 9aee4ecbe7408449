"""Through a proxy to a host: TCP and TLS to the proxy, its login, CONNECT or SOCKS5, and TLS with
the host inside.

Written out here rather than left to aiohttp and python-socks, since what goes wrong at which step
decides who is to blame, and theirs keep addresses and passwords in the texts and reprs of
connections and errors; python-socks also gives either a bare socket, without TLS to the proxy, or a
stream of its own in place of the transport that aiohttp's protocol takes over. A `ProxyHopError`
names no more than the proxy's id.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address

from scraper.domain import ProxySignal
from scraper.rules.proxies import Proxy

HEAD_MAX_BYTES = 16_384
# The other side has so long to confirm the end of a connection; Python would wait for 30.
FAREWELL_S = 1.0
# These answers to CONNECT are the proxy's word that it got no further.
_UNREACHED = frozenset({500, 502, 503, 504, 522, 523, 524})
_NEEDS_LOGIN = 407
# The replies of a SOCKS5 server (RFC 1928 6).
_SOCKS_REPLIES = {
    1: (ProxySignal.FAILED, "general failure"),
    2: (ProxySignal.DENIED, "not allowed by its rules"),
    3: (ProxySignal.FAILED, "network unreachable"),
    4: (ProxySignal.FAILED, "host unreachable"),
    5: (ProxySignal.FAILED, "connection refused"),
    6: (ProxySignal.FAILED, "it took too long"),
}


class ProxyHopError(Exception):
    """A proxy did not do its part. FAILED: by its word the host cannot be reached; DENIED: it will
    not go there; UNUSABLE: it serves nobody."""

    def __init__(self, signal: ProxySignal, text: str) -> None:
        super().__init__(text)
        self.signal = signal


@dataclass(slots=True)
class Dial:
    """One request's way. `address` is what a proxy that shall not look names up is told; `step`
    where it is by now."""

    proxy: Proxy
    address: str = ""
    step: str = field(default="proxy")


class _Talk(asyncio.Protocol):
    """What is said before the connection is the host's: bytes in, asked for by number or up to a
    mark."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._came = asyncio.Event()
        self._over = False

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._came.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._came.set()

    async def exactly(self, count: int) -> bytes:
        while len(self._data) < count:
            await self._more()
        return self._taken(count)

    async def through(self, mark: bytes) -> bytes:
        while (end := self._data.find(mark)) < 0:
            if len(self._data) > HEAD_MAX_BYTES:
                raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak HTTP")
            await self._more()
        return self._taken(end + len(mark))

    @property
    def left(self) -> int:
        return len(self._data)

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken

    async def _more(self) -> None:
        if self._over:
            raise ProxyHopError(ProxySignal.UNUSABLE, "it closed the connection")
        self._came.clear()
        await self._came.wait()


async def connect(
    dial: Dial,
    host: str,
    port: int,
    *,
    factory: Callable[[], asyncio.Protocol],
    tls: ssl.SSLContext | None,
    proxy_tls: ssl.SSLContext,
) -> asyncio.Protocol:
    """A connection of `factory`'s protocol to `host` through the proxy, TLS with the host included
    where `tls` is given.

    Plain http through an http or https proxy has no tunnel: the connection is the proxy's own, and
    the caller sends absolute URLs. Raises `ProxyHopError`, and `ssl.SSLError` or OSError once the
    host itself is spoken to.
    """
    transport = await through(dial, host, port, proxy_tls=proxy_tls, tunnel=tls is not None)
    try:
        protocol = factory()
        if tls is None:
            transport.set_protocol(protocol)
        else:
            _mend(transport)
            upgraded = await asyncio.get_running_loop().start_tls(
                transport, protocol, tls, server_hostname=host, ssl_shutdown_timeout=FAREWELL_S
            )
            assert upgraded is not None
            transport = upgraded
        protocol.connection_made(transport)
    except BaseException:
        transport.abort()
        raise
    return protocol


def _mend(transport: asyncio.Transport) -> None:
    """Up to Python 3.11.7 and 3.12.1 a handshake that fails within TLS stops at a TypeError, and
    whoever waits for it hears nothing (CPython's issue 113214)."""
    if transport.get_extra_info("sslcontext") is not None:
        transport._force_close = lambda _: transport.abort()  # type: ignore[attr-defined] # noqa: SLF001


async def through(
    dial: Dial, host: str, port: int, *, proxy_tls: ssl.SSLContext, tunnel: bool
) -> asyncio.Transport:
    """The connection as far as the proxy brings it: to `host` where it tunnels anyway or `tunnel`
    is asked for.

    The caller gives it a protocol before it awaits anything: what arrives earlier counts as the
    proxy's. Raises `ProxyHopError`.
    """
    proxy = dial.proxy
    transport, talk = await _reach(proxy, proxy_tls)
    try:
        if proxy.tunnels:
            dial.step = "tunnel"
            await _socks(
                transport,
                talk,
                proxy,
                host if proxy.scheme == "socks5h" else dial.address or host,
                port,
            )
        elif tunnel:
            dial.step = "tunnel"
            await _connect(transport, talk, proxy, host, port)
        if talk.left:
            raise ProxyHopError(ProxySignal.UNUSABLE, "it sends what nobody asked for")
        dial.step = "host"
    except BaseException:
        transport.abort()
        raise
    return transport


async def _reach(proxy: Proxy, proxy_tls: ssl.SSLContext) -> tuple[asyncio.Transport, _Talk]:
    context = proxy_tls if proxy.scheme == "https" else None
    try:
        return await asyncio.get_running_loop().create_connection(
            _Talk,
            proxy.host,
            proxy.port,
            ssl=context,
            server_hostname=proxy.host if context else None,
            ssl_shutdown_timeout=FAREWELL_S if context else None,
        )
    except ssl.SSLError:
        raise ProxyHopError(ProxySignal.UNUSABLE, "TLS with it failed") from None
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        reason = (
            "its name has no address"
            if isinstance(error, UnicodeError) or number is None or number < 0
            else ""
        )
        raise ProxyHopError(
            ProxySignal.UNUSABLE, reason or f"no connection to it (errno {number})"
        ) from None


async def knock(proxy: Proxy, proxy_tls: ssl.SSLContext) -> None:
    """Opens a connection to a proxy, and closes it. Raises `ProxyHopError`."""
    transport, _ = await _reach(proxy, proxy_tls)
    transport.abort()


def login(proxy: Proxy) -> str | None:
    """The value of Proxy-Authorization (RFC 7617), or None."""
    if proxy.user is None:
        return None
    return "Basic " + base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()


async def _connect(
    transport: asyncio.Transport, talk: _Talk, proxy: Proxy, host: str, port: int
) -> None:
    """RFC 9110 9.3.6."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if value := login(proxy):
        lines.append(f"Proxy-Authorization: {value}")
    transport.write("\r\n".join([*lines, "", ""]).encode())
    status = _status(await talk.through(b"\r\n\r\n"))
    while 100 <= status < 200:
        status = _status(await talk.through(b"\r\n\r\n"))
    if 200 <= status < 300:
        return
    raise ProxyHopError(_meaning(status), f"it answered {status} when asked for a tunnel")


def _status(head: bytes) -> int:
    words = head.split(None, 2)
    if (
        len(words) < 2
        or not words[0].startswith(b"HTTP/1.")
        or not words[1].isdigit()
        or len(words[1]) != 3
    ):
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak HTTP")
    return int(words[1])


def _meaning(status: int) -> ProxySignal:
    if status == _NEEDS_LOGIN:
        return ProxySignal.UNUSABLE
    return ProxySignal.FAILED if status in _UNREACHED else ProxySignal.DENIED


async def _socks(
    transport: asyncio.Transport, talk: _Talk, proxy: Proxy, host: str, port: int
) -> None:
    """RFC 1928, with the login of RFC 1929."""
    transport.write(b"\x05\x01\x02" if proxy.user is not None else b"\x05\x01\x00")
    version, method = await talk.exactly(2)
    if version != 5:
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak SOCKS5")
    if method == 2 and proxy.user is not None:
        user, password = proxy.user.encode(), (proxy.password or "").encode()
        transport.write(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        if (await talk.exactly(2))[1] != 0:
            raise ProxyHopError(ProxySignal.UNUSABLE, "it does not accept the login")
    elif method != 0:
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not accept the login")
    transport.write(b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big"))
    _, reply, _, kind = await talk.exactly(4)
    if reply != 0:
        signal, text = _SOCKS_REPLIES.get(reply, (ProxySignal.FAILED, f"reply {reply}"))
        raise ProxyHopError(signal, f"it did not open the way: {text}")
    lengths = {1: 4, 4: 16}
    length = (await talk.exactly(1))[0] if kind == 3 else lengths.get(kind, 0)
    if not length:
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak SOCKS5")
    await talk.exactly(length + 2)


def _socks_address(host: str) -> bytes:
    with suppress(ValueError):
        ip = ip_address(host)
        return (b"\x01" if ip.version == 4 else b"\x04") + ip.packed
    name = host.encode("ascii")
    return bytes((3, len(name))) + name
