"""The browsers that curl_cffi can imitate: their newest profiles, and the headers of each.

No header is listed by hand: a profile's headers are those that curl_cffi itself sends over a socket
pair, so that a newer curl_cffi brings handshake, User-Agent and client hints together. Imports
curl_cffi on demand, since most workers never need it.
"""

from __future__ import annotations

import socket
from functools import lru_cache

from scraper.errors import ConfigError
from scraper.rules import browsers

_REQUEST_MS = 2000


def target_of(browser: str) -> str:
    """Returns curl_cffi's newest profile of a browser: `target_of("chrome") == "chrome150"` with
    curl_cffi 0.16."""
    from curl_cffi.requests.impersonate import REAL_TARGET_MAP

    return str(REAL_TARGET_MAP[browser])


@lru_cache(maxsize=64)
def headers_of(browser: str, region: str | None, *, secure: bool) -> tuple[tuple[str, str], ...]:
    """Returns the headers of that browser's newest profile, in its order, with the region's
    languages."""
    sent = _capture_headers(target_of(browser))
    return browsers.adapt_headers(sent, region, secure=secure)


@lru_cache(maxsize=16)
def _capture_headers(target: str) -> tuple[tuple[str, str], ...]:
    """Returns the headers of a request that never leaves this process: its response is written
    before it is sent."""
    from curl_cffi import Curl, CurlOpt

    from scraper.plugins.impersonate import hooks

    curl_end, shop_end = socket.socketpair()
    with shop_end:
        shop_end.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        curl = Curl()
        detach = hooks.attach_transfer(curl, _ConnectedTransfer(curl_end))
        try:
            if curl.impersonate(target, default_headers=True) != 0:
                raise ConfigError(f"this curl_cffi does not know {target}")
            curl.setopt(CurlOpt.URL, b"http://profile.invalid/")
            curl.setopt(CurlOpt.PROXY, b"")
            curl.setopt(CurlOpt.RESOLVE, [b"profile.invalid:80:127.0.0.1"])
            # This selects HTTP/1.1 without an offer to upgrade.
            curl.setopt(CurlOpt.HTTP_VERSION, 2)
            curl.setopt(CurlOpt.TIMEOUT_MS, _REQUEST_MS)
            hooks.set_hooks(curl)
            curl.perform()
            raw = shop_end.recv(65_536)
        finally:
            detach()
            curl.close()
    lines = raw.decode("latin-1").partition("\r\n\r\n")[0].split("\r\n")[1:]
    pairs = (line.partition(": ") for line in lines)
    return tuple(
        (name, value) for name, _, value in pairs if name.lower() not in ("host", "connection")
    )


class _ConnectedTransfer:
    """Gives libcurl one socket that is connected already."""

    connected = True

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def open_socket(self, family: int, kind: int, proto: int, address: str) -> int:
        return self._end.detach()

    def may_send(self, address: str) -> bool:
        return True

    def may_go_on(self) -> bool:
        return True
