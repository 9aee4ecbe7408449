"""Which transport a page goes through, by what its site asks for: one pool of connections for each
that differs."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, Protocol

import httpx
from aiohttp.abc import AbstractResolver

from scraper.connect.proxied_transport import ProxiedTransport
from scraper.connect.transport import AiohttpTransport, tls_context
from scraper.impersonate.profiles import target_of
from scraper.rules.browsers import impersonated


class Handshake(Protocol):
    """What of a policy decides which transport its pages go through."""

    @property
    def allow_private(self) -> bool: ...
    @property
    def impersonate(self) -> str | None: ...
    @property
    def http2(self) -> bool: ...


class Transports:
    """Made as they are needed, on the running loop. Those of guarded sites, of sites with
    `allow_private`, of proxies and of each browser's handshake are apart: no connection is lent
    from one to another."""

    def __init__(
        self, *, max_connections: int, resolver: AbstractResolver | None, dns_ttl_s: int
    ) -> None:
        self._max_connections = max_connections
        self._resolver = resolver
        self._dns_ttl_s = dns_ttl_s
        self._transports: dict[Hashable, httpx.AsyncBaseTransport] = {}

    def of(self, handshake: Handshake, seed: str, *, proxied: bool) -> httpx.AsyncBaseTransport:
        """`seed` (a proxy's id) tells identities apart."""
        if handshake.impersonate is None and not handshake.http2:
            return self._aiohttps(handshake.allow_private, proxied=proxied)
        target = (
            target_of(impersonated(handshake.impersonate, seed)) if handshake.impersonate else None
        )
        key = "curl", target, handshake.allow_private, proxied
        return self._transports.get(key) or self._keep(
            key, lambda: self._curl(target, handshake.allow_private, proxied=proxied)
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

    def _aiohttps(self, allow_private: bool, *, proxied: bool) -> httpx.AsyncBaseTransport:
        key = "aiohttp", allow_private, proxied
        return self._transports.get(key) or self._keep(
            key, lambda: self._aiohttp(allow_private, proxied=proxied)
        )

    def _aiohttp(self, allow_private: bool, *, proxied: bool) -> AiohttpTransport:
        return (ProxiedTransport if proxied else AiohttpTransport)(
            allow_private=allow_private,
            tls=self._tls,
            max_connections=self._max_connections,
            resolver=self._resolver,
            dns_ttl_s=self._dns_ttl_s,
        )

    def _curl(
        self, target: str | None, allow_private: bool, *, proxied: bool
    ) -> httpx.AsyncBaseTransport:
        from scraper.impersonate.proxied_transport import CurlProxiedTransport
        from scraper.impersonate.transport import CurlTransport

        options: dict[str, Any] = {
            "target": target,
            "plain": self._aiohttp(allow_private, proxied=proxied),
            "allow_private": allow_private,
            "max_connections": self._max_connections,
            "resolver": self._resolver,
            "dns_ttl_s": self._dns_ttl_s,
        }
        return (
            CurlProxiedTransport(**options, tls=self._tls) if proxied else CurlTransport(**options)
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context()
