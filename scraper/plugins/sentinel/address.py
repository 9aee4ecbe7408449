"""Reads the URL of Redis Sentinel. The login before the hosts is for Redis itself; sentinels with a
password of their own have it as a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

FORM = "sentinel://user:password@host1:26379,host2:26379/0?master_name=NAME"
PORT = 26379
# A parameter of the URL, to redis-py's name of the option of a sentinel's connection.
SENTINEL_LOGIN = {"sentinel_username": "username", "sentinel_password": "password"}


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    hosts: tuple[tuple[str, int], ...]
    master_name: str
    # The login for Redis as the URL spells it, with its `@`; empty without one.
    login: str
    # Options of redis-py for connections to the primary, and to a sentinel.
    primary: dict[str, Any]
    sentinel: dict[str, Any]

    @property
    def broker_url(self) -> str:
        """kombu's spelling: a URL for each sentinel."""
        login, database = self.login.replace(";", "%3B"), self.primary["db"]
        return ";".join(
            f"sentinel://{login}{_quote_host(host)}:{port}/{database}" for host, port in self.hosts
        )


def parse_address(url: str) -> SentinelAddress:
    """Raises `ValueError`, which says what is wrong and shows no password."""
    if ";sentinel:" in url:
        raise ValueError(f"must name all sentinels in one address: {FORM}")
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = dict(parse_qsl(parts.query))
    for name in sorted(options.keys() - {"master_name", *SENTINEL_LOGIN}):
        raise ValueError(f"has an unknown parameter {name} (fix: write {FORM})")
    if not options.get("master_name"):
        raise ValueError(
            "must name the primary as the sentinels do, as in `sentinel monitor NAME` of their "
            f"configuration: {FORM}"
        )
    database = parts.path.strip("/") or "0"
    if not database.isdecimal():
        raise ValueError(f"has {database!r} where the number of a database belongs: {FORM}")
    given = {"username": unquote(user), "password": unquote(password)}
    own = {SENTINEL_LOGIN[name]: options[name] for name in SENTINEL_LOGIN if name in options}
    return SentinelAddress(
        hosts=tuple(_parse_host(host) for host in hosts.split(",")),
        master_name=options["master_name"],
        login=login + at,
        primary={"db": int(database), **{name: text for name, text in given.items() if text}},
        sentinel=own,
    )


def _parse_host(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host:
        raise ValueError(f"has {text!r} where HOST or HOST:PORT of a sentinel belongs: {FORM}")
    return host, port or PORT


def _quote_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
