"""Reads the file of accounts (`SCRAPER_ACCOUNTS`) again when it has changed. No other module reads
it.

    books:                       # a site's name, or what its definition names as `accounts:`
      - {username: ann@example.com, password: "s3cret"}
      - {name: second, username: bob@example.com, password: "pa55"}
    prices-api:
      - {token: "abc"}
    shared:                      # for several sites: the hosts that its accounts may go to
      hosts: [shop.example, shop.example.org]
      accounts:
        - {username: cleo@example.com, password: "hunter2"}

A group without `hosts` is for the site of its name only. Outputs show an account's `name` (default:
its position, `1`, `2` …); its other values leave the process only in requests to its site. If a
changed file is invalid, the last valid one stays in use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scraper.errors import ConfigError
from scraper.infra.secret_files import WatchedFile
from scraper.infra.setting_sources import read_secret
from scraper.rules.urls import belongs_to
from scraper.sites.grammar import scalars, yaml12

SIZE_MAX = 2_000_000
ACCOUNTS_MAX = 1000  # a group
_GROUP = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")
_KEY = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# Shorter values are not hidden in texts.
_SHORT = 4


@dataclass(frozen=True)
class Account:
    """`values` has the values of placeholders: username, password, token, and the file's other
    keys."""

    name: str
    values: dict[str, str] = field(repr=False)
    hosts: frozenset[str] | None = None

    @property
    def username(self) -> str:
        return self.values.get("username", "")

    @property
    def password(self) -> str:
        return self.values.get("password", "")

    @property
    def token(self) -> str:
        return self.values.get("token", "")

    def hidden(self, text: str) -> str:
        """Returns the text without the account's values."""
        for value in sorted(self.values.values(), key=len, reverse=True):
            if len(value) >= _SHORT:
                text = text.replace(value, "***")
        return text

    def may_go_to(self, host: str) -> bool:
        """True where the group names no hosts, or `host` is one of them or below it."""
        return self.hosts is None or belongs_to(host, self.hosts)

    def misdirected(self, site: str, group: str, host: str) -> str | None:
        """Returns why the account of `group` may not be sent to `host` for `site`, with the fix, or
        None if it may."""
        if self.hosts is None:
            if group == site:
                return None
            return (
                f"the accounts of {group!r} belong to the site of that name alone "
                "(fix: give the group `hosts:` in the file of accounts)"
            )
        if self.may_go_to(host):
            return None
        return (
            f"the accounts of {group!r} may not go to {host} "
            "(fix: add it to the group's `hosts:` in the file of accounts)"
        )

    def whole(self) -> bytes:
        return json.dumps([self.name, self.values], sort_keys=True).encode()


class AccountFile(WatchedFile):
    label, entries = "file of accounts", "accounts"

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self.groups: dict[str, list[Account]] = {}

    def _load_entries(self, path: Path) -> int:
        self.groups = read_accounts(path)
        return sum(map(len, self.groups.values()))


def read_accounts(path: Path) -> dict[str, list[Account]]:
    """Returns the accounts by group. Raises `ConfigError` with one line per problem, without values
    of the file."""
    parsed = _parse_file(path)
    data = parsed.data if parsed.data is not None else {}
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: must be a mapping of site names (fix: see docs/how-to/logins.md)"
        )
    problems: list[tuple[int, str]] = []
    groups = {
        group: _read_group(group, entries, parsed.lines, problems)
        for group, entries in data.items()
    }
    if problems:
        raise ConfigError("\n".join(f"{path}:{line}: {problem}" for line, problem in problems))
    return groups


def _parse_file(path: Path) -> yaml12.Parsed:
    try:
        parsed = yaml12.parse(read_secret(path, "SCRAPER_ACCOUNTS", SIZE_MAX))
    except yaml.YAMLError as error:
        # The text of the error may quote the file.
        raise ConfigError(
            f"{path}:{yaml12.explain_error(error)[0]}: not valid YAML (SCRAPER_ACCOUNTS)"
        ) from None
    if parsed.problems:
        raise ConfigError(
            "\n".join(
                f"{path}:{line}: not readable, or written twice" for line, _ in parsed.problems
            )
        )
    return parsed


def _read_group(
    group: str, entries: Any, lines: Mapping[Any, int], problems: list[tuple[int, str]]
) -> list[Account]:
    """Returns the accounts of a group, and adds (line, problem) for each mistake."""
    line = lines.get((group,), 1)
    place: tuple[str, ...] = (group,)
    hosts = None
    if not _GROUP.fullmatch(group):
        problems.append((line, "not the name of a site (fix: letters, digits, - _ and .)"))
        return []
    # A single account needs no list, and has only texts.
    if isinstance(entries, dict) and any(
        isinstance(entries.get(key), dict | list) for key in ("hosts", "accounts")
    ):
        hosts = _parse_hosts(entries)
        if hosts is None:
            problem = "must have `accounts` and a list of `hosts`, and no other keys"
            problems.append((line, f"{problem} (fix: hosts: [shop.example])"))
            return []
        place, entries = (group, "accounts"), entries["accounts"]
    entries = [entries] if isinstance(entries, dict) else entries
    if not isinstance(entries, list) or not 0 < len(entries) <= ACCOUNTS_MAX:
        problems.append((line, f"must be a list of 1 to {ACCOUNTS_MAX} accounts"))
        return []
    listed: list[Account] = []
    for number, entry in enumerate(entries, 1):
        account, problem = _parse_account(entry, number, hosts)
        if account is None or any(account.name == other.name for other in listed):
            taken = "its name is taken (fix: give each account its own)"
            problems.append((lines.get((*place, number - 1), line), problem or taken))
        else:
            listed.append(account)
    return listed


def _parse_hosts(group: dict[str, Any]) -> frozenset[str] | None:
    """Returns the hosts of a group; None if they are not a list of hosts, or the group has other
    keys."""
    hosts = group.get("hosts")
    if set(group) != {"hosts", "accounts"} or not isinstance(hosts, list) or not hosts:
        return None
    try:
        return frozenset(scalars.check_host(host) for host in hosts)
    except (TypeError, ValueError, AttributeError):
        return None


def _parse_account(
    entry: Any, number: int, hosts: frozenset[str] | None
) -> tuple[Account | None, str]:
    if not isinstance(entry, dict):
        return None, 'must be a mapping (fix: {username: "…", password: "…"})'
    values: dict[str, str] = {}
    for key, value in entry.items():
        if not _KEY.fullmatch(key):
            return None, "a key with other characters than small letters, digits and _"
        if not isinstance(value, str):
            return None, f"`{key}` must be a text (fix: quote it)"
        if not 0 < len(value) <= 10_000 or any(ord(char) < 32 for char in value):
            return None, f"`{key}` is empty, too long, or has a character that none may have"
        values[key] = value
    name = values.pop("name", str(number))
    if not _GROUP.fullmatch(name):
        return None, "`name` must be made of letters, digits, - _ and ."
    if not values:
        return None, "has nothing to log in with (fix: username and password, or token)"
    return Account(name, values, hosts), ""
