"""An account that is logged in, in the form that clients need. A value that travels from
`scraper.plugins.accounts.pool` to the socket.

Cookies, headers and browser belong together, and all processes use the same ones for an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from scraper.http.cookies import AccountJar
from scraper.rules.urls import host_of


@dataclass(slots=True)
class AccountSession:
    """`generation` numbers the logins of an account; later ones are larger. Only `hosts` get the
    `headers`. After a login by https, neither headers nor cookies are sent without it."""

    site: str
    account: str
    generation: int
    jar: AccountJar = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    hosts: frozenset[str]
    # A page fetched with this session was logged in.
    proven: bool = False

    @property
    def seed(self) -> str:
        """Chooses the account's browser, the same one in every process."""
        return f"account {self.site}/{self.account}"

    def headers_for(self, url: str) -> Mapping[str, str]:
        """Returns the headers that a request for this URL carries in addition to its cookies."""
        if not self.headers or host_of(url) not in self.hosts:
            return {}
        return {} if self.jar.secure_only and not url.startswith("https:") else self.headers

    def cookies_for(self, url: str) -> str:
        """Returns the Cookie header of a request for this URL; "" for none."""
        parts = urlsplit(url)
        return self.jar.cookie_header(
            parts.hostname or "", parts.path or "/", secure=parts.scheme == "https"
        )
