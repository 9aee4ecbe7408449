"""Chooses the transport of a page by what its site asks for. Each kind has its own pool of
connections."""

from __future__ import annotations

import ssl
from collections.abc import Hashable
from functools import cached_property
from typing import Protocol

import httpx

from scraper.http.transport.aiohttp_transport import AiohttpTransport, PoolOptions, tls_context
from scraper.http.transport.guard import Networks
from scraper.http.transport.proxied_transport import ProxiedTransport
from scraper.plugins.impersonate.profiles import target_of
from scraper.rules.browsers import choose_browser


class Handshake(Protocol):
    """The part of a policy that decides which transport its pages go through."""

    @property
    def impersonate(self) -> str | None: ...
    @property
    def http2(self) -> bool: ...


class Transports:
    """Makes transports as they are needed, on the running loop. Those for public addresses, those
    for private ones too, those through proxies and those with a browser's handshake share no
    connection."""

    def __init__(self, pool: PoolOptions) -> None:
        self._pool = pool
        self._transports: dict[Hashable, httpx.AsyncBaseTransport] = {}

    def choose(
        self, handshake: Handshake, private: Networks, seed: str, *, proxied: bool
    ) -> httpx.AsyncBaseTransport:
        """Returns the transport that reaches the public networks and `private`. `seed` (a proxy's
        id) keeps identities apart."""
        target: str | None = None
        if handshake.impersonate is None and not handshake.http2:
            kind = "aiohttp"
        else:
            kind = "curl"
            if handshake.impersonate is not None:
                target = target_of(choose_browser(handshake.impersonate, seed))
        key = kind, target, private, proxied
        transport = self._transports.get(key)
        if transport is None:
            if kind == "aiohttp":
                transport = self._make_aiohttp(private, proxied=proxied)
            else:
                transport = self._make_curl(target, private, proxied=proxied)
            self._transports[key] = transport
        return transport

    async def aclose(self) -> None:
        """Closes every connection. Later requests open new ones."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _make_aiohttp(self, private: Networks, *, proxied: bool) -> AiohttpTransport:
        kind = ProxiedTransport if proxied else AiohttpTransport
        return kind(self._pool, private, self._tls_context)

    def _make_curl(
        self, target: str | None, private: Networks, *, proxied: bool
    ) -> httpx.AsyncBaseTransport:
        from scraper.plugins.impersonate.proxied_transport import CurlProxiedTransport
        from scraper.plugins.impersonate.transport import CurlTransport

        kind = CurlProxiedTransport if proxied else CurlTransport
        plain = self._make_aiohttp(private, proxied=proxied)
        return kind(self._pool, private, self._tls_context, target=target, plain=plain)

    @cached_property
    def _tls_context(self) -> ssl.SSLContext:
        return tls_context()
