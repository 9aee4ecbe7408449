"""The interface of a plug-in's own TLS and HTTP/2 handshake for a site's connections."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

import httpx

from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.http.transport.guard import Networks


class Handshake(Protocol):
    """The handshake of a site's connections. A value: equal handshakes share connections."""

    @property
    def is_browser(self) -> bool:
        """Returns whether headers and handshake are those of a browser."""
        ...

    def headers(
        self, seed: str, region: str | None, *, secure: bool
    ) -> Sequence[tuple[str, str]] | None:
        """Returns the headers of the browser that `seed` (a proxy's id) has; None: the policy's."""
        ...

    def connection_key(self, seed: str) -> Hashable:
        """Returns the key under which connections are pooled: different keys share none."""
        ...

    def make_transport(
        self,
        seed: str,
        pool: PoolOptions,
        private: Networks,
        tls: Callable[[], ssl.SSLContext],
        plain: httpx.AsyncBaseTransport,
        *,
        proxied: bool,
    ) -> httpx.AsyncBaseTransport:
        """Makes a transport with this handshake; `plain` sends requests that do not need it."""
        ...
