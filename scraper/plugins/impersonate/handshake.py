"""The handshake of a browser, sent by libcurl: a `scraper.http.handshake.Handshake`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scraper.plugin import Hooks
from scraper.plugins.impersonate import profiles
from scraper.plugins.impersonate.keys import ImpersonateKeys
from scraper.rules.browsers import choose_browser
from scraper.sites.definition import Site

if TYPE_CHECKING:
    import httpx

    from scraper.http.handshake import Handshake
    from scraper.http.transport.aiohttp_transport import PoolOptions
    from scraper.http.transport.guard import Networks


@dataclass(frozen=True, slots=True)
class CurlHandshake:
    """`browser` is a name of `impersonate:`, or None: libcurl as it is, for HTTP/2 alone."""

    browser: str | None

    @property
    def is_browser(self) -> bool:
        return self.browser is not None

    def headers(
        self, seed: str, region: str | None, *, secure: bool
    ) -> Sequence[tuple[str, str]] | None:
        if self.browser is None:
            return None
        return profiles.headers_of(choose_browser(self.browser, seed), region, secure=secure)

    def connection_key(self, seed: str) -> Hashable:
        return "curl", self._target(seed)

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
        # curl_cffi takes 0.2 s to import, and most workers never need it.
        from scraper.plugins.impersonate.proxied_transport import CurlProxiedTransport
        from scraper.plugins.impersonate.transport import CurlTransport

        kind = CurlProxiedTransport if proxied else CurlTransport
        return kind(pool, private, tls(), target=self._target(seed), plain=plain)

    def _target(self, seed: str) -> str | None:
        return profiles.target_of(choose_browser(self.browser, seed)) if self.browser else None


class ImpersonateHooks(Hooks):
    def handshake(self, site: Site) -> Handshake | None:
        keys = site.of(ImpersonateKeys)
        if keys.impersonate is None and not keys.http2:
            return None
        return CurlHandshake(keys.impersonate)


HOOKS = ImpersonateHooks()
