"""How a site's connections may look other than ours: a plug-in's TLS and HTTP/2 handshake."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

import httpx

from scraper.http.transport.aiohttp_transport import PoolOptions
from scraper.http.transport.guard import Networks


class Handshake(Protocol):
    """What a site's pages are asked for with. A value: equal handshakes share connections."""

    @property
    def is_browser(self) -> bool:
        """Whether headers and handshake are those of a browser."""
        ...

    def headers(
        self, seed: str, region: str | None, *, secure: bool
    ) -> Sequence[tuple[str, str]] | None:
        """The headers of the browser that `seed` (a proxy's id) has; None: the policy's own."""
        ...

    def connection_key(self, seed: str) -> Hashable:
        """What tells connections apart: no connection is lent from one key to another."""
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
        """A transport with this handshake; `plain` sends what needs none."""
        ...
