"""Cookies of one redirect chain, or of one identity for as long as it lasts: RFC 6265, as far as a
crawler needs it.

Cookies stay in memory and never leave the process that got them, except an account's, which
`scraper.plugins.accounts.pool` seals first. Refuses cookies that are not one line of ASCII or are
larger than browsers take, and a `Domain` that is not the host's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from publicsuffixlist import PublicSuffixList

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


@cache
def _public_suffixes() -> PublicSuffixList:
    """Returns the package's list, read when the first cookie names a domain."""
    return PublicSuffixList()


class CookieJar:
    """`now` is the time in seconds since 1970, as Expires is."""

    __slots__ = ("_hosts", "_now")

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        # ".shop.example" includes the hosts below it.
        self._hosts: dict[str, dict[str, _Cookie]] = {}

    def store_set_cookie(self, host: str, path: str, line: bytes) -> None:
        """Stores one Set-Cookie line (RFC 6265 5.2, 5.3) of a response of `host` to a request for
        `path`."""
        pair, *rest = line.decode("latin-1").split(";")
        name, equals, value = (part.strip() for part in pair.partition("="))
        if (
            not equals
            or not name
            or len(pair) > COOKIE_MAX_BYTES
            or not (pair.isascii() and pair.isprintable())
        ):
            return
        attributes = {
            key.strip().lower(): text.strip()
            for key, _, text in (attribute.partition("=") for attribute in rest)
        }
        key = self._domain_key(host, attributes.get("domain", ""))
        expires = self._expiry_of(attributes)
        if key is None or (key not in self._hosts and len(self._hosts) >= HOSTS_MAX):
            return
        if expires is not None and expires <= self._now():
            self._set_cookie(key, name, None)
            return
        attribute = attributes.get("path", "")
        scope = attribute if attribute.startswith("/") else path.rpartition("/")[0] or "/"
        self._set_cookie(key, name, _Cookie(value, "secure" in attributes, scope, expires))

    def cookie_header(self, host: str, path: str, *, secure: bool) -> str:
        """Returns the Cookie header for a request; "" for none. A host's own cookie takes
        precedence over its domain's of that name."""
        if not self._hosts:
            return ""
        sent: dict[str, str] = {}
        now = self._now()
        for key in (host, *("." + host.split(".", n)[n] for n in range(host.count(".") + 1))):
            for name, cookie in self._hosts.get(key, {}).items():
                alive = cookie.expires is None or cookie.expires > now
                if alive and (secure or not cookie.secure) and _path_matches(path, cookie.path):
                    sent.setdefault(name, cookie.value)
        return "; ".join(f"{name}={value}" for name, value in sent.items())

    def browser_cookies(self) -> list[dict[str, str | float | bool]]:
        """Returns every cookie that is still alive in the form that a browser takes: name, value,
        domain, path, expires (-1: with the session), secure."""
        now = self._now()
        return [
            {
                "name": name,
                "value": cookie.value,
                "domain": key,
                "path": cookie.path,
                "expires": -1 if cookie.expires is None else cookie.expires,
                "secure": cookie.secure,
            }
            for key, cookies in self._hosts.items()
            for name, cookie in cookies.items()
            if cookie.expires is None or cookie.expires > now
        ]

    def store_browser_cookie(self, key: str, cookie: Mapping[str, Any]) -> None:
        """Stores a browser's cookie under its domain there."""
        name, value = str(cookie["name"]), str(cookie["value"])
        expires = float(cookie.get("expires", -1))
        line = f"{name}={value}"
        if not name or len(line) > COOKIE_MAX_BYTES or not (line.isascii() and line.isprintable()):
            return
        if key not in self._hosts and len(self._hosts) >= HOSTS_MAX:
            return
        until = None if expires < 0 else expires
        scope = str(cookie.get("path") or "/")
        self._set_cookie(key, name, _Cookie(value, bool(cookie.get("secure")), scope, until))

    def _set_cookie(self, key: str, name: str, cookie: _Cookie | None) -> None:
        """Stores a cookie while there is room for it; None removes it."""
        cookies = self._hosts.setdefault(key, {})
        if cookie is None:
            cookies.pop(name, None)
        elif len(cookies) < COOKIES_MAX or name in cookies:
            cookies[name] = cookie

    def _domain_key(self, host: str, domain: str) -> str | None:
        """Returns the key that a cookie is stored under; None to refuse it. A cookie of another
        domain is refused, and one of a public suffix (RFC 6265 5.3, 5), whose shops are unrelated.
        A host that is such a suffix itself keeps its own cookies."""
        domain = domain.lstrip(".").lower()
        if not domain or (domain == host and host.replace(".", "").isdigit()):
            return host
        if not f".{host}".endswith(f".{domain}") or host.replace(".", "").isdigit():
            return None
        if _public_suffixes().is_public(domain):
            return host if domain == host else None
        return f".{domain}"

    def _expiry_of(self, attributes: dict[str, str]) -> float | None:
        age = attributes.get("max-age")
        if age is not None and age.removeprefix("-").isdecimal() and len(age) < 16:
            return self._now() + int(age) if int(age) > 0 else _EXPIRED
        date = attributes.get("expires")
        if date:
            try:
                return parsedate_to_datetime(date.replace("-", " ")).timestamp()
            except (ValueError, OverflowError, TypeError):
                return None
        return None


class AccountJar(CookieJar):
    """The cookies of an account that is logged in.

    `dump` and `load` share them between processes; the caller seals them. Changes of this process
    take precedence over what others wrote. `secure_only`: got over https, and never sent without.
    """

    __slots__ = ("_changed", "secure_only")

    def __init__(self, *, secure_only: bool, now: Callable[[], float] = time.time) -> None:
        super().__init__(now)
        self.secure_only = secure_only
        self._changed: set[tuple[str, str]] = set()

    @property
    def changed(self) -> bool:
        return bool(self._changed)

    def _set_cookie(self, key: str, name: str, cookie: _Cookie | None) -> None:
        before = self._hosts.get(key, {}).get(name)
        super()._set_cookie(key, name, cookie)
        now = self._hosts[key].get(name)
        if (before and (before.value, before.path)) != (now and (now.value, now.path)):
            self._changed.add((key, name))

    def browser_cookies(self) -> list[dict[str, str | float | bool]]:
        return [
            {**cookie, "secure": cookie["secure"] or self.secure_only}
            for cookie in super().browser_cookies()
        ]

    def cookie_header(self, host: str, path: str, *, secure: bool) -> str:
        if self.secure_only and not secure:
            return ""
        return super().cookie_header(host, path, secure=secure)

    def add_cookie(self, host: str, name: str, value: str) -> None:
        """Adds a cookie that a site's own function set, not a response."""
        self.store_set_cookie(host, "/", f"{name}={value}; Path=/".encode("latin-1", "replace"))

    def cookie_names(self) -> set[str]:
        return {name for cookies in self._hosts.values() for name in cookies}

    def dump(self) -> list[list[Any]]:
        """Returns each cookie as [host, name, value, secure, path, expires]."""
        return [
            [key, name, cookie.value, cookie.secure, cookie.path, cookie.expires]
            for key, cookies in self._hosts.items()
            for name, cookie in cookies.items()
        ]

    def load(self, dumped: list[list[Any]]) -> None:
        """Replaces the cookies by dumped ones, except those that have changed here."""
        changed = {(key, name): self._hosts.get(key, {}).get(name) for key, name in self._changed}
        self._hosts = {}
        for key, name, value, secure, path, expires in dumped[: HOSTS_MAX * COOKIES_MAX]:
            self._hosts.setdefault(key, {})[name] = _Cookie(value, secure, path, expires)
        for (key, name), cookie in changed.items():
            if cookie is None:
                self._hosts.get(key, {}).pop(name, None)
            else:
                self._hosts.setdefault(key, {})[name] = cookie

    def mark_saved(self) -> None:
        self._changed.clear()


class Jars:
    """Jars by name, for sites whose cookies stay from page to page without a proxy: one identity
    per site and process."""

    def __init__(self) -> None:
        self._jars: dict[str, CookieJar] = {}

    def get(self, name: str | None) -> CookieJar | None:
        """Returns the jar of that name, made on the first call; None for no name. The oldest jar
        is dropped if there are too many."""
        if name is None:
            return None
        jar = self._jars.get(name)
        if jar is None:
            if len(self._jars) >= JARS_MAX:
                del self._jars[next(iter(self._jars))]
            jar = self._jars[name] = CookieJar()
        return jar


def _path_matches(path: str, scope: str) -> bool:
    """Implements RFC 6265 5.1.4."""
    return path == scope or (
        path.startswith(scope) and (scope.endswith("/") or path[len(scope)] == "/")
    )
