"""Which transport a page goes through, by what its site asks for: one pool of connections for each
that differs."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Protocol

import httpx

from scraper.http.transport.aiohttp_transport import AiohttpTransport, PoolOptions, tls_context
from scraper.http.transport.guard import Networks
from scraper.http.transport.proxied_transport import ProxiedTransport
from scraper.plugins.impersonate.profiles import target_of
from scraper.rules.browsers import choose_browser


class Handshake(Protocol):
    """What of a policy decides which transport its pages go through."""

    @property
    def impersonate(self) -> str | None: ...
    @property
    def http2(self) -> bool: ...


class Transports:
    """Made as they are needed, on the running loop. Those that reach public addresses alone, those
    that reach others too, of proxies and of each browser's handshake are apart: no connection is
    lent from one to another."""

    def __init__(self, pool: PoolOptions) -> None:
        self._pool = pool
        self._transports: dict[Hashable, httpx.AsyncBaseTransport] = {}

    def of(
        self, handshake: Handshake, private: Networks, seed: str, *, proxied: bool
    ) -> httpx.AsyncBaseTransport:
        """`private` are the networks that it reaches beside the public ones; `seed` (a proxy's id)
        tells identities apart."""
        if handshake.impersonate is None and not handshake.http2:
            return self._aiohttps(private, proxied=proxied)
        target = (
            target_of(choose_browser(handshake.impersonate, seed))
            if handshake.impersonate
            else None
        )
        key = "curl", target, private, proxied
        return self._transports.get(key) or self._keep(
            key, lambda: self._curl(target, private, proxied=proxied)
        )

    async def aclose(self) -> None:
        """Closes every connection. New ones are opened when they are needed."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _keep(
        self, key: Hashable, make: Callable[[], httpx.AsyncBaseTransport]
    ) -> httpx.AsyncBaseTransport:
        return self._transports.setdefault(key, make())

    def _aiohttps(self, private: Networks, *, proxied: bool) -> httpx.AsyncBaseTransport:
        key = "aiohttp", private, proxied
        return self._transports.get(key) or self._keep(
            key, lambda: self._aiohttp(private, proxied=proxied)
        )

    def _aiohttp(self, private: Networks, *, proxied: bool) -> AiohttpTransport:
        kind = ProxiedTransport if proxied else AiohttpTransport
        return kind(self._pool, private, self._tls)

    def _curl(
        self, target: str | None, private: Networks, *, proxied: bool
    ) -> httpx.AsyncBaseTransport:
        from scraper.plugins.impersonate.proxied_transport import CurlProxiedTransport
        from scraper.plugins.impersonate.transport import CurlTransport

        kind = CurlProxiedTransport if proxied else CurlTransport
        plain = self._aiohttp(private, proxied=proxied)
        return kind(self._pool, private, self._tls, target=target, plain=plain)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context()
