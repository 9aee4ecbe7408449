"""How one site's pages are asked for: limits, headers, handshake, and where redirects may lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scraper.http import codings
from scraper.http.body import ACCEPT_ENCODING
from scraper.http.request import Pairs, merged
from scraper.http.transport.guard import PrivateAccess
from scraper.plugins.impersonate import profiles
from scraper.rules import browsers

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en;q=0.9,*;q=0.5"


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """How one site's pages are fetched. Built once a site; `dataclasses.replace` makes variants.

    `headers` go out beside and instead of our own. `private` says which addresses that are
    not public may be reached. `allowed` takes host[:port] in lower case and
    says whether a redirect may lead there (None: anywhere). `truncate` cuts a body at
    `body_max_bytes` instead of failing. A `proxied` site's pages are never asked for without a
    proxy. `user_agent` may be `browser`, with languages of the `region`. `impersonate` names a
    browser whose handshake and headers are sent (`scraper.plugins.impersonate.profiles`), or `any`;
    `cookies` a jar of the fetcher's that is kept from page to page, where there is no proxy.
    `hurried`: `page_timeout_s` is less than the setting, by what the host's answers take.
    """

    user_agent: str
    headers: Mapping[str, str]
    private: PrivateAccess
    allowed: Callable[[str], bool] | None
    body_max_bytes: int
    wire_max_bytes: int
    redirects_max: int
    connect_timeout_s: float
    read_timeout_s: float
    page_timeout_s: float
    truncate: bool = False
    proxied: bool = False
    region: str | None = None
    impersonate: str | None = None
    http2: bool = False
    cookies: str | None = None
    hurried: bool = False
    base_headers: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    extensions: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = [
            ("User-Agent", self.user_agent),
            ("Accept", ACCEPT),
            ("Accept-Language", ACCEPT_LANGUAGE),
            ("Accept-Encoding", ACCEPT_ENCODING),
        ]
        object.__setattr__(self, "base_headers", self._with_the_sites(own))
        timeout = {"connect": self.connect_timeout_s, "read": self.read_timeout_s}
        object.__setattr__(self, "extensions", {"timeout": timeout})

    def headers_from(self, seed: str, *, secure: bool) -> tuple[tuple[str, str], ...]:
        """What a page's first request sends: our own headers, or those of the browser that `seed`
        (a proxy's id) has."""
        if self.impersonate is not None:
            browser = browsers.choose_browser(self.impersonate, seed)
            own = [
                (name, codings.understood(value) if name.lower() == "accept-encoding" else value)
                for name, value in profiles.headers_of(browser, self.region, secure=secure)
            ]
            return self._with_the_sites(own)
        if self.user_agent != browsers.BROWSER:
            return self.base_headers
        accepted = codings.understood(browsers.ACCEPT_ENCODING if secure else ACCEPT_ENCODING)
        return self._with_the_sites(
            list(browsers.browser_headers(seed, self.region, accepted, secure=secure))
        )

    def _with_the_sites(self, own: Pairs) -> tuple[tuple[str, str], ...]:
        # Accept-Encoding is not the site's to change: only what can be unpacked may be asked for.
        extra = {
            name: value for name, value in self.headers.items() if name.lower() != "accept-encoding"
        }
        return tuple(merged(own, extra))
