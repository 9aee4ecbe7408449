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
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
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
from scraper.plugins.accounts.pooled_account import PooledAccount
from scraper.plugins.accounts.status import AccountStatus, LoginLockResult
from scraper.plugins.accounts.store import LoginStore
from scraper.plugins.accounts.vault import LoginVault
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.proxies.pool import ProxyPool
from scraper.settings import Settings

log = structlog.get_logger()

LOCK_S = LOGIN_S + 15.0
SYNC_EVERY_S = 2.0
# Cookies that pages changed are written at most this often.
SAVED_EVERY_S = 5.0
UNUSED_S = 600.0
# A page that was logged out comes back after this time.
AGAIN_S = 1.0
# A resting account is checked this often: an operator may have fixed it.
ASKED_EVERY_S = 10.0
# Pages wait this long for an account, or for a key, that the worker lacks.
WAIT_S = 30.0
SEALED_MAX = 256_000

Get = Callable[[AccountSession], Awaitable[Fetched]]


@dataclass(frozen=True, slots=True)
class LoggedOutAnswer:
    """What showed that a page was logged out."""

    why: str
    url: str | None
    status: int | None


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """The result of an operator's check. `saw` says what showed it."""

    account: str
    worked: bool
    saw: str
    kind: str = ""
    cookies: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    lasts_s: float | None = None
    stored: bool = False


class AccountPool:
    """The accounts of one process, on its loop."""

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
        # By site, group and account.
        self._accounts: dict[tuple[str, str, str], PooledAccount] = {}
        self._file_read = False

    async def fetch_as_account(
        self, page: LeasedPage, context: CrawlContext, latest: float, permits: PagePermits, get: Get
    ) -> Fetched:
        """Fetches the page with `get`, logged in as an account. Raises what `get` raises,
        `NoLoginError` if the page has to wait, FetchError(LOGIN_FAILED) if waiting would not help,
        and FetchError(LOGGED_OUT), with `retry_after_s` if the page comes back uncharged."""
        account = await self._pick_account(page, context, latest)
        session = account.session
        assert session is not None
        try:
            fetched = await get(session)
        except FetchError as error:
            if error.outcome is not Outcome.LOGGED_OUT:
                raise
            answer = LoggedOutAnswer(str(error), error.url, error.status)
            raise await self._record_logged_out(account, session, page, permits, answer) from None
        sign = context.logged_out(fetched)
        if sign is not None:
            why = f"the answer looks logged out ({sign})"
            answer = LoggedOutAnswer(why, fetched.url, fetched.status)
            raise await self._record_logged_out(account, session, page, permits, answer)
        if fetched.status < 400:
            account.record_good_page(permits.began)
            if not session.proven:
                session.proven = True
                with suppress(DeferredError):
                    await self._store.prove(session.site, session.account, session.generation)
        return fetched

    async def run(self) -> None:
        """Synchronizes with Redis until it is cancelled."""
        while True:
            await asyncio.sleep(SYNC_EVERY_S)
            try:
                await self.sync()
            except Exception:
                log.exception("could not synchronize the accounts with Redis")

    async def close(self, seconds: float = 2.0) -> None:
        """Writes changed cookies and cancels logins, so that other processes need not wait for
        their locks to expire."""
        tasks = [state.login for state in self._accounts.values() if state.login is not None]
        for task in tasks:
            task.cancel()
        with suppress(TimeoutError, DeferredError):
            async with asyncio.timeout(seconds):
                if tasks:
                    await asyncio.wait(tasks)
                for state in self._accounts.values():
                    await self._save_cookies(state, 0.0)

    async def sync(self) -> None:
        """Reads a changed file and the logins of other processes, and writes changed cookies."""
        if not self._accounts:
            return
        self._refresh_file()
        now = asyncio.get_running_loop().time()
        # While Redis is away, the sessions stay in use.
        with suppress(DeferredError):
            for key, state in list(self._accounts.items()):
                if state.login is None and now - state.used_at > UNUSED_S:
                    await self._save_cookies(state, 0.0)
                    self._accounts.pop(key, None)
            for state in list(self._accounts.values()):
                session = state.session
                if session is not None and state.logged_in and state.login is None:
                    await self._sync_session(state, session)

    async def check(self, context: CrawlContext, account: Account) -> LoginAttempt:
        """Logs the account in now, even if it rests, and stores the login if it works."""
        assert context.login is not None
        site, name, token = context.site.name, account.name, secrets.token_hex(8)
        marks = self._vault.marks(account)
        lock, _ = await self._store.acquire(
            site, name, token, seen=0, lock_s=LOCK_S, every_s=0.0, marks=marks, force=True
        )
        if lock is not LoginLockResult.ACQUIRED:
            return LoginAttempt(
                name,
                worked=False,
                saw="another process is logging it in (try again)",
                kind=lock.value,
            )
        try:
            result, stored = await self._attempt_login(context, account, token, marks[0])
        except DeferredError as deferred:
            why = (
                str(deferred)
                if isinstance(deferred, NoLoginError)
                else "its host has no permit for it now, or no proxy is free"
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

    async def _attempt_login(
        self, context: CrawlContext, account: Account, token: str, mark: str
    ) -> tuple[Made | LoginTrouble, AccountStatus | None]:
        """Logs in under the caller's lock, and releases it in every case. The status is None if
        another process has taken the lock."""
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
        sealed, lasts_s = self._vault.seal_session(worked.identity), worked.grant.lasts_s
        return worked, await self._store.store_login(*names, token, sealed, lasts_s, mark)

    async def _pick_account(
        self, page: LeasedPage, context: CrawlContext, latest: float
    ) -> PooledAccount:
        loop = asyncio.get_running_loop()
        candidates = self._accounts_of(page, context)
        while True:
            now = loop.time()
            first = candidates[0]
            if first.is_usable(now):
                first.used_at = now
                return first
            for state in candidates:
                state.used_at = now
                if not state.is_usable(now) and state.login is None and now >= state.ask_at:
                    self._start_login(state, context)
            fit = next((state for state in candidates if state.is_usable(now)), None)
            if fit is not None:
                return fit
            tasks = [state.login for state in candidates if state.login is not None]
            if not tasks or now >= latest:
                break
            await asyncio.wait(tasks, timeout=latest - now, return_when=asyncio.FIRST_COMPLETED)
        if all(state.quarantined for state in candidates):
            reasons = "; ".join(
                f"account {state.account.name}: {state.why}" for state in candidates[:3]
            )
            raise FetchError(
                Outcome.LOGIN_FAILED, f"no account can log in ({reasons})", url=page.url
            )
        ask_at = min(state.ask_at for state in candidates)
        wait_s = max(ask_at - now, AGAIN_S) * self._rng.uniform(1.0, 1.5)
        reason = next((state.why for state in candidates if state.why), "a login is under way")
        raise NoLoginError(f"not logged in: {reason}", wait_s)

    def _accounts_of(self, page: LeasedPage, context: CrawlContext) -> list[PooledAccount]:
        """Returns the accounts, with the page's own first. Raises `NoLoginError`."""
        assert context.login is not None
        site = context.site.name
        group = account_group(context.site)
        if not self._file_read:
            self._file_read = True
            self._file.refresh()
        accounts = self._file.groups.get(group)
        if not accounts:
            if self._file.path is None:
                raise NoLoginError("this worker has no SCRAPER_ACCOUNTS", WAIT_S)
            raise NoLoginError(f"{group!r} has no account in the file of this worker", WAIT_S)
        start = page.id % len(accounts)
        states = []
        for account in accounts if not start else accounts[start:] + accounts[:start]:
            state = self._accounts.get((site, group, account.name))
            if state is None:
                state = self._accounts[site, group, account.name] = PooledAccount(
                    account, self._marks(account)
                )
            states.append(state)
        return states

    def _refresh_file(self) -> None:
        version = self._file.version
        self._file.refresh()
        if self._file.version != version:
            for (site, group, name), state in list(self._accounts.items()):
                now_listed = {account.name: account for account in self._file.groups.get(group, [])}
                if now_listed.get(name) != state.account and state.login is None:
                    del self._accounts[site, group, name]

    def _marks(self, account: Account) -> list[str]:
        try:
            return self._vault.marks(account)
        except ConfigError as error:
            raise NoLoginError(str(error), WAIT_S) from None

    def _start_login(self, account: PooledAccount, context: CrawlContext) -> None:
        """Logs in as a task, since the page that asked first may have to leave before it ends."""
        task = self._log_in_guarded(account, context)
        account.login = asyncio.get_running_loop().create_task(task)

    async def _log_in_guarded(self, state: PooledAccount, context: CrawlContext) -> None:
        try:
            state.quarantined = False
            await self._log_in(state, context)
        except DeferredError as deferred:
            why = "its host or Redis defers the login"
            self._ask_in(state, deferred.delay_s, why)
        except Exception as error:
            # A fault of this application must not take the pages with it.
            log.exception("login crashed", site=context.site.name, account=state.account.name)
            self._ask_in(state, ASKED_EVERY_S, f"internal error: {type(error).__name__}")
        finally:
            state.login = None

    async def _log_in(self, state: PooledAccount, context: CrawlContext) -> None:
        assert context.login is not None
        site, account = context.site.name, state.account
        token = secrets.token_hex(8)
        login = login_of(context.site)
        lock, status = await self._store.acquire(
            site,
            account.name,
            token,
            seen=state.seen_generation,
            lock_s=LOCK_S,
            every_s=login.every_s,
            marks=state.marks,
        )
        match lock:
            case LoginLockResult.ACQUIRED:
                await self._perform(state, context, token)
            case LoginLockResult.NEWER:
                self._adopt_login(state, site, status, context)
            case LoginLockResult.RESTING:
                self._hold_back(state, status)
            case LoginLockResult.TOO_SOON:
                wait_s = max(0.0, login.every_s - (status.tried_ago_s or 0.0))
                self._ask_in(state, wait_s, f"it logs in at most once in {login.every}")
            case LoginLockResult.BUSY:
                self._ask_in(state, min(AGAIN_S, status.locked_s), "another worker logs in")
            case never:
                assert_never(never)

    async def _perform(self, state: PooledAccount, context: CrawlContext, token: str) -> None:
        """Logs in under the lock that this process holds."""
        account_log = log.bind(site=context.site.name, account=state.account.name)
        result, status = await self._attempt_login(context, state.account, token, state.marks[0])
        if status is None:
            self._ask_in(state, AGAIN_S, "another worker took over")
        elif isinstance(result, LoginTrouble):
            account_log.warning(
                "login failed",
                kind=result.kind,
                reason=str(result),
                quarantined=status.quarantined,
                again_in_s=round(status.rest_s),
            )
            self._hold_back(state, status)
        else:
            account_log.info("logged in", saw=result.grant.saw)
            result.identity.generation = status.generation
            self._use_session(state, result.identity, status)

    def _use_session(
        self, account: PooledAccount, session: AccountSession, status: AccountStatus
    ) -> None:
        account.use_session(session, status, asyncio.get_running_loop().time())

    def _hold_back(self, account: PooledAccount, status: AccountStatus) -> None:
        account.quarantined = status.quarantined
        why = f"{status.kind}: {status.why}" if status.kind else "it rests"
        self._ask_in(account, min(max(status.rest_s, AGAIN_S), ASKED_EVERY_S), why)

    @staticmethod
    def _ask_in(account: PooledAccount, seconds: float, why: str) -> None:
        """Attempts no login of this account in the next `seconds`."""
        account.ask_at = asyncio.get_running_loop().time() + seconds
        account.why = why

    def _adopt_login(
        self, account: PooledAccount, site: str, status: AccountStatus, context: CrawlContext
    ) -> None:
        """Uses another process's login, if this process has its key."""
        session = self._vault.open_session(site, account.account, status, context)
        if session is None:
            account.seen_generation = status.generation
        else:
            self._use_session(account, session, status)

    async def _sync_session(self, account: PooledAccount, session: AccountSession) -> None:
        """Takes over a later login or cookies from Redis, or restores what Redis has lost."""
        status = await self._store.read(session.site, session.account)
        if account.session is not session:
            # A login has replaced it during the call.
            return
        if status.generation == 0:
            await self._restore_session(account, session)
        elif status.generation > session.generation:
            # A login that cannot be opened does not replace a good session.
            if self._vault.opens(status):
                account.end_session()
                account.ask_at = 0.0
        elif status.generation == session.generation:
            if status.revision != account.revision and self._vault.merge(session, status):
                account.revision = status.revision
            await self._save_cookies(account, SAVED_EVERY_S)

    async def _restore_session(self, account: PooledAccount, session: AccountSession) -> None:
        restored = await self._store.restore(
            session.site,
            session.account,
            session.generation,
            self._vault.seal_session(session),
            account.expires_us,
            account.marks[0],
            proven=session.proven,
        )
        # An operator had it forgotten.
        if restored.generation == 0:
            account.forget_session()
        account.revision = 0

    async def _save_cookies(self, account: PooledAccount, every_s: float) -> None:
        session, now = account.session, asyncio.get_running_loop().time()
        if (
            session is None
            or not account.logged_in
            or not session.jar.changed
            or now - account.saved_at < every_s
        ):
            return
        sealed = self._vault.seal_session(session)
        if len(sealed) > SEALED_MAX:
            return
        account.saved_at = now
        saved = await self._store.save_cookies(
            session.site, session.account, session.generation, account.revision, sealed
        )
        if saved is not None:
            session.jar.mark_saved()
            account.revision = saved.revision

    async def _record_logged_out(
        self,
        account: PooledAccount,
        session: AccountSession,
        page: LeasedPage,
        permits: PagePermits,
        answer: LoggedOutAnswer,
    ) -> FetchError:
        """Decides whether the login is over, and returns the page's error. The page is charged if
        later requests of this session were good, or if it is logged out with every login."""
        now, why, certain = asyncio.get_running_loop().time(), answer.why, False
        if account.session is session:
            certain = account.trust.is_confirmed_by(permits.began)
            account.trust = account.trust.after_logged_out_page(now)
        error = partial(FetchError, Outcome.LOGGED_OUT, why, url=answer.url, status=answer.status)
        try:
            times, ago_s, status = await self._store.record_logged_out(
                session.site,
                session.account,
                session.generation,
                page.id,
                f"logged in, but {why}",
                certain=certain,
            )
        except DeferredError as deferred:
            return error(retry_after_s=deferred.delay_s)
        current = account.session is session and account.logged_in
        if current and certain and times <= FREE_TIMES:
            log.info("logged out", site=session.site, account=session.account, reason=why)
            account.end_session()
            if status.rest_s > 0 and status.generation == session.generation:
                self._hold_back(account, status)
        only_this_page = (
            current and not certain and ago_s is not None and now - ago_s < account.good_began
        )
        if only_this_page or times > FREE_TIMES:
            return error()
        return error(retry_after_s=AGAIN_S * self._rng.uniform(0.5, 1.5))
