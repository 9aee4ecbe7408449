"""Cookies of one redirect chain, or of one identity for as long as it lives: RFC 6265, as far as a crawler needs it.

In memory alone: an identity's cookies are somebody's session, and never leave the process that got them. Refuses what is
not one line of ASCII, what is larger than browsers take, and a `Domain` that is not the host's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

COOKIES_MAX = 50  # a host
COOKIE_MAX_BYTES = 4096
HOSTS_MAX = 50
JARS_MAX = 1000
_EXPIRED = -1.0


@dataclass(frozen=True, slots=True)
class _Cookie:
    value: str
    secure: bool
    path: str
    expires: float | None


class CookieJar:
    """`now` is the time in seconds since 1970, as Expires is."""

    __slots__ = ("_hosts", "_now")

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._hosts: dict[str, dict[str, _Cookie]] = {}  # ".shop.example" stands for the hosts below it as well

    def keep(self, host: str, path: str, line: bytes) -> None:
        """Takes one Set-Cookie line (RFC 6265 5.2, 5.3) of an answer from `host` to a request for `path`."""
        pair, *rest = line.decode("latin-1").split(";")
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name or len(pair) > COOKIE_MAX_BYTES or not (pair.isascii() and pair.isprintable()):
            return
        attributes = {key.strip().lower(): text.strip() for key, _, text in (one.partition("=") for one in rest)}
        key = self._key(host, attributes.get("domain", ""))
        expires = self._expires(attributes)
        if key is None or (key not in self._hosts and len(self._hosts) >= HOSTS_MAX):
            return
        cookies = self._hosts.setdefault(key, {})
        if expires is not None and expires <= self._now():
            cookies.pop(name, None)
        elif len(cookies) < COOKIES_MAX or name in cookies:
            given = attributes.get("path", "")
            scope = given if given.startswith("/") else path.rpartition("/")[0] or "/"
            cookies[name] = _Cookie(value, "secure" in attributes, scope, expires)

    def header(self, host: str, path: str, *, secure: bool) -> str:
        """The Cookie header for a request; "" for none. A host's own cookie goes before its domain's of that name."""
        if not self._hosts:
            return ""
        sent: dict[str, str] = {}
        now = self._now()
        for key in (host, *("." + host.split(".", n)[n] for n in range(host.count(".") + 1))):
            for name, cookie in self._hosts.get(key, {}).items():
                alive = cookie.expires is None or cookie.expires > now
                if alive and (secure or not cookie.secure) and _within(path, cookie.path):
                    sent.setdefault(name, cookie.value)
        return "; ".join(f"{name}={value}" for name, value in sent.items())

    def _key(self, host: str, domain: str) -> str | None:
        """Where a cookie belongs. There is no list of public suffixes here: a domain needs two labels at the least, and
        a jar is one site's alone."""
        domain = domain.lstrip(".").lower()
        if not domain or (domain == host and host.replace(".", "").isdigit()):
            return host
        if "." not in domain or not f".{host}".endswith(f".{domain}") or host.replace(".", "").isdigit():
            return None
        return f".{domain}"

    def _expires(self, attributes: dict[str, str]) -> float | None:
        age = attributes.get("max-age")
        if age is not None and age.removeprefix("-").isdigit() and len(age) < 16:
            return self._now() + int(age) if int(age) > 0 else _EXPIRED
        date = attributes.get("expires")
        if date:
            try:
                return parsedate_to_datetime(date.replace("-", " ")).timestamp()
            except (ValueError, OverflowError, TypeError):
                return None
        return None


class Jars:
    """Jars by name, for sites whose cookies stay from page to page without a proxy: one identity a site and process."""

    def __init__(self) -> None:
        self._jars: dict[str, CookieJar] = {}

    def of(self, name: str | None) -> CookieJar | None:
        """The jar of that name, or None for none. The one that was made first goes where there are too many."""
        if name is None:
            return None
        jar = self._jars.get(name)
        if jar is None:
            if len(self._jars) >= JARS_MAX:
                del self._jars[next(iter(self._jars))]
            jar = self._jars[name] = CookieJar()
        return jar


def _within(path: str, scope: str) -> bool:
    """RFC 6265 5.1.4."""
    return path == scope or (path.startswith(scope) and (scope.endswith("/") or path[len(scope)] == "/"))
