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
from scraper.impersonate.profiles import MissingExtraError, target_of
from scraper.rules.browsers import impersonated


class Way(Protocol):
    """What of a policy decides."""

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
        self._made: dict[Hashable, httpx.AsyncBaseTransport] = {}

    def of(self, way: Way, seed: str, *, proxied: bool) -> httpx.AsyncBaseTransport:
        """`seed` (a proxy's id) tells identities apart. Raises `MissingExtraError` where the site
        needs what is not installed here."""
        if way.impersonate is None and not way.http2:
            return self._aiohttps(way.allow_private, proxied=proxied)
        target = target_of(impersonated(way.impersonate, seed)) if way.impersonate else None
        key = "curl", target, way.allow_private, proxied
        return self._made.get(key) or self._kept(
            key, lambda: self._curl(target, way.allow_private, proxied=proxied)
        )

    async def aclose(self) -> None:
        """Closes every connection. New ones are opened when they are needed."""
        made, self._made = self._made, {}
        for transport in made.values():
            await transport.aclose()

    def _kept(
        self, key: Hashable, make: Callable[[], httpx.AsyncBaseTransport]
    ) -> httpx.AsyncBaseTransport:
        return self._made.setdefault(key, make())

    def _aiohttps(self, allow_private: bool, *, proxied: bool) -> httpx.AsyncBaseTransport:
        key = "aiohttp", allow_private, proxied
        return self._made.get(key) or self._kept(
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
        try:
            from scraper.impersonate.proxied_transport import CurlProxiedTransport
            from scraper.impersonate.transport import CurlTransport
        except ImportError:
            raise MissingExtraError("`http2: true`") from None
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
