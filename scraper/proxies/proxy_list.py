"""Parses the list of proxies. Pure. No error shows an address or a credential."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import SplitResult, unquote, urlsplit

from scraper.rules.proxies import POOLS, Proxy

SCHEMES = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
WEIGHT_MAX = 1000.0

_OPTIONS = ("class", "region", "weight")
_REGION = re.compile(r"[a-z][a-z0-9_-]{0,30}").fullmatch
_SPACE_HASH = re.compile(r"(?:^|\s)#.*$")
_ID_DIGITS = 10


class ProxyListError(ValueError):
    """A list that cannot be used. `problems` has one line each, `file:line: …`, and shows nothing
    of the list's text."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def parse_list(text: str, name: str) -> list[Proxy]:
    """Parses one proxy from each line: `http://user:pass@host:port class=residential region=eu
    weight=2`.

    `#` at a line's start or after a space begins a comment. Raises `ProxyListError` with every
    mistake.
    """
    proxies: dict[str, tuple[int, Proxy]] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        words = _SPACE_HASH.sub("", line).split()
        if not words:
            continue
        try:
            proxy = _parse_proxy(words[0], words[1:])
        except ValueError as error:
            problems.append(f"{name}:{number}: {error}")
            continue
        first, _ = proxies.setdefault(proxy.id, (number, proxy))
        if first != number:
            problems.append(
                f"{name}:{number}: the same proxy as in line {first} (fix: remove one of the two)"
            )
    if problems:
        raise ProxyListError(problems)
    return [proxy for _, proxy in proxies.values()]


def _parse_proxy(url: str, words: Sequence[str]) -> Proxy:
    parts, port = _split_url(url)
    options = _parse_options(words)
    pool = options.get("class", "datacenter")
    if pool not in POOLS:
        raise ValueError("an unknown class (fix: class=datacenter or class=residential)")
    region = options.get("region", "any")
    if not _REGION(region):
        raise ValueError("not a region (fix: a short name of small letters, as in region=eu)")
    host = parts.hostname or ""
    user = None if parts.username is None else unquote(parts.username)
    address = f"{parts.scheme}://{user or ''}@{host}:{port}"
    digest = hashlib.sha256(address.encode()).hexdigest()[:_ID_DIGITS]
    return Proxy(
        id=f"{pool}-{region}-{digest}",
        scheme=parts.scheme,
        host=host,
        port=port,
        user=user,
        password=None if parts.password is None else unquote(parts.password),
        pool=pool,
        region=None if region == "any" else region,
        weight=_parse_weight(options.get("weight", "1")),
    )


def _parse_options(words: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _OPTIONS:
            raise ValueError(
                "only class=, region= and weight= may follow the URL (fix: remove the rest)"
            )
        if key in options:
            raise ValueError(f"{key}= is given twice (fix: keep one)")
        options[key] = value
    return options


def _split_url(url: str) -> tuple[SplitResult, int]:
    fix = "(fix: as in http://user:password@host:port, special characters percent-encoded)"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"not a URL {fix}") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"the scheme must be http, https, socks5 or socks5h {fix}")
    if (
        not parts.hostname
        or port == 0
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"not a proxy's URL {fix}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if ":" in user or any(ord(char) < 0x20 or ord(char) == 0x7F for char in user + password):
        raise ValueError("a user name or password with a forbidden character")
    longest = max(len(user.encode()), len(password.encode()))
    if parts.scheme.startswith("socks") and longest > 255:
        raise ValueError("a user name or password longer than SOCKS5 allows (255 bytes)")
    return parts, port or SCHEMES[parts.scheme]


def _parse_weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= WEIGHT_MAX:
        raise ValueError(f"weight must be a number above 0, at most {WEIGHT_MAX:g} (fix: weight=2)")
    return weight
