"""The accounts that a worker process is logged in with.

A page of a site with a `login:` gets a session (cookies, headers, one browser, one proxy), or
waits: it is never requested without one. When a login runs out, a thousand pages in many processes
may see it, and each reports the generation that it was fetched with
(`scraper.plugins.accounts.store`). One process logs in again, if that generation is still the last
one. Pages wait for their own process, at most as long as their batch may last; all others go back
to the frontier, uncharged.

Sessions are in Redis, sealed (`scraper.plugins.accounts.vault`), so that a login outlives the
process that made it. Each process writes back what a Redis has lost.

One logged-out page only raises a doubt, since some pages look logged out with any login. A good
page that leaves later clears the doubt; another logged-out one confirms it. So one odd page does
not throw away a good login.

`scraper.plugins.accounts.login.attempt` makes the login. robots.txt does not apply to its
requests: it is for pages, and shops disallow their login pages, but
the account's owner has named this one."""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

import structlog

from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, LeasedPage, Outcome
from scraper.errors import ConfigError, DeferredError, FetchError, NoLoginError
from scraper.http.account_session import AccountSession
from scraper.http.fetcher import HttpFetcher
from scraper.plugins.accounts.file import Account, AccountFile
from scraper.plugins.accounts.login.attempt import LOGIN_S, LoginAttempts, Made
from scraper.plugins.accounts.login.form import LoginTrouble
from scraper.plugins.accounts.login_keys import account_group, login_of
from scraper.plugins.accounts.policy import FREE_TIMES
from scraper.plugins.accounts.status import AccountStatus, LoginLockResult
from scraper.plugins.accounts.store import LoginStore
from scraper.plugins.accounts.vault import LoginVault
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.proxies.pool import ProxyPool
from scraper.settings import Settings

log = structlog.get_logger()

LOCK_S = LOGIN_S + 15.0
KEPT_EVERY_S = 2.0
# Cookies that changed on the way are written so often at the most.
SAVED_EVERY_S = 5.0
UNUSED_S = 600.0
# A page that was logged out comes back after this.
AGAIN_S = 1.0
# An account that rests is looked at so often: an operator may have fixed it.
ASKED_EVERY_S = 10.0
# Without any account, or a key, pages wait so long.
WAIT_S = 30.0
# A login is renewed when so much of its time is left.
EARLY = 0.02
SEALED_MAX = 256_000

Get = Callable[[AccountSession], Awaitable[Fetched]]


@dataclass(slots=True)
class _AccountState:
    """What this process knows of an account. Times are the loop's."""

    account: Account
    marks: list[str]
    identity: AccountSession | None = None
    # Its login has run out.
    over: bool = False
    until: float = math.inf
    expires_us: int = 0
    revision: int = 0
    # This is the last generation that is over, or that we cannot open.
    seen: int = 0
    ask_at: float = 0.0
    why: str = ""
    quarantined: bool = False
    # This is when the last request left whose answer was good.
    good_began: float = -math.inf
    # This is when a page was logged out, while nobody can say yet whether all are.
    doubt_at: float | None = None
    used_at: float = 0.0
    saved_at: float = -math.inf
    task: asyncio.Task[None] | None = None

    def usable(self, now: float) -> bool:
        return self.identity is not None and not self.over and now < self.until


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """What one login came to, for people."""

    account: str
    worked: bool
    saw: str
    kind: str = ""
    cookies: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    lasts_s: float | None = None
    stored: bool = False


class Logins:
    """One a process, on its loop."""

    def __init__(
        self,
        *,
        fetcher: HttpFetcher,
        pool: ProxyPool,
        limiters: HostLimiters,
        file: AccountFile,
        store: LoginStore,
        settings: Settings,
        rng: random.Random,
    ) -> None:
        self._attempts = LoginAttempts(fetcher, pool, limiters, settings.site_function_modules)
        self._vault = LoginVault(settings)
        self._file = file
        self._store = store
        self._rng = rng
        self._states: dict[tuple[str, str, str], _AccountState] = {}  # by site, group, account
        self._looked = False

    async def visit(
        self, page: LeasedPage, context: CrawlContext, latest: float, permits: PagePermits, get: Get
    ) -> Fetched:
        """The page as an account sees it, by `get`, which goes by `trip`. Raises what `get` raises,
        `NoLoginError` where the page is to wait, FetchError(LOGIN_FAILED) where it need not, and
        FetchError(LOGGED_OUT): with `retry_after_s` where the page is to come back for free."""
        state = await self._pick_account(page, context, latest)
        identity = state.identity
        assert identity is not None
        try:
            fetched = await get(identity)
        except FetchError as error:
            if error.outcome is not Outcome.LOGGED_OUT:
                raise
            raise await self._out(
                state, identity, page, permits, str(error), error.url, error.status
            ) from None
        sign = context.logged_out(fetched)
        if sign is not None:
            why = f"the answer looks logged out ({sign})"
            raise await self._out(state, identity, page, permits, why, fetched.url, fetched.status)
        if fetched.status < 400:
            state.good_began = max(state.good_began, permits.began)
            if state.doubt_at is not None and permits.began >= state.doubt_at:
                state.doubt_at = None
            if not identity.proven:
                identity.proven = True
                with suppress(DeferredError):
                    await self._store.prove(identity.site, identity.account, identity.generation)
        return fetched

    async def run(self) -> None:
        """Keeps what is known until it is cancelled."""
        while True:
            await asyncio.sleep(KEPT_EVERY_S)
            try:
                await self.keep()
            except Exception:
                log.exception("could not keep the logins")

    async def close(self, seconds: float = 2.0) -> None:
        """Writes changed cookies, and gives up logins under way, so that others need not wait for
        their locks to end."""
        tasks = [state.task for state in self._states.values() if state.task is not None]
        for task in tasks:
            task.cancel()
        with suppress(TimeoutError, DeferredError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*tasks, return_exceptions=True)
                for state in self._states.values():
                    await self._save(state, 0.0)

    async def keep(self) -> None:
        """Once: takes over a changed file, reads what others did, writes what changed here."""
        if not self._states:
            return
        self._look()
        now = asyncio.get_running_loop().time()
        for key, state in list(self._states.items()):
            if state.task is None and now - state.used_at > UNUSED_S:
                await self._save(state, 0.0)
                self._states.pop(key, None)
        # While Redis is away, what is known stays in use.
        with suppress(DeferredError):
            for state in list(self._states.values()):
                identity = state.identity
                if identity is not None and not state.over and state.task is None:
                    await self._compare(state, identity)

    async def check(self, context: CrawlContext, account: Account) -> LoginAttempt:
        """Logs the account in now, whatever it did before, and keeps the login where it works."""
        assert context.login is not None
        site, name, token = context.site.name, account.name, secrets.token_hex(8)
        marks = self._vault.marks(account)
        begun, _ = await self._store.acquire(
            site, name, token, seen=0, lock_s=LOCK_S, every_s=0.0, marks=marks, force=True
        )
        if begun is not LoginLockResult.ACQUIRED:
            return LoginAttempt(
                name,
                worked=False,
                saw="somebody is logging it in at this moment (try again)",
                kind=begun.value,
            )
        try:
            result, stored = await self._make(context, account, token, marks[0])
        except DeferredError as deferred:
            why = (
                str(deferred)
                if isinstance(deferred, NoLoginError)
                else "its host has no turn for it now, or no proxy"
            )
            return LoginAttempt(name, worked=False, saw=why, kind="deferred")
        if isinstance(result, LoginTrouble):
            return LoginAttempt(name, worked=False, saw=str(result), kind=result.kind)
        return LoginAttempt(
            name,
            worked=True,
            saw=result.grant.saw,
            cookies=tuple(sorted(result.identity.jar.cookie_names())),
            headers=tuple(sorted(result.identity.headers)),
            lasts_s=result.grant.lasts_s,
            stored=stored is not None,
        )

    async def _make(
        self, context: CrawlContext, account: Account, token: str, mark: str
    ) -> tuple[Made | LoginTrouble, AccountStatus | None]:
        """The login of whoever has the lock, and how the account stands then: None where somebody
        else took over meanwhile. It lets go of the lock, however that ends."""
        names = context.site.name, account.name
        try:
            worked = await self._attempts.make(context, account)
        except LoginTrouble as trouble:
            return trouble, await self._store.record_failure(
                *names, token, trouble.kind, str(trouble)
            )
        except BaseException:
            with suppress(DeferredError):
                await self._store.record_failure(*names, token, None, "")
            raise
        sealed, lasts_s = self._vault.sealed(worked.identity), worked.grant.lasts_s
        return worked, await self._store.store_login(*names, token, sealed, lasts_s, mark)

    # Whom a page is asked for by.

    async def _pick_account(
        self, page: LeasedPage, context: CrawlContext, latest: float
    ) -> _AccountState:
        loop = asyncio.get_running_loop()
        candidates = self._accounts_of(page, context)
        while True:
            now = loop.time()
            first = candidates[0]
            if first.usable(now):
                first.used_at = now
                return first
            for state in candidates:
                state.used_at = now
                if not state.usable(now) and state.task is None and now >= state.ask_at:
                    self._begin(state, context)
            fit = next((state for state in candidates if state.usable(now)), None)
            if fit is not None:
                return fit
            tasks = [state.task for state in candidates if state.task is not None]
            if not tasks or now >= latest:
                break
            await asyncio.wait(tasks, timeout=latest - now, return_when=asyncio.FIRST_COMPLETED)
        if all(state.quarantined for state in candidates):
            reasons = "; ".join(
                f"account {state.account.name}: {state.why}" for state in candidates[:3]
            )
            raise FetchError(Outcome.LOGIN_FAILED, f"nobody can log in ({reasons})", url=page.url)
        ask_at = min(state.ask_at for state in candidates)
        wait_s = max(ask_at - now, AGAIN_S) * self._rng.uniform(1.0, 1.5)
        reason = next((state.why for state in candidates if state.why), "somebody is logging in")
        raise NoLoginError(f"not logged in: {reason}", wait_s)

    def _accounts_of(self, page: LeasedPage, context: CrawlContext) -> list[_AccountState]:
        """The accounts, that which is the page's own first. Raises `NoLoginError`."""
        assert context.login is not None
        site = context.site.name
        group = account_group(context.site)
        if not self._looked:
            self._looked = True
            self._file.refresh()
        accounts = self._file.groups.get(group)
        if not accounts:
            if self._file.path is None:
                raise NoLoginError("this worker has no SCRAPER_ACCOUNTS", WAIT_S)
            raise NoLoginError(f"{group!r} has no account in the file of this worker", WAIT_S)
        start = page.id % len(accounts)
        states = []
        for account in accounts if not start else accounts[start:] + accounts[:start]:
            state = self._states.get((site, group, account.name))
            if state is None:
                state = self._states[site, group, account.name] = _AccountState(
                    account, self._marks(account)
                )
            states.append(state)
        return states

    def _look(self) -> None:
        version = self._file.version
        self._file.refresh()
        if self._file.version != version:
            for (site, group, name), state in list(self._states.items()):
                now_listed = {account.name: account for account in self._file.groups.get(group, [])}
                if now_listed.get(name) != state.account and state.task is None:
                    del self._states[site, group, name]

    def _marks(self, account: Account) -> list[str]:
        try:
            return self._vault.marks(account)
        except ConfigError as error:
            raise NoLoginError(str(error), WAIT_S) from None

    # One login for all.

    def _begin(self, state: _AccountState, context: CrawlContext) -> None:
        """In a task of its own: the page that asked first may have to go before it is done."""
        state.task = asyncio.get_running_loop().create_task(self._log_in_guarded(state, context))

    async def _log_in_guarded(self, state: _AccountState, context: CrawlContext) -> None:
        try:
            state.quarantined = False
            await self._log_in(state, context)
        except DeferredError as deferred:
            why = "what its host or Redis has to say must be waited for"
            self._ask_in(state, deferred.delay_s, why)
        except Exception as error:
            # This is a fault of ours, which must not take the pages with it.
            log.exception("login crashed", site=context.site.name, account=state.account.name)
            self._ask_in(state, ASKED_EVERY_S, f"our own fault: {type(error).__name__}")
        finally:
            state.task = None

    async def _log_in(self, state: _AccountState, context: CrawlContext) -> None:
        assert context.login is not None
        site, account = context.site.name, state.account
        if state.identity is not None:
            state.seen = max(state.seen, state.identity.generation)
        token = secrets.token_hex(8)
        login = login_of(context.site)
        begun, standing = await self._store.acquire(
            site,
            account.name,
            token,
            seen=state.seen,
            lock_s=LOCK_S,
            every_s=login.every_s,
            marks=state.marks,
        )
        match begun:
            case LoginLockResult.ACQUIRED:
                await self._perform(state, context, token)
            case LoginLockResult.NEWER:
                self._take(state, site, standing, context)
            case LoginLockResult.RESTING:
                self._rests(state, standing)
            case LoginLockResult.TOO_SOON:
                wait_s = max(0.0, login.every_s - (standing.tried_ago_s or 0.0))
                self._ask_in(state, wait_s, f"it logs in once in {login.every} at the most")
            case LoginLockResult.BUSY:
                self._ask_in(state, min(AGAIN_S, standing.locked_s), "another worker logs in")
            case never:
                assert_never(never)

    async def _perform(self, state: _AccountState, context: CrawlContext, token: str) -> None:
        """The lock is ours."""
        account_log = log.bind(site=context.site.name, account=state.account.name)
        result, standing = await self._make(context, state.account, token, state.marks[0])
        if standing is None:
            self._ask_in(state, AGAIN_S, "another worker took over")
        elif isinstance(result, LoginTrouble):
            account_log.warning(
                "login failed",
                kind=result.kind,
                reason=str(result),
                quarantined=standing.quarantined,
                again_in_s=round(standing.rest_s),
            )
            self._rests(state, standing)
        else:
            account_log.info("logged in", saw=result.grant.saw)
            result.identity.generation = standing.generation
            self._use(state, result.identity, standing)

    # What is known.

    def _use(self, state: _AccountState, identity: AccountSession, standing: AccountStatus) -> None:
        now = asyncio.get_running_loop().time()
        state.identity, state.over, state.why, state.quarantined = identity, False, "", False
        state.revision, state.expires_us, state.until = (
            standing.revision,
            standing.expires_us,
            math.inf,
        )
        state.good_began, state.doubt_at, state.ask_at = -math.inf, None, 0.0
        identity.proven = standing.proven
        if standing.expires_in_s is not None:
            state.until = now + standing.expires_in_s * (1 - EARLY)

    def _rests(self, state: _AccountState, standing: AccountStatus) -> None:
        state.quarantined = standing.quarantined
        why = f"{standing.kind}: {standing.why}" if standing.kind else "it rests"
        self._ask_in(state, min(max(standing.rest_s, AGAIN_S), ASKED_EVERY_S), why)

    @staticmethod
    def _ask_in(state: _AccountState, seconds: float, why: str) -> None:
        """Nobody asks for this account's login before then."""
        state.ask_at = asyncio.get_running_loop().time() + seconds
        state.why = why

    def _take(
        self, state: _AccountState, site: str, standing: AccountStatus, context: CrawlContext
    ) -> bool:
        """Another's login, if we can open it: True. It counts as over where it has run out."""
        identity = self._vault.opened(site, state.account, standing, context)
        if identity is None:
            state.seen = max(state.seen, standing.generation)
            return False
        self._use(state, identity, standing)
        return True

    async def _compare(self, state: _AccountState, identity: AccountSession) -> None:
        """What Redis has of it, beside ours: a later login, others' cookies, or nothing any
        more."""
        standing = await self._store.read(identity.site, identity.account)
        if state.identity is not identity:
            return  # meanwhile
        if standing.generation == 0:
            restored = await self._store.restore(
                identity.site,
                identity.account,
                identity.generation,
                self._vault.sealed(identity),
                state.expires_us,
                state.marks[0],
                proven=identity.proven,
            )
            if restored.generation == 0:
                state.identity, state.seen, state.ask_at = None, 0, 0.0
            state.revision = 0
            return
        if standing.generation > identity.generation:
            # Otherwise ours is good for as long as it lasts.
            if self._vault.opens(standing):
                state.over, state.ask_at = True, 0.0
            return
        if standing.generation == identity.generation:
            if standing.revision != state.revision and self._vault.merge(identity, standing):
                state.revision = standing.revision
            await self._save(state, SAVED_EVERY_S)

    async def _save(self, state: _AccountState, every_s: float) -> None:
        identity, now = state.identity, asyncio.get_running_loop().time()
        if (
            identity is None
            or state.over
            or not identity.jar.changed
            or now - state.saved_at < every_s
        ):
            return
        sealed = self._vault.sealed(identity)
        if len(sealed) > SEALED_MAX:
            return
        state.saved_at = now
        saved = await self._store.save_cookies(
            identity.site, identity.account, identity.generation, state.revision, sealed
        )
        if saved is not None:
            identity.jar.mark_saved()
            state.revision = saved.revision

    async def _out(
        self,
        state: _AccountState,
        identity: AccountSession,
        page: LeasedPage,
        permits: PagePermits,
        why: str,
        url: str | None,
        status: int | None,
    ) -> FetchError:
        """Somebody was logged out. Whether their login is over, and whether the page has to pay for
        it: where others were good that left after it was last logged out, or where it is so with
        every login."""
        now = asyncio.get_running_loop().time()
        certain = (
            state.identity is identity
            and state.doubt_at is not None
            and permits.began >= state.doubt_at
        )
        if state.identity is identity and state.doubt_at is None:
            state.doubt_at = now
        try:
            times, ago_s, standing = await self._store.record_logged_out(
                identity.site,
                identity.account,
                identity.generation,
                page.id,
                f"logged in, but {why}",
                certain=certain,
            )
        except DeferredError as deferred:
            return FetchError(
                Outcome.LOGGED_OUT, why, url=url, status=status, retry_after_s=deferred.delay_s
            )
        mine = state.identity is identity and not state.over
        if mine and certain and times <= FREE_TIMES:
            log.info("logged out", site=identity.site, account=identity.account, reason=why)
            state.over = True
            if standing.rest_s > 0 and standing.generation == identity.generation:
                self._rests(state, standing)
        alone = mine and not certain and ago_s is not None and now - ago_s < state.good_began
        pays = alone or times > FREE_TIMES
        again_s = None if pays else AGAIN_S * self._rng.uniform(0.5, 1.5)
        return FetchError(Outcome.LOGGED_OUT, why, url=url, status=status, retry_after_s=again_s)
