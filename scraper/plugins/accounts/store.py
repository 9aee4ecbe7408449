"""The fleet's accounts in Redis: which are logged in, which process logs in, which accounts rest.

Each decision is one atomic script on the server's clock, so that a thousand logged-out pages lead
to one login. `scripts/common.lua` and `scripts/logged_out.lua` describe the keys.

A Redis that loses its memory loses no login: each process writes back those that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import RedisError

from scraper.errors import DeferredError
from scraper.infra.redis_clients import report_foreign
from scraper.infra.statements import lua
from scraper.plugins.accounts.policy import (
    CHANGE_EVERY_S,
    PATIENCE_S,
    QUARANTINE_S,
    RULES,
    Trouble,
)
from scraper.plugins.accounts.status import AccountStatus, LoginLockResult, parse_status

PREFIX = "scraper:login:"
KEPT_S = 14 * 86_400
OUT_KEPT_S = 86_400
PAGES_MAX = 20_000
# Pages wait this long while Redis is away.
AWAY_S = 5.0
WHY_CHARS = 300


class LoginStore:
    """The accounts of the fleet, for one process. Every method raises `DeferredError` while Redis
    is away."""

    def __init__(self, client: aredis.Redis) -> None:
        self._scripts = {
            name: client.register_script(_read_script(name))
            for name in (
                *("read", "acquire", "store", "fail", "logged_out"),
                *("prove", "save", "restore"),
            )
        }

    async def read(self, site: str, account: str) -> AccountStatus:
        _, status, _ = await self._run("read", site, account, [])
        return status

    async def acquire(
        self,
        site: str,
        account: str,
        token: str,
        *,
        seen: int,
        lock_s: float,
        every_s: float,
        marks: Sequence[str],
        force: bool = False,
    ) -> tuple[LoginLockResult, AccountStatus]:
        """Takes the lock of a login, if one may begin. `seen` is the generation that the caller saw
        logged out, 0 for none."""
        args = [
            token,
            seen,
            _as_us(lock_s),
            _as_us(every_s),
            int(force),
            KEPT_S,
            _as_us(CHANGE_EVERY_S),
            *marks,
        ]
        word, status, _ = await self._run("acquire", site, account, args)
        return LoginLockResult(word.decode()), status

    async def store_login(
        self, site: str, account: str, token: str, sealed: bytes, lasts_s: float | None, mark: str
    ) -> AccountStatus | None:
        """Stores a new generation and releases the lock. Returns None if another process has taken
        the lock."""
        args = [token, sealed, _as_us(lasts_s or 0.0), KEPT_S, mark]
        word, status, _ = await self._run("store", site, account, args)
        return status if word == b"stored" else None

    async def record_failure(
        self, site: str, account: str, token: str, kind: Trouble | None, why: str
    ) -> AccountStatus:
        """Records a failed login and releases the lock. Without a `kind`, the login counts as not
        tried."""
        rule = RULES[kind or Trouble.UNAVAILABLE]
        args = [
            token,
            kind or "",
            why[:WHY_CHARS],
            _join_us(rule.rests_s),
            rule.tries,
            _as_us(QUARANTINE_S),
            _as_us(PATIENCE_S),
        ]
        _, status, _ = await self._run("fail", site, account, args)
        return status

    async def record_logged_out(
        self, site: str, account: str, generation: int, page_id: int, why: str, *, certain: bool
    ) -> tuple[int, float | None, AccountStatus]:
        """Records that a page was logged out with this generation. `certain`: the login is over; if
        it never fetched a good page, that counts as a failure of the account.

        Returns the number of generations that the page was logged out with, the seconds since it
        was last logged out with this one, and the account's status."""
        rule = RULES[Trouble.USELESS]
        args = [
            generation,
            page_id,
            PAGES_MAX,
            OUT_KEPT_S,
            why[:WHY_CHARS],
            _join_us(rule.rests_s),
            rule.tries,
            _as_us(QUARANTINE_S),
            int(certain),
        ]
        pages = logged_out_key(site, account)
        _, status, more = await self._run("logged_out", site, account, args, pages)
        generations, ago_us = map(int, more)
        return generations, None if ago_us < 0 else ago_us / 1e6, status

    async def prove(self, site: str, account: str, generation: int) -> AccountStatus:
        """Records that this generation fetched a good page."""
        _, status, _ = await self._run("prove", site, account, [generation])
        return status

    async def save_cookies(
        self, site: str, account: str, generation: int, revision: int, sealed: bytes
    ) -> AccountStatus | None:
        """Returns None if another process has written cookies since that revision."""
        word, status, _ = await self._run("save", site, account, [generation, revision, sealed])
        return status if word == b"saved" else None

    async def restore(
        self,
        site: str,
        account: str,
        generation: int,
        sealed: bytes,
        expires_us: int,
        mark: str,
        *,
        proven: bool,
    ) -> AccountStatus:
        """Writes back a login that Redis has lost, unless another process has. If an operator had
        the account forgotten, the returned status has no generation."""
        args = [generation, sealed, expires_us, KEPT_S, mark, int(proven)]
        _, status, _ = await self._run("restore", site, account, args)
        return status

    async def _run(
        self, name: str, site: str, account: str, args: Sequence[Any], *more_keys: str
    ) -> tuple[bytes, AccountStatus, Sequence[Any]]:
        """Returns the script's word, the account's status, and what else the script returned."""
        try:
            keys = [account_key(site, account), *more_keys]
            word, now, flat, foreign, *more = await self._scripts[name](keys=keys, args=list(args))
        except RedisError as error:
            raise DeferredError(AWAY_S) from error
        report_foreign(foreign)
        return word, parse_status(int(now), flat), more


def account_key(site: str, account: str) -> str:
    return f"{PREFIX}{site}:{account}"


def logged_out_key(site: str, account: str) -> str:
    return f"{PREFIX}out:{site}:{account}"


def read_status(client: redis.Redis, site: str, account: str) -> AccountStatus:
    read = client.register_script(_read_script("read"))
    _, now, flat, foreign = read(keys=[account_key(site, account)])
    report_foreign(foreign)
    return parse_status(int(now), flat)


def read_states(client: redis.Redis) -> dict[tuple[str, str], AccountStatus]:
    """Returns (site, account) -> status for all accounts in Redis, in one round trip. Only `state`
    and `known` of the statuses are filled in."""
    accounts = list_accounts(client)
    fields = (b"generation", b"locked", b"rest", b"quarantined", b"failures")
    read = client.register_script(lua("plugins/accounts/scripts/state.lua"))
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        for account in accounts:
            read(keys=[account_key(*account)], args=fields, client=pipe)
        (seconds, microseconds), *rows = pipe.execute()
    now_us = seconds * 1_000_000 + microseconds
    statuses = {}
    for account, row in zip(accounts, rows, strict=True):
        pairs = [pair for pair in zip(fields, row, strict=True) if pair[1]]
        statuses[account] = parse_status(now_us, [text for pair in pairs for text in pair])
    return statuses


def list_accounts(client: redis.Redis) -> list[tuple[str, str]]:
    """Returns (site, account) of all accounts in Redis."""
    accounts = []
    for key in client.scan_iter(match=f"{PREFIX}*", count=1000):
        site, _, account = key.decode("utf-8", "replace").removeprefix(PREFIX).partition(":")
        # Names have no colon: this is the key of an account's logged-out pages.
        if ":" not in account:
            accounts.append((site, account))
    return sorted(accounts)


def forget_account(client: redis.Redis, site: str, account: str) -> bool:
    """Returns True if Redis had something to forget."""
    forget = client.register_script(_read_script("forget"))
    keys = [account_key(site, account), logged_out_key(site, account)]
    return bool(forget(keys=keys, args=[OUT_KEPT_S]))


def _read_script(name: str) -> str:
    folder = "plugins/accounts/scripts"
    return lua(f"{folder}/common.lua", f"{folder}/{name}.lua")


def _join_us(seconds: Sequence[float]) -> str:
    return ",".join(str(_as_us(duration_s)) for duration_s in seconds)


def _as_us(seconds: float) -> int:
    return round(seconds * 1e6)
