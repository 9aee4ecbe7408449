"""Chooses the transport of a page by what its site asks for. Each kind has its own pool of
connections."""

from __future__ import annotations

import ssl
from collections.abc import Hashable
from functools import cached_property

import httpx

from scraper.http.handshake import Handshake
from scraper.http.transport.aiohttp_transport import AiohttpTransport, PoolOptions, tls_context
from scraper.http.transport.guard import Networks
from scraper.http.transport.proxied_transport import ProxiedTransport


class Transports:
    """Makes transports as they are needed, on the running loop. Those for public addresses, those
    for private ones too, those through proxies and those with a browser's handshake share no
    connection."""

    def __init__(self, pool: PoolOptions) -> None:
        self._pool = pool
        self._transports: dict[Hashable, httpx.AsyncBaseTransport] = {}

    def choose(
        self, handshake: Handshake | None, private: Networks, seed: str, *, proxied: bool
    ) -> httpx.AsyncBaseTransport:
        """Returns the transport that reaches the public networks and `private`. `seed` (a proxy's
        id) keeps identities apart."""
        kind = "aiohttp" if handshake is None else handshake.connection_key(seed)
        key = kind, private, proxied
        transport = self._transports.get(key)
        if transport is None:
            transport = self._make_aiohttp(private, proxied=proxied)
            if handshake is not None:
                transport = handshake.make_transport(
                    seed, self._pool, private, lambda: self._tls_context, transport, proxied=proxied
                )
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

    @cached_property
    def _tls_context(self) -> ssl.SSLContext:
        return tls_context()
