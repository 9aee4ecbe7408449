"""Opens connections through a proxy: TCP and TLS to the proxy, its login, CONNECT or SOCKS5, and
TLS with the host inside.

Not left to aiohttp and python-socks, since the step that failed decides who is to blame, and both
put addresses and passwords into the texts and reprs of connections and errors. python-socks also
returns either a bare socket, without TLS to the proxy, or a stream of its own, which aiohttp's
protocol cannot take over. A `ProxyHopError` names only the proxy's id.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address

from scraper.domain import ProxySignal
from scraper.rules.proxies import Proxy

HEAD_MAX_BYTES = 16_384
# The other side has this long to confirm the end of a connection. Python would wait for 30 s.
FAREWELL_S = 1.0
# With these responses to CONNECT a proxy says that it could not reach the host.
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
    """A proxy failed. FAILED: it says that the host cannot be reached; DENIED: it refuses this
    host; UNUSABLE: it serves no request at all."""

    def __init__(self, signal: ProxySignal, text: str) -> None:
        super().__init__(text)
        self.signal = signal


@dataclass(slots=True)
class Dial:
    """The state of one connection through a proxy. `address` replaces the host's name for a proxy
    that is not to look names up; `step` is the one under way: "proxy", "tunnel" or "host"."""

    proxy: Proxy
    address: str = ""
    step: str = field(default="proxy")


def proxy_timeout_error(dial: Dial) -> ProxyHopError | None:
    """Returns the proxy's error if the time ran out before it had reached the host, else None."""
    match dial.step:
        case "proxy":
            return ProxyHopError(
                ProxySignal.UNUSABLE, f"proxy {dial.proxy.id}: no connection to it in time"
            )
        case "tunnel":
            return ProxyHopError(
                ProxySignal.FAILED, f"proxy {dial.proxy.id}: it opened no way to the host in time"
            )
        case _:
            return None


class _ProxyDialogue(asyncio.Protocol):
    """Reads what the proxy says before the connection is the host's."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._changed = asyncio.Event()
        self._closed = False

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._changed.set()

    async def read_exactly(self, count: int) -> bytes:
        while len(self._data) < count:
            await self._wait_for_data()
        return self._take_bytes(count)

    async def read_until(self, separator: bytes) -> bytes:
        """Reads up to and including the separator."""
        while (end := self._data.find(separator)) < 0:
            if len(self._data) > HEAD_MAX_BYTES:
                raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak HTTP")
            await self._wait_for_data()
        return self._take_bytes(end + len(separator))

    @property
    def unread(self) -> int:
        return len(self._data)

    def _take_bytes(self, count: int) -> bytes:
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken

    async def _wait_for_data(self) -> None:
        if self._closed:
            raise ProxyHopError(ProxySignal.UNUSABLE, "it closed the connection")
        self._changed.clear()
        await self._changed.wait()


async def connect_through(
    dial: Dial,
    host: str,
    port: int,
    *,
    factory: Callable[[], asyncio.Protocol],
    tls: ssl.SSLContext | None,
    proxy_tls: ssl.SSLContext,
) -> asyncio.Protocol:
    """Connects `factory`'s protocol to `host` through the proxy, with TLS to the host if `tls` is
    given.

    Plain http through an http or https proxy has no tunnel: the connection is the proxy's own, and
    the caller sends absolute URLs. Raises `ProxyHopError`, and `ssl.SSLError` or OSError from the
    host itself.
    """
    transport = await open_tunnel(dial, host, port, proxy_tls=proxy_tls, tunnel=tls is not None)
    try:
        protocol = factory()
        if tls is None:
            transport.set_protocol(protocol)
        else:
            _fix_failed_handshake(transport)
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


def _fix_failed_handshake(transport: asyncio.Transport) -> None:
    """Works around CPython's issue 113214: up to Python 3.11.7 and 3.12.1 a handshake that fails
    within TLS ends in a TypeError, and its caller waits for ever."""
    if transport.get_extra_info("sslcontext") is not None:
        transport._force_close = lambda _: transport.abort()  # type: ignore[attr-defined] # noqa: SLF001


async def open_tunnel(
    dial: Dial, host: str, port: int, *, proxy_tls: ssl.SSLContext, tunnel: bool
) -> asyncio.Transport:
    """Connects to the proxy, and through it to `host` if the proxy always tunnels or `tunnel` is
    set.

    The caller sets a protocol before it awaits anything: earlier bytes count as the proxy's. Raises
    `ProxyHopError`.
    """
    proxy = dial.proxy
    transport, dialogue = await _connect_to_proxy(proxy, proxy_tls)
    try:
        if proxy.tunnels:
            dial.step = "tunnel"
            target = host if proxy.scheme == "socks5h" else dial.address or host
            await _negotiate_socks(transport, dialogue, proxy, target, port)
        elif tunnel:
            dial.step = "tunnel"
            await _negotiate_connect(transport, dialogue, proxy, host, port)
        if dialogue.unread:
            raise ProxyHopError(ProxySignal.UNUSABLE, "it sends what was not asked for")
        dial.step = "host"
    except BaseException:
        transport.abort()
        raise
    return transport


async def _connect_to_proxy(
    proxy: Proxy, proxy_tls: ssl.SSLContext
) -> tuple[asyncio.Transport, _ProxyDialogue]:
    context = proxy_tls if proxy.scheme == "https" else None
    try:
        return await asyncio.get_running_loop().create_connection(
            _ProxyDialogue,
            proxy.host,
            proxy.port,
            ssl=context,
            server_hostname=proxy.host if context else None,
            ssl_shutdown_timeout=FAREWELL_S if context else None,
        )
    except ssl.SSLError:
        raise ProxyHopError(ProxySignal.UNUSABLE, "TLS with it failed") from None
    except (OSError, UnicodeError) as error:
        reason = "no connection to it"
        if isinstance(error, (UnicodeError, socket.gaierror)):
            reason = "its name has no address"
        # With several addresses, asyncio raises an error without a number.
        elif error.errno is not None:
            reason += f" (errno {error.errno})"
        raise ProxyHopError(ProxySignal.UNUSABLE, reason) from None


async def probe_proxy(proxy: Proxy, proxy_tls: ssl.SSLContext) -> None:
    """Opens a connection to a proxy, and closes it. Raises `ProxyHopError`."""
    transport, _ = await _connect_to_proxy(proxy, proxy_tls)
    transport.abort()


def proxy_authorization(proxy: Proxy) -> str | None:
    """Returns the value of Proxy-Authorization (RFC 7617); None for a proxy without a login."""
    if proxy.user is None:
        return None
    return "Basic " + base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()


async def _negotiate_connect(
    transport: asyncio.Transport, dialogue: _ProxyDialogue, proxy: Proxy, host: str, port: int
) -> None:
    """Asks for a tunnel by CONNECT (RFC 9110 9.3.6)."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if value := proxy_authorization(proxy):
        lines.append(f"Proxy-Authorization: {value}")
    transport.write("\r\n".join([*lines, "", ""]).encode())
    status = _parse_status(await dialogue.read_until(b"\r\n\r\n"))
    while 100 <= status < 200:
        status = _parse_status(await dialogue.read_until(b"\r\n\r\n"))
    if 200 <= status < 300:
        return
    raise ProxyHopError(_signal_of(status), f"it answered {status} when asked for a tunnel")


def _parse_status(head: bytes) -> int:
    words = head.split(None, 2)
    if (
        len(words) < 2
        or not words[0].startswith(b"HTTP/1.")
        or not words[1].isdigit()
        or len(words[1]) != 3
    ):
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak HTTP")
    return int(words[1])


def _signal_of(status: int) -> ProxySignal:
    if status == _NEEDS_LOGIN:
        return ProxySignal.UNUSABLE
    return ProxySignal.FAILED if status in _UNREACHED else ProxySignal.DENIED


async def _negotiate_socks(
    transport: asyncio.Transport, dialogue: _ProxyDialogue, proxy: Proxy, host: str, port: int
) -> None:
    """Asks for a connection by SOCKS5 (RFC 1928), with the login of RFC 1929."""
    transport.write(b"\x05\x01\x02" if proxy.user is not None else b"\x05\x01\x00")
    version, method = await dialogue.read_exactly(2)
    if version != 5:
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak SOCKS5")
    if method == 2 and proxy.user is not None:
        user, password = proxy.user.encode(), (proxy.password or "").encode()
        transport.write(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        if (await dialogue.read_exactly(2))[1] != 0:
            raise ProxyHopError(ProxySignal.UNUSABLE, "it does not accept the login")
    elif method != 0:
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not accept the login")
    transport.write(b"\x05\x01\x00" + _encode_socks_address(host) + port.to_bytes(2, "big"))
    _, reply, _, kind = await dialogue.read_exactly(4)
    if reply != 0:
        signal, text = _SOCKS_REPLIES.get(reply, (ProxySignal.FAILED, f"reply {reply}"))
        raise ProxyHopError(signal, f"it did not open the way: {text}")
    lengths = {1: 4, 4: 16}
    length = (await dialogue.read_exactly(1))[0] if kind == 3 else lengths.get(kind, 0)
    if not length:
        raise ProxyHopError(ProxySignal.UNUSABLE, "it does not speak SOCKS5")
    await dialogue.read_exactly(length + 2)


def _encode_socks_address(host: str) -> bytes:
    with suppress(ValueError):
        ip = ip_address(host)
        return (b"\x01" if ip.version == 4 else b"\x04") + ip.packed
    name = host.encode("ascii")
    return bytes((3, len(name))) + name
