"""Where the core calls the plug-in `accounts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from scraper.cli.common.shared import open_redis
from scraper.crawl.login_signs import LoginSigns
from scraper.plugin import Hooks
from scraper.plugins.accounts import store
from scraper.plugins.accounts.file import read_accounts as read_accounts
from scraper.plugins.accounts.login_keys import (
    AccountsKeys,
    account_group,
    login_url,
    signs_of,
)
from scraper.plugins.accounts.settings import AccountsSettings
from scraper.plugins.accounts.status import STATES
from scraper.rules.urls import host_of
from scraper.settings import Settings
from scraper.sites.definition import Site

if TYPE_CHECKING:
    from prometheus_client import Metric
    from redis import Redis


class AccountsHooks(Hooks):
    def login_signs(self, site: Site) -> LoginSigns | None:
        login = site.of(AccountsKeys).login
        return None if login is None else signs_of(login)

    def named_functions(self, site: Site) -> Mapping[str, str | None]:
        login = site.of(AccountsKeys).login
        return {"login.function": login.function if login is not None else None}

    def check_site(self, site: Site, settings: Settings) -> Iterator[tuple[str, str]]:
        """Yields the keys by which a login would send accounts to a forbidden host."""
        path, login = settings.of(AccountsSettings).accounts, site.of(AccountsKeys).login
        if path is None or login is None:
            return
        group = account_group(site)
        # All accounts of a group have its hosts.
        for account in read_accounts(path).get(group, [])[:1]:
            reason = account.misdirected(site.name, group, host_of(login_url(site)))
            if reason is not None:
                yield "login.accounts" if login.accounts else "login", reason

    def forget_site(self, settings: Settings, site_id: int, name: str) -> None:
        with open_redis(settings) as client:
            for site, account in store.list_accounts(client):
                if site == name:
                    store.forget_account(client, site, account)

    def fleet_metrics(self, client: Redis) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        accounts = GaugeMetricFamily(
            "scraper_accounts",
            "Accounts of sites with a login, by state",
            labels=["site", "state"],
        )
        states = Counter(
            (site, account.state)
            for (site, _), account in store.read_states(client).items()
            if account.known
        )
        for site in sorted({site for site, _ in states}):
            for state in STATES:
                accounts.add_metric([site, state.replace(" ", "_")], states[site, state])
        yield accounts

    def secret_values(self, settings: Settings) -> Iterable[str]:
        own = settings.of(AccountsSettings)
        yield from (key.strip() for key in (own.secret_key or "").split(","))
        if own.accounts is not None:
            for accounts in read_accounts(own.accounts).values():
                for account in accounts:
                    yield from account.values.values()


HOOKS = AccountsHooks()
