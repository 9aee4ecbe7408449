"""How one site's pages are requested: limits, headers, handshake, and where redirects may lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scraper.http import codings
from scraper.http.body import ACCEPT_ENCODING
from scraper.http.request import Pairs, merge_headers

if TYPE_CHECKING:
    from scraper.http.handshake import Handshake
from scraper.http.transport.guard import PrivateAccess
from scraper.rules import browsers

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en;q=0.9,*;q=0.5"


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """How one site's pages are fetched. Built once per site; `dataclasses.replace` makes variants.

    headers: sent in addition to our own, or instead of those of the same name.
    private: the addresses that may be reached although they are not public.
    allowed: takes host[:port] in lower case, and says whether a redirect may lead there. None
        allows every host.
    truncate: cut a body at `body_max_bytes` instead of failing.
    proxied: never fetch a page without a proxy.
    user_agent: may be `browser`, with the languages of `region`.
    handshake: a plug-in's way to connect; None is our own.
    cookies: names a jar of the fetcher's that is kept from page to page without a proxy.
    hurried: `page_timeout_s` is below the setting, because the host usually responds faster.
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
    handshake: Handshake | None = None
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
        object.__setattr__(self, "base_headers", self._merge_site_headers(own))
        timeout = {"connect": self.connect_timeout_s, "read": self.read_timeout_s}
        object.__setattr__(self, "extensions", {"timeout": timeout})

    def headers_from(self, seed: str, *, secure: bool) -> tuple[tuple[str, str], ...]:
        """Returns the headers of a page's first request: our own, or those of the browser that
        `seed` (a proxy's id) chooses."""
        if self.handshake is not None:
            own = self.handshake.headers(seed, self.region, secure=secure)
            if own is not None:
                return self._merge_site_headers([_keep_codings(*pair) for pair in own])
        if self.user_agent != browsers.BROWSER:
            return self.base_headers
        accepted = codings.keep_supported(browsers.ACCEPT_ENCODING if secure else ACCEPT_ENCODING)
        return self._merge_site_headers(
            list(browsers.browser_headers(seed, self.region, accepted, secure=secure))
        )

    def _merge_site_headers(self, own: Pairs) -> tuple[tuple[str, str], ...]:
        # A site cannot change Accept-Encoding: only codings that can be unpacked are asked for.
        extra = {
            name: value for name, value in self.headers.items() if name.lower() != "accept-encoding"
        }
        return tuple(merge_headers(own, extra))


def _keep_codings(name: str, value: str) -> tuple[str, str]:
    """Returns the header, with only the codings that can be unpacked."""
    return name, codings.keep_supported(value) if name.lower() == "accept-encoding" else value
