"""`scraper login …`: lists, checks and forgets logins. Shows only the names of accounts."""

from __future__ import annotations

import asyncio
import random
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scraper.cli.common.shared import (
    complete_site,
    json_option,
    load_settings,
    open_redis,
    print_json,
)
from scraper.cli.common.tables import print_table
from scraper.crawl.context import CrawlContext, make_context
from scraper.errors import ConfigError, LoginFailedError, NotFoundError
from scraper.http.fetcher import HttpFetcher
from scraper.infra import redis_clients
from scraper.plugins.accounts import file, store
from scraper.plugins.accounts.file import Account, AccountFile
from scraper.plugins.accounts.login_keys import AccountsKeys, account_group
from scraper.plugins.accounts.pool import AccountPool, LoginAttempt
from scraper.plugins.accounts.settings import AccountsSettings
from scraper.plugins.accounts.status import AccountStatus
from scraper.plugins.accounts.store import LoginStore
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.process import servers
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import ProxyHealth
from scraper.proxies.pool import ProxyPool
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site

COLUMNS = ["site", "account", "state", "since", "rests", "logins", "failures", "why"]


@click.group()
def login() -> None:
    """Show whether accounts are logged in; check, forget logins."""


@login.command("list")
@click.argument("site", required=False, shell_complete=complete_site)
@json_option("array")
def login_list_accounts(site: str | None, as_json: bool) -> None:
    """Show the accounts of SITE, or of all sites with a login: since when they are logged in, or
    why not."""
    accounts = _list_accounts(load_settings(), site)
    if as_json:
        print_json(accounts)
    else:
        print_table(COLUMNS, [_format_account(account) for account in accounts])


@login.command("check")
@click.argument("site", shell_complete=complete_site)
@click.argument("account", required=False)
@json_option("array")
def login_check(site: str, account: str | None, as_json: bool) -> None:
    """Log in the accounts of SITE, or only ACCOUNT, and show the result; exit 1 if one fails.

    Workers use a successful login, and it ends an account's quarantine.
    """
    settings = load_settings()
    definition = _find_site(settings, site)
    accounts = _choose_accounts(settings, definition, account)
    servers.require_redis(settings)
    # These ids belong to no crawl and no site.
    context = make_context(0, -1 - secrets.randbelow(2**31), definition, settings)
    attempts = asyncio.run(_log_in(settings, context, accounts))
    if as_json:
        print_json([{"site": site, **asdict(attempt)} for attempt in attempts])
    else:
        print_table(
            ["account", "", "seen", "brought"], [_attempt_cells(attempt) for attempt in attempts]
        )
    failed = [attempt.account for attempt in attempts if not attempt.worked]
    if failed:
        raise LoginFailedError(f"{site}: not logged in: {', '.join(failed)}")


@login.command("forget")
@click.argument("site", shell_complete=complete_site)
@click.argument("account", required=False)
@json_option()
def login_forget(site: str, account: str | None, as_json: bool) -> None:
    """Forget the logins of SITE's accounts, or only ACCOUNT's: cookies, failures, quarantine.

    Workers that use them log in again within seconds.
    """
    settings = load_settings()
    with open_redis(settings) as client:
        forgotten = [
            name
            for of_site, name in store.list_accounts(client)
            if of_site == site
            and account in (None, name)
            and store.forget_account(client, site, name)
        ]
    if not forgotten:
        # A name that does not exist is a mistake.
        _choose_accounts(settings, _find_site(settings, site), account)
    if as_json:
        print_json({"site": site, "forgotten": forgotten})
    else:
        names = ", ".join(forgotten) or "nothing, there was none"
        click.echo(f"{site}: forgotten: {names}")


def _list_accounts(settings: Settings, name: str | None) -> list[dict[str, Any]]:
    """Returns one object per account: those of the secrets file, then those only in Redis."""
    own = settings.of(AccountsSettings)
    in_file = file.read_accounts(own.accounts) if own.accounts else {}
    listed = [
        (site.name, account.name)
        for site in _load_sites(settings)
        if site.of(AccountsKeys).login is not None
        for account in in_file.get(account_group(site), [])
    ]
    with open_redis(settings) as client:
        accounts = [
            _as_json(site, account, (site, account) in listed, standing)
            for site, account in dict.fromkeys([*listed, *store.list_accounts(client)])
            if name in (None, site)
            for standing in [store.read_status(client, site, account)]
            if (site, account) in listed or standing.known
        ]
    if name is not None and not accounts:
        _find_site(settings, name)
    return accounts


def _as_json(site: str, account: str, listed: bool, standing: AccountStatus) -> dict[str, Any]:
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


def _format_account(account: dict[str, Any]) -> list[str]:
    since = "" if account["age_s"] is None else f"{account['age_s'] / 60:.0f} min"
    rests = f"{account['rests_s']:.0f} s" if account["rests_s"] else ""
    counts = [str(account["logins"]), str(account["failures"])]
    names = [account["site"], account["account"], account["state"]]
    return [*names, since, rests, *counts, account["why"] or ""]


def _attempt_cells(attempt: LoginAttempt) -> list[str]:
    brought = [
        *(f"cookie {name}" for name in attempt.cookies),
        *(f"header {name}" for name in attempt.headers),
    ]
    result = "logged in" if attempt.worked else attempt.kind
    return [attempt.account, result, attempt.saw, ", ".join(brought)]


async def _log_in(
    settings: Settings, context: CrawlContext, accounts: list[Account]
) -> list[LoginAttempt]:
    client = redis_clients.connect_async(settings.valkey_url)
    fetcher = HttpFetcher()
    limiters = HostLimiters(RedisFleetLimiter(client, f"login-check:{secrets.token_hex(4)}"))
    pool = ProxyPool(ProxyFile(settings.proxy_list), ProxyHealth(client), random.Random())
    accounts_pool = AccountPool(
        fetcher=fetcher,
        pool=pool,
        limiters=limiters,
        file=AccountFile(settings.of(AccountsSettings).accounts),
        store=LoginStore(client),
        settings=settings,
        rng=random.Random(),
    )
    try:
        return [await accounts_pool.check(context, account) for account in accounts]
    finally:
        await limiters.sweep()
        await fetcher.aclose()
        await client.aclose()


def _load_sites(settings: Settings) -> list[Site]:
    return loader.load_folder(settings.sites_dir) if Path(settings.sites_dir).is_dir() else []


def _find_site(settings: Settings, name: str) -> Site:
    site = next((site for site in _load_sites(settings) if site.name == name), None)
    if site is None:
        raise NotFoundError(
            f"no site {name!r} in {settings.sites_dir}/ (`scraper sites list` shows them)"
        )
    if site.of(AccountsKeys).login is None:
        raise NotFoundError(f"{name} has no `login:` in its definition")
    return site


def _choose_accounts(settings: Settings, site: Site, account: str | None) -> list[Account]:
    """Returns the accounts of a site, or the one of that name. Raises `NotFoundError` if there is
    none, and `ConfigError` without a secrets file."""
    own = settings.of(AccountsSettings)
    if own.accounts is None:
        raise ConfigError(
            "SCRAPER_ACCOUNTS is not set (fix: set it to a file as in docs/how-to/logins.md)"
        )
    group = account_group(site)
    listed = file.read_accounts(own.accounts).get(group, [])
    chosen = [entry for entry in listed if account in (None, entry.name)]
    if not chosen:
        which = f"an account {account!r} of {group}" if account else f"an account of {group}"
        raise NotFoundError(
            f"{own.accounts}: does not have {which} (`scraper login list` shows them)"
        )
    return chosen
