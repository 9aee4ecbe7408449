"""Who asks: an account that is logged in, as any client needs it. A value that travels from
`scraper.plugins.accounts.pool` to the socket.

Cookies, headers and browser belong together and stay together: all processes have the same ones of
an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from scraper.http.cookies import AccountJar
from scraper.rules.urls import host_of


@dataclass(slots=True)
class AccountSession:
    """`generation` numbers the logins of an account; a later one is a larger number. `hosts` get
    the `headers`, and nobody else; where the login is by https, nothing of it goes without."""

    site: str
    account: str
    generation: int
    jar: AccountJar = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    hosts: frozenset[str]
    # A page was seen with it that is not logged out.
    proven: bool = False

    @property
    def seed(self) -> str:
        """What the account's browser is chosen by: the same one wherever it appears."""
        return f"account {self.site}/{self.account}"

    def headers_for(self, url: str) -> Mapping[str, str]:
        """The headers that a request for this URL carries beside its cookies."""
        if not self.headers or host_of(url) not in self.hosts:
            return {}
        return {} if self.jar.secure_only and not url.startswith("https:") else self.headers

    def cookies_for(self, url: str) -> str:
        """The Cookie header of a request for this URL; "" for none."""
        parts = urlsplit(url)
        return self.jar.header(
            parts.hostname or "", parts.path or "/", secure=parts.scheme == "https"
        )
