"""One login of one account through its own proxy: by a form, a token, or a function of the site.

Its requests need their host's permits, and get them before all pages, which wait for the login.
`scraper.plugins.accounts.pool` decides when to log in, and what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from scraper.crawl.context import CrawlContext
from scraper.domain import Kind, ProxySignal
from scraper.http.account_session import AccountSession
from scraper.http.cookies import AccountJar
from scraper.http.fetcher import HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.plugins.accounts.file import Account
from scraper.plugins.accounts.login.form import Grant, LoginClient, LoginTrouble, log_in
from scraper.plugins.accounts.login_keys import account_group, login_of, login_url, signs_of
from scraper.plugins.accounts.policy import Trouble
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.proxies.health import EVERYWHERE
from scraper.proxies.pool import ProxyPool
from scraper.rules.urls import host_of
from scraper.sites import functions

# A login takes at most this long, waits for permits included.
LOGIN_S = 60.0
# A request of a login waits this long for its permit.
PERMIT_S = 15.0
# A login goes before all pages, which wait for it.
URGENCY = 1_000


@dataclass(slots=True)
class Made:
    """A login that has just worked."""

    identity: AccountSession
    grant: Grant = field(repr=False)


@dataclass(eq=False)
class LoginAttempts:
    """Makes the logins of one process. `allowed`: the modules whose functions may log in."""

    fetcher: HttpFetcher
    pool: ProxyPool
    limiters: HostLimiters
    allowed: Collection[str]

    async def make(self, context: CrawlContext, account: Account) -> Made:
        """Logs the account in. Raises `LoginTrouble` and `DeferredError`."""
        site = context.site
        first = login_url(site)
        misdirected = account.misdirected(site.name, account_group(site), host_of(first))
        if misdirected is not None:
            raise LoginTrouble(Trouble.MISFIT, misdirected)
        identity = make_account_session(context, account)
        need = context.needs[Kind.PRODUCT]
        policy = login_policy(context, account)
        loop, permits, limiters = asyncio.get_running_loop(), PagePermits(), []
        route: ProxyRoute | None = None
        function = self._resolve_function(login_of(site).function)

        async def acquire_permit(url: str) -> None:
            limiter: HostLimiter = self.limiters.for_host(host_of(url))
            limiter.set_budget(context.site_id, context.budget)
            limiter.pending += 1
            limiters.append(limiter)
            await permits.acquire(limiter, loop.time() + PERMIT_S, URGENCY)

        try:
            async with asyncio.timeout(LOGIN_S):
                if need is not None:
                    route = await self.pool.lend(
                        replace(need, account=identity.seed), host_of(first)
                    )
                client = LoginClient(self.fetcher, policy, identity, acquire_permit, route)
                grant = await log_in(
                    signs_of(login_of(site)), account.values, account, client, identity, function
                )
        except TimeoutError:
            raise LoginTrouble(Trouble.UNAVAILABLE, f"not done within {LOGIN_S:g} s") from None
        except LoginTrouble as trouble:
            if route is not None:
                await self._report_to_pool(route, host_of(first), trouble)
            raise LoginTrouble(trouble.kind, account.hidden(str(trouble))) from None
        finally:
            permits.release()
            for limiter in limiters:
                limiter.pending -= 1
        identity.headers = grant.headers
        return Made(identity, grant)

    def _resolve_function(self, name: str | None) -> Callable[..., Any] | None:
        """Returns the login function of the definition. Raises `LoginTrouble`."""
        if name is None:
            return None
        try:
            return functions.resolve_function(name, self.allowed)
        except ImportError as error:
            raise LoginTrouble(Trouble.MISFIT, str(error)) from None

    async def _report_to_pool(self, route: ProxyRoute, host: str, trouble: LoginTrouble) -> None:
        self.pool.record_requests(route, host)
        match trouble.signal:
            case ProxySignal.UNUSABLE:
                await self.pool.strike(route, EVERYWHERE, ProxySignal.UNUSABLE.value)
            case ProxySignal.DENIED:
                await self.pool.strike(route, host, ProxySignal.DENIED.value)
            case _:
                if trouble.kind is Trouble.UNAVAILABLE:
                    self.pool.record_failure(route, host)


def login_policy(context: CrawlContext, account: Account) -> FetchPolicy:
    """Returns the site's policy, limited to the hosts of the account's group."""
    return replace(
        context.policy,
        proxied=context.needs[Kind.PRODUCT] is not None,
        allowed=confine_to_group(context.policy.allowed, account),
    )


def confine_to_group(
    allowed: Callable[[str], bool] | None, account: Account
) -> Callable[[str], bool]:
    """Returns the check of hosts for a login's requests and redirects: `allowed`, if the account's
    group allows the host, too."""

    def may_request(host: str) -> bool:
        return account.may_go_to(host) and (allowed is None or allowed(host))

    return may_request


def make_account_session(context: CrawlContext, account: Account) -> AccountSession:
    """Returns a session of the account without cookies and headers."""
    login, site = login_of(context.site), context.site
    first = login_url(site)
    hosts = {host_of(first), *login.hosts}
    if login.url is None:
        hosts |= {
            host_of(url) for url in (*site.start, *(site.sitemap.urls if site.sitemap else ()))
        }
    jar = AccountJar(secure_only=first.startswith("https:"))
    permitted = frozenset(
        host for host in hosts if not account.misdirected(site.name, account_group(site), host)
    )
    return AccountSession(site.name, account.name, 0, jar, {}, permitted)
