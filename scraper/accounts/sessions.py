"""The accounts as one worker process has them: who is logged in, who logs in when nobody is, and
what a logged-out page leads to.

A page of a site with a `login:` gets an identity (cookies, headers, one browser, one proxy), or
waits: never is it asked for without. Of a login that has run out a thousand pages learn, in any
number of processes, and all tell Redis which generation it was (`scraper.accounts.store`); one of
them logs in again, if that is still the last one. Pages of the process that does wait for it, no
longer than their batch may last; all others go back to the frontier, uncharged.

What an account leaves is in Redis, sealed (`scraper.accounts.vault`), so that a login outlives its
process, and its process a Redis that forgets.

One logged-out page is a doubt, no more: some look so whatever one does. A page that leaves later
and is good takes the doubt away, and one that is logged out, too, makes it certain. So a login that
is good is not thrown away for a page that is not.

The login itself is `scraper.accounts.login`'s. robots.txt is not asked for its requests: it tells
crawlers what not to look for, and shops disallow their login pages; this one an account's owner has
named.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from scraper.accounts.file import Account, AccountFile
from scraper.accounts.form import LoginTrouble
from scraper.accounts.login import LOGIN_S, LoginAttempts
from scraper.accounts.policy import FREE_TIMES
from scraper.accounts.store import LoginStore, Standing
from scraper.accounts.vault import LoginVault
from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, LeasedPage, Outcome
from scraper.errors import ConfigError, DeferredError, FetchError, NoLoginError
from scraper.http.account_session import AccountSession
from scraper.http.fetcher import HttpFetcher
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.page_permits import PagePermits
from scraper.proxies.pool import ProxyPool
from scraper.settings import Settings

log = structlog.get_logger()

LOCK_S = LOGIN_S + 15.0
KEPT_EVERY_S = 2.0
# cookies that changed on the way are written so often at the most
SAVED_EVERY_S = 5.0
UNUSED_S = 600.0
# until a page that was logged out comes back
AGAIN_S = 1.0
# of an account that rests: an operator may have mended it
ASKED_EVERY_S = 10.0
# without an account at all, or a key
WAIT_S = 30.0
# a login is renewed when so much of its time is left
EARLY = 0.02
SEALED_MAX = 256_000

Get = Callable[[AccountSession], Awaitable[Fetched]]


@dataclass(slots=True)
class _Known:
    """What this process knows of an account. Times are the loop's."""

    account: Account
    marks: list[str]
    identity: AccountSession | None = None
    # its login has run out
    over: bool = False
    until: float = math.inf
    expires_us: int = 0
    revision: int = 0
    # the last generation that is over, or that we cannot open
    seen: int = 0
    ask_at: float = 0.0
    why: str = ""
    quarantined: bool = False
    # when the last request left whose answer was good
    good_began: float = -math.inf
    # when a page was logged out, and nobody can say yet whether all are
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
        self._attempts = LoginAttempts(fetcher, pool, limiters)
        self._vault = LoginVault(settings)
        self._file = file
        self._store = store
        self._rng = rng
        self._known: dict[tuple[str, str, str], _Known] = {}  # by site, group, account
        self._looked = False

    async def visit(
        self, page: LeasedPage, context: CrawlContext, latest: float, permits: PagePermits, get: Get
    ) -> Fetched:
        """The page as an account sees it, by `get`, which goes by `trip`. Raises what `get` raises,
        `NoLoginError` where the page is to wait, FetchError(LOGIN_FAILED) where it need not, and
        FetchError(LOGGED_OUT): with `retry_after_s` where the page is to come back for free."""
        known = await self._one(page, context, latest)
        identity = known.identity
        assert identity is not None
        try:
            fetched = await get(identity)
        except FetchError as error:
            if error.outcome is not Outcome.LOGGED_OUT:
                raise
            raise await self._out(
                known, identity, page, permits, str(error), error.url, error.status
            ) from None
        sign = context.logged_out(fetched)
        if sign is not None:
            why = f"the answer looks logged out ({sign})"
            raise await self._out(known, identity, page, permits, why, fetched.url, fetched.status)
        if fetched.status < 400:
            known.good_began = max(known.good_began, permits.began)
            if known.doubt_at is not None and permits.began >= known.doubt_at:
                known.doubt_at = None
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
        tasks = [known.task for known in self._known.values() if known.task is not None]
        for task in tasks:
            task.cancel()
        with suppress(TimeoutError, DeferredError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*tasks, return_exceptions=True)
                for known in self._known.values():
                    await self._save(known, 0.0)

    async def keep(self) -> None:
        """Once: takes over a changed file, reads what others did, writes what changed here."""
        if not self._known:
            return
        self._look()
        now = asyncio.get_running_loop().time()
        for key, known in list(self._known.items()):
            if known.task is None and now - known.used_at > UNUSED_S:
                await self._save(known, 0.0)
                self._known.pop(key, None)
        # Redis is away: what is known stays in use
        with suppress(DeferredError):
            for known in list(self._known.values()):
                identity = known.identity
                if identity is not None and not known.over and known.task is None:
                    await self._compare(known, identity)

    async def check(self, context: CrawlContext, account: Account) -> LoginAttempt:
        """Logs the account in now, whatever it did before, and keeps the login where it works."""
        assert context.login is not None
        site, name, token = context.site.name, account.name, secrets.token_hex(8)
        marks = self._vault.marks(account)
        begun = await self._store.begin(
            site, name, token, seen=0, lock_s=LOCK_S, every_s=0.0, marks=marks, force=True
        )
        if begun.said != "yours":
            return LoginAttempt(
                name,
                worked=False,
                saw="somebody is logging it in at this moment (try again)",
                kind=begun.said,
            )
        try:
            made = await self._attempts.make(context, account)
        except LoginTrouble as trouble:
            await self._store.fail(site, name, token, trouble.kind, str(trouble))
            return LoginAttempt(name, worked=False, saw=str(trouble), kind=trouble.kind)
        except DeferredError as deferred:
            await self._store.fail(site, name, token, None, "")
            why = (
                str(deferred)
                if isinstance(deferred, NoLoginError)
                else "its host has no turn for it now, or no proxy"
            )
            return LoginAttempt(name, worked=False, saw=why, kind="deferred")
        except BaseException:
            await self._store.fail(site, name, token, None, "")
            raise
        stored = await self._store.store(
            site, name, token, self._vault.sealed(made.identity), made.grant.lasts_s, marks[0]
        )
        return LoginAttempt(
            name,
            worked=True,
            saw=made.grant.saw,
            cookies=tuple(sorted(made.identity.jar.names())),
            headers=tuple(sorted(made.identity.headers)),
            lasts_s=made.grant.lasts_s,
            stored=stored.said == "stored",
        )

    # Whom a page is asked for by.

    async def _one(self, page: LeasedPage, context: CrawlContext, latest: float) -> _Known:
        loop = asyncio.get_running_loop()
        turned = self._turned(page, context)
        while True:
            now = loop.time()
            first = turned[0]
            if first.usable(now):
                first.used_at = now
                return first
            for known in turned:
                known.used_at = now
                if not known.usable(now) and known.task is None and now >= known.ask_at:
                    self._begin(known, context)
            fit = next((known for known in turned if known.usable(now)), None)
            if fit is not None:
                return fit
            tasks = [known.task for known in turned if known.task is not None]
            if not tasks or now >= latest:
                break
            await asyncio.wait(tasks, timeout=latest - now, return_when=asyncio.FIRST_COMPLETED)
        if all(known.quarantined for known in turned):
            told = "; ".join(f"account {known.account.name}: {known.why}" for known in turned[:3])
            raise FetchError(Outcome.LOGIN_FAILED, f"nobody can log in ({told})", url=page.url)
        ask_at = min(known.ask_at for known in turned)
        wait_s = max(ask_at - now, AGAIN_S) * self._rng.uniform(1.0, 1.5)
        told = next((known.why for known in turned if known.why), "somebody is logging in")
        raise NoLoginError(f"not logged in: {told}", wait_s)

    def _turned(self, page: LeasedPage, context: CrawlContext) -> list[_Known]:
        """The accounts, that which is the page's own first. Raises `NoLoginError`."""
        assert context.login is not None
        site = context.site.name
        group = context.login.login.accounts or site
        if not self._looked:
            self._looked = True
            self._file.refresh()
        accounts = self._file.groups.get(group)
        if not accounts:
            if self._file.path is None:
                raise NoLoginError("this worker has no SCRAPER_ACCOUNTS", WAIT_S)
            raise NoLoginError(f"{group!r} has no account in the file of this worker", WAIT_S)
        start = page.id % len(accounts)
        found = []
        for account in accounts if not start else accounts[start:] + accounts[:start]:
            known = self._known.get((site, group, account.name))
            if known is None:
                known = self._known[site, group, account.name] = _Known(
                    account, self._marks(account)
                )
            found.append(known)
        return found

    def _look(self) -> None:
        version = self._file.version
        self._file.refresh()
        if self._file.version != version:
            for (site, group, name), known in list(self._known.items()):
                now_listed = {one.name: one for one in self._file.groups.get(group, [])}
                if now_listed.get(name) != known.account and known.task is None:
                    del self._known[site, group, name]

    def _marks(self, account: Account) -> list[str]:
        try:
            return self._vault.marks(account)
        except ConfigError as error:
            raise NoLoginError(str(error), WAIT_S) from None

    # One login for all.

    def _begin(self, known: _Known, context: CrawlContext) -> None:
        """In a task of its own: the page that asked first may have to go before it is done."""
        known.task = asyncio.get_running_loop().create_task(self._acquire(known, context))

    async def _acquire(self, known: _Known, context: CrawlContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            known.quarantined = False
            await self._acquired(known, context)
        except DeferredError as deferred:
            known.ask_at, known.why = (
                loop.time() + deferred.delay_s,
                "what its host or Redis has to say must be waited for",
            )
        except Exception as error:
            # ours: it must not take the pages with it
            log.exception("login crashed", site=context.site.name, account=known.account.name)
            known.ask_at, known.why = (
                loop.time() + ASKED_EVERY_S,
                f"our own fault: {type(error).__name__}",
            )
        finally:
            known.task = None

    async def _acquired(self, known: _Known, context: CrawlContext) -> None:
        assert context.login is not None
        site, account, loop = context.site.name, known.account, asyncio.get_running_loop()
        if known.identity is not None:
            known.seen = max(known.seen, known.identity.generation)
        token = secrets.token_hex(8)
        login = context.login.login
        begun = await self._store.begin(
            site,
            account.name,
            token,
            seen=known.seen,
            lock_s=LOCK_S,
            every_s=login.every_s,
            marks=known.marks,
        )
        match begun.said:
            case "known":
                self._take(known, site, begun, context)
            case "resting":
                self._rests(known, begun)
            case "soon":
                wait_s = max(0.0, login.every_s - (begun.tried_ago_s or 0.0))
                known.ask_at, known.why = (
                    loop.time() + wait_s,
                    f"it logs in once in {login.every} at the most",
                )
            case "busy":
                known.ask_at, known.why = (
                    loop.time() + min(AGAIN_S, begun.locked_s),
                    "another worker logs in",
                )
            case _:
                await self._perform(known, context, token)

    async def _perform(self, known: _Known, context: CrawlContext, token: str) -> None:
        """The lock is ours."""
        site, account, loop = context.site.name, known.account, asyncio.get_running_loop()
        told = log.bind(site=site, account=account.name)
        try:
            made = await self._attempts.make(context, account)
        except LoginTrouble as trouble:
            standing = await self._store.fail(site, account.name, token, trouble.kind, str(trouble))
            told.warning(
                "login failed",
                kind=trouble.kind,
                reason=str(trouble),
                quarantined=standing.quarantined,
                again_in_s=round(standing.rest_s),
            )
            self._rests(known, standing)
            return
        except BaseException:
            with suppress(DeferredError):
                await self._store.fail(site, account.name, token, None, "")
            raise
        sealed = self._vault.sealed(made.identity)
        standing = await self._store.store(
            site, account.name, token, sealed, made.grant.lasts_s, known.marks[0]
        )
        if standing.said != "stored":
            known.ask_at, known.why = loop.time() + AGAIN_S, "another worker took over"
            return
        told.info("logged in", saw=made.grant.saw)
        made.identity.generation = standing.generation
        self._use(known, made.identity, standing)

    # What is known.

    def _use(self, known: _Known, identity: AccountSession, standing: Standing) -> None:
        now = asyncio.get_running_loop().time()
        known.identity, known.over, known.why, known.quarantined = identity, False, "", False
        known.revision, known.expires_us, known.until = (
            standing.revision,
            standing.expires_us,
            math.inf,
        )
        known.good_began, known.doubt_at, known.ask_at = -math.inf, None, 0.0
        identity.proven = standing.proven
        if standing.expires_in_s is not None:
            known.until = now + standing.expires_in_s * (1 - EARLY)

    def _rests(self, known: _Known, standing: Standing) -> None:
        known.quarantined = standing.quarantined
        known.why = f"{standing.kind}: {standing.why}" if standing.kind else "it rests"
        known.ask_at = asyncio.get_running_loop().time() + min(
            max(standing.rest_s, AGAIN_S), ASKED_EVERY_S
        )

    def _take(self, known: _Known, site: str, standing: Standing, context: CrawlContext) -> bool:
        """Another's login, if we can open it: True. It counts as over where it has run out."""
        identity = self._vault.opened(site, known.account, standing, context)
        if identity is None:
            known.seen = max(known.seen, standing.generation)
            return False
        self._use(known, identity, standing)
        return True

    async def _compare(self, known: _Known, identity: AccountSession) -> None:
        """What Redis has of it, beside ours: a later login, others' cookies, or nothing any
        more."""
        standing = await self._store.read(identity.site, identity.account)
        if known.identity is not identity:
            return  # meanwhile
        if standing.generation == 0:
            restored = await self._store.restore(
                identity.site,
                identity.account,
                identity.generation,
                self._vault.sealed(identity),
                known.expires_us,
                known.marks[0],
                proven=identity.proven,
            )
            if restored.said == "forgotten":
                known.identity, known.seen, known.ask_at = None, 0, 0.0
            known.revision = 0
            return
        if standing.generation > identity.generation:
            # else ours is good for as long as it lasts
            if self._vault.opens(standing):
                known.over, known.ask_at = True, 0.0
            return
        if standing.generation == identity.generation:
            if standing.revision != known.revision and self._vault.merge(identity, standing):
                known.revision = standing.revision
            await self._save(known, SAVED_EVERY_S)

    async def _save(self, known: _Known, every_s: float) -> None:
        identity, now = known.identity, asyncio.get_running_loop().time()
        if (
            identity is None
            or known.over
            or not identity.jar.changed
            or now - known.saved_at < every_s
        ):
            return
        sealed = self._vault.sealed(identity)
        if len(sealed) > SEALED_MAX:
            return
        known.saved_at = now
        saved = await self._store.save(
            identity.site, identity.account, identity.generation, known.revision, sealed
        )
        if saved.said == "saved":
            identity.jar.saved()
            known.revision = saved.revision

    async def _out(
        self,
        known: _Known,
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
            known.identity is identity
            and known.doubt_at is not None
            and permits.began >= known.doubt_at
        )
        if known.identity is identity and known.doubt_at is None:
            known.doubt_at = now
        try:
            times, ago_s, standing = await self._store.out(
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
        mine = known.identity is identity and not known.over
        if mine and certain and times <= FREE_TIMES:
            log.info("logged out", site=identity.site, account=identity.account, reason=why)
            known.over = True
            if standing.rest_s > 0 and standing.generation == identity.generation:
                self._rests(known, standing)
        alone = mine and not certain and ago_s is not None and now - ago_s < known.good_began
        pays = alone or times > FREE_TIMES
        again_s = None if pays else AGAIN_S * self._rng.uniform(0.5, 1.5)
        return FetchError(Outcome.LOGGED_OUT, why, url=url, status=status, retry_after_s=again_s)
