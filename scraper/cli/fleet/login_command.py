"""Accounts for people: how they stand in Redis, a login tried out, a login forgotten. Shows their
names, no more."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import redis
import redis.asyncio as aredis

from scraper.accounts import file, store
from scraper.accounts.file import Account, AccountFile
from scraper.accounts.sessions import LoginAttempt, Logins
from scraper.accounts.store import LoginStore, Standing
from scraper.crawl.context import CrawlContext, make_context
from scraper.errors import ConfigError, NotFoundError, ServerUnavailableError
from scraper.http.fetcher import HttpFetcher
from scraper.infra import servers
from scraper.infra.tables import print_table
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import ProxyHealth
from scraper.proxies.pool import ProxyPool
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site


def accounts(settings: Settings, name: str | None) -> list[dict[str, Any]]:
    """One object an account: those of the secrets file, then those that Redis alone knows."""
    listed = file.read(settings.accounts) if settings.accounts else {}
    names = [
        (site.name, account.name)
        for site in _sites(settings)
        if site.login is not None
        for account in listed.get(site.login.accounts or site.name, [])
    ]
    with _redis(settings) as client:
        known = [one for one in store.known_accounts(client) if one not in names]
        standings = {
            one: store.read_now(client, *one) for one in [*names, *known] if name in (None, one[0])
        }
        found = [
            _told(*one, one in names, standing)
            for one, standing in standings.items()
            if one in names or standing.known
        ]
    if name is not None and not found:
        _site(settings, name)
    return found


def check(settings: Settings, name: str, account: str | None) -> list[dict[str, Any]]:
    """Logs in now. Raises `NotFoundError` for what does not exist, `ConfigError` without a secrets
    file."""
    site = _site(settings, name)
    chosen = _chosen(settings, site, account)
    servers.require_redis(settings)
    # no crawl's, nor any site's row
    context = make_context(0, -1 - secrets.randbelow(2**31), site, settings)
    return [
        {"site": name, **asdict(each)} for each in asyncio.run(_check(settings, context, chosen))
    ]


def forget(settings: Settings, name: str, account: str | None) -> list[str]:
    """The accounts of which something was known."""
    with _redis(settings) as client:
        known = [
            each
            for site, each in store.known_accounts(client)
            if site == name and account in (None, each)
        ]
        forgotten = [each for each in known if store.forget(client, name, each)]
    if not forgotten:
        # a name that does not exist is a mistake
        _chosen(settings, _site(settings, name), account)
    return forgotten


def print_accounts(told: list[dict[str, Any]]) -> None:
    rows = []
    for one in told:
        rests = f"{one['rests_s']:.0f} s" if one["rests_s"] else ""
        since = "" if one["age_s"] is None else f"{one['age_s'] / 60:.0f} min"
        rows.append([one["site"], one["account"], one["state"], since, rests, str(one["logins"]), str(one["failures"]),
                     one["why"] or ""])  # fmt: skip
    print_table(["site", "account", "state", "since", "rests", "logins", "failures", "why"], rows)


def print_attempts(told: list[dict[str, Any]]) -> None:
    rows = []
    for one in told:
        brought = [f"cookie {name}" for name in one["cookies"]] + [
            f"header {name}" for name in one["headers"]
        ]
        rows.append(
            [
                one["account"],
                "logged in" if one["worked"] else one["kind"],
                one["saw"],
                ", ".join(brought),
            ]
        )
    print_table(["account", "", "seen", "brought"], rows)


def _told(site: str, account: str, listed: bool, standing: Standing) -> dict[str, Any]:
    return {
        "site": site,
        "account": account,
        "listed": listed,
        "state": standing.state,
        "age_s": None if standing.age_s is None else round(standing.age_s, 1),
        "expires_in_s": None if standing.expires_in_s is None else round(standing.expires_in_s, 1),
        "seen_working": standing.proven,
        "rests_s": round(standing.rest_s, 1),
        "kind": standing.kind or None,
        "why": standing.why or None,
        "logins": standing.logins,
        "failures": standing.failures,
    }


async def _check(
    settings: Settings, context: CrawlContext, chosen: list[Account]
) -> list[LoginAttempt]:
    client = aredis.Redis.from_url(settings.valkey_url, socket_connect_timeout=5, socket_timeout=10)
    fetcher = HttpFetcher()
    limiters = HostLimiters(RedisFleetLimiter(client, f"login-check:{secrets.token_hex(4)}"))
    pool = ProxyPool(ProxyFile(settings.proxy_list), ProxyHealth(client), random.Random())
    service = Logins(
        fetcher=fetcher,
        pool=pool,
        limiters=limiters,
        file=AccountFile(settings.accounts),
        store=LoginStore(client),
        settings=settings,
        rng=random.Random(),
    )
    try:
        return [await service.check(context, account) for account in chosen]
    finally:
        await limiters.sweep()
        await fetcher.aclose()
        await client.aclose()


def _sites(settings: Settings) -> list[Site]:
    return loader.load_dir(settings.sites_dir) if Path(settings.sites_dir).is_dir() else []


def _site(settings: Settings, name: str) -> Site:
    found = next((site for site in _sites(settings) if site.name == name), None)
    if found is None:
        raise NotFoundError(
            f"no site {name!r} in {settings.sites_dir}/ (`scraper sites list` shows them)"
        )
    if found.login is None:
        raise NotFoundError(f"{name} has no `login:` in its definition")
    return found


def _chosen(settings: Settings, site: Site, account: str | None) -> list[Account]:
    if settings.accounts is None:
        raise ConfigError(
            "there is no file of accounts: set SCRAPER_ACCOUNTS (docs/operations.md shows one)"
        )
    assert site.login is not None
    group = site.login.accounts or site.name
    listed = file.read(settings.accounts).get(group, [])
    chosen = [one for one in listed if account in (None, one.name)]
    if not chosen:
        which = f"an account {account!r} of {group}" if account else f"an account of {group}"
        raise NotFoundError(
            f"{settings.accounts}: has not {which} (`scraper login list` shows them)"
        )
    return chosen


@contextmanager
def _redis(settings: Settings) -> Iterator[redis.Redis]:
    servers.require_redis(settings)
    try:
        with redis.Redis.from_url(settings.valkey_url) as client:
            yield client
    except redis.RedisError:
        raise ServerUnavailableError("Redis stopped answering") from None
