"""The fleet's knowledge of accounts: who may log in, when, and what is over. Several clients at
once, on Redis's clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio as aredis

from scraper.errors import DeferredError
from scraper.http.account_session import AccountSession
from scraper.http.cookies import AccountJar
from scraper.plugins.accounts.file import Account, AccountFile
from scraper.plugins.accounts.policy import RULES, Trouble
from scraper.plugins.accounts.pool import UNUSED_S, AccountPool
from scraper.plugins.accounts.pooled_account import PooledAccount
from scraper.plugins.accounts.status import AccountStatus, LoginLockResult
from scraper.plugins.accounts.store import (
    LoginStore,
    account_key,
    forget_account,
    list_accounts,
    logged_out_key,
    read_states,
    read_status,
)
from scraper.plugins.accounts.vault import LoginVault
from scraper.settings import load

MARKS = ["key1:secret"]


def run(
    valkey_url: str, work: Callable[[list[LoginStore]], Awaitable[None]], clients: int = 1
) -> None:
    async def go() -> None:
        made = [aredis.Redis.from_url(valkey_url) for _ in range(clients)]
        try:
            await work([LoginStore(client) for client in made])
        finally:
            for client in made:
                await client.aclose()

    asyncio.run(go())


async def begun(
    store: LoginStore,
    token: str = "t",
    seen: int = 0,
    every_s: float = 0.0,
    marks: list[str] | None = None,
    **more: bool,
) -> LoginLockResult:
    answer, _ = await store.acquire(
        "shop", "ann", token, seen=seen, lock_s=5.0, every_s=every_s, marks=marks or MARKS, **more
    )
    return answer


async def stored(store: LoginStore, seen: int = 0, lasts_s: float | None = None) -> int:
    assert await begun(store, seen=seen) == "acquired"
    return (await store.store_login("shop", "ann", "t", b"sealed", lasts_s, MARKS[0])).generation


def whose(valkey_url: str) -> str:
    with redis.Redis.from_url(valkey_url) as client:
        return client.hget(account_key("shop", "ann"), "token").decode()  # type: ignore[union-attr]


def test_a_hundred_who_ask_at_once_are_one_login(valkey_url: str) -> None:
    async def work(stores: list[LoginStore]) -> None:
        async def ask(number: int) -> str:
            return await begun(stores[number % len(stores)], f"t{number}", seen=first)

        first = 0
        assert Counter(await asyncio.gather(*map(ask, range(100)))) == {"acquired": 1, "busy": 99}
        first = (await stores[0].read("shop", "ann")).generation
        token = whose(valkey_url)
        first = (await stores[0].store_login("shop", "ann", token, b"s", None, MARKS[0])).generation
        assert first > 0
        # All of them see that this one is over; those who come after the next login learn of that
        # one.
        assert Counter(await asyncio.gather(*map(ask, range(100)))) == {"acquired": 1, "busy": 99}
        token = whose(valkey_url)
        second = (
            await stores[1].store_login("shop", "ann", token, b"s", None, MARKS[0])
        ).generation
        assert second > first
        assert Counter(await asyncio.gather(*map(ask, range(100)))) == {"newer": 100}

    run(valkey_url, work, clients=4)


def test_who_lost_the_lock_stores_nothing(valkey_url: str) -> None:
    async def work(stores: list[LoginStore]) -> None:
        (store,) = stores
        await store.acquire("shop", "ann", "old", seen=0, lock_s=0.05, every_s=0.0, marks=MARKS)
        await asyncio.sleep(0.1)
        assert await begun(store, "new") == "acquired"
        assert await store.store_login("shop", "ann", "old", b"old", None, MARKS[0]) is None
        assert (
            await store.record_failure("shop", "ann", "old", Trouble.REJECTED, "no")
        ).failures == 0
        assert (
            await store.store_login("shop", "ann", "new", b"new", 60.0, MARKS[0])
        ).sealed == b"new"

    run(valkey_url, work)


def test_failures_rest_and_two_refusals_are_a_quarantine(valkey_url: str) -> None:
    async def work(stores: list[LoginStore]) -> None:
        (store,) = stores
        await begun(store)
        first = await store.record_failure("shop", "ann", "t", Trouble.REJECTED, "no")
        assert 30 < first.rest_s <= 60 and not first.quarantined and await begun(store) == "resting"
        await begun(store, force=True)
        await store.record_failure("shop", "ann", "t", Trouble.UNAVAILABLE, "away")
        await begun(store, force=True)
        second = await store.record_failure("shop", "ann", "t", Trouble.REJECTED, "no")
        assert second.quarantined and second.rest_s > 20_000, (
            "a fault of the host's between them forgives none"
        )
        await begun(store, force=True)
        well = await store.store_login("shop", "ann", "t", b"s", None, MARKS[0])
        assert not well.quarantined and well.rest_s == 0 and well.kind == ""

    run(valkey_url, work)


def test_another_secret_ends_a_quarantine_once_and_a_foreign_mark_does_not(valkey_url: str) -> None:
    async def work(stores: list[LoginStore]) -> None:
        (store,) = stores
        for _ in range(2):
            await begun(store, force=True)
            await store.record_failure("shop", "ann", "t", Trouble.REJECTED, "no")
        assert await begun(store, marks=["key9:whatever"]) == "resting", (
            "of a key that we cannot compare"
        )
        assert await begun(store, marks=["key2:x", *MARKS]) == "resting", (
            "the same, by the older of two keys"
        )
        assert await begun(store, marks=["key1:another"]) == "acquired"
        await store.record_failure("shop", "ann", "t", Trouble.REJECTED, "no")
        assert await begun(store) == "resting", (
            "two workers with different files do not take turns at it"
        )

    run(valkey_url, work)


def test_useless_logins_are_counted_by_generation_and_proof_forgives_them(valkey_url: str) -> None:
    async def work(stores: list[LoginStore]) -> None:
        (store,) = stores
        generation = await stored(store)
        began = asyncio.get_running_loop().time()
        for page in range(20):
            times, ago_s, standing = await store.record_logged_out(
                "shop", "ann", generation, page, "out", certain=True
            )
            assert (times, ago_s) == (1, None) and standing.kind == "useless"
        assert 0 < standing.rest_s <= 10, "twenty pages are one"
        times, ago_s, _ = await store.record_logged_out(
            "shop", "ann", generation, 3, "out", certain=True
        )
        assert times == 1 and ago_s is not None
        assert 0 <= ago_s <= asyncio.get_running_loop().time() - began
        proven = await store.prove("shop", "ann", generation)
        assert proven.proven and proven.rest_s == 0
        later = await stored(store, seen=generation)
        assert (await store.record_logged_out("shop", "ann", later, 3, "out", certain=False))[
            0
        ] == 2
        assert not (await store.prove("shop", "ann", generation)).proven
        for _ in range(RULES[Trouble.USELESS].tries):
            _, _, standing = await store.record_logged_out(
                "shop", "ann", later, 100 + _, "out", certain=True
            )
            await begun(store, seen=later, force=True)
            later = (await store.store_login("shop", "ann", "t", b"s", None, MARKS[0])).generation
        assert standing.quarantined

    run(valkey_url, work)


def test_cookies_are_written_by_who_has_read_the_last_ones(valkey_url: str) -> None:
    async def work(stores: list[LoginStore]) -> None:
        (store,) = stores
        generation = await stored(store, lasts_s=100)
        assert await store.save_cookies("shop", "ann", generation, 0, b"mine") is not None
        assert await store.save_cookies("shop", "ann", generation, 0, b"theirs") is None
        now = await store.read("shop", "ann")
        assert (
            (now.sealed, now.revision) == (b"mine", 1)
            and now.expires_in_s is not None
            and 90 < now.expires_in_s <= 100
        )

    run(valkey_url, work)


def test_what_redis_lost_is_written_back_unless_it_was_meant(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:

        async def work(stores: list[LoginStore]) -> None:
            (store,) = stores
            generation = await stored(store)
            client.flushdb()
            back = await store.restore("shop", "ann", generation, b"kept", 0, MARKS[0], proven=True)
            assert back.generation == generation and back.proven
            assert (
                await store.restore("shop", "ann", generation, b"late", 0, MARKS[0], proven=True)
            ).sealed == b"kept"
            assert list_accounts(client) == [("shop", "ann")] and forget_account(
                client, "shop", "ann"
            )
            gone = await store.restore("shop", "ann", generation, b"kept", 0, MARKS[0], proven=True)
            assert gone.generation == 0 and read_status(client, "shop", "ann").generation == 0
            assert not forget_account(client, "shop", "ann")

        run(valkey_url, work)


def test_without_redis_no_account_logs_in() -> None:
    async def work(stores: list[LoginStore]) -> None:
        with pytest.raises(DeferredError):
            await begun(stores[0])

    run("redis://127.0.0.1:1/0", work)


def test_an_unused_account_waits_for_redis_with_its_cookies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path))
    jar = AccountJar(secure_only=False)
    jar.add_cookie("shop.example", "sid", "new")
    account = PooledAccount(
        Account("ann", {}), MARKS, AccountSession("shop", "ann", 1, jar, {}, frozenset())
    )

    async def work(stores: list[LoginStore]) -> None:
        nothing: Any = None
        pool = AccountPool(
            fetcher=nothing,
            pool=nothing,
            limiters=nothing,
            file=AccountFile(None),
            store=stores[0],
            settings=load(),
            rng=nothing,
        )
        pool._accounts["shop", "shop", "ann"] = account
        account.used_at = asyncio.get_running_loop().time() - UNUSED_S - 1
        await pool.sync()
        assert list(pool._accounts.values()) == [account] and jar.changed

    run("redis://127.0.0.1:1/0", work)


NUMBERS = ("rest", "locked", "generation", "revision", "tried", "failures", "n:rejected", "changed")


@pytest.mark.parametrize(
    "forged", ["", "nan", "-5", "1e300", "9" * 16, "9" * 30, "9" * 400_000, None]
)
def test_foreign_values_of_an_account_count_as_lost(valkey_url: str, forged: str | None) -> None:
    async def work(stores: list[LoginStore]) -> None:
        (store,) = stores
        with redis.Redis.from_url(valkey_url) as client:
            for key in (account_key("shop", "ann"), logged_out_key("shop", "ann")):
                if forged is None:
                    client.rpush(key, "x")
                else:
                    client.hset(key, mapping=dict.fromkeys(NUMBERS, forged))
                    client.hset(key, "1", f"{forged}:5:{forged}")
            client.hset(b"scraper:login:shop:\xff", "generation", 1)
            read_states(client)
            assert read_status(client, "shop", "ann").generation == 0
        assert await begun(store, every_s=60.0) == "acquired"
        await store.record_failure("shop", "ann", "t", None, "")
        generation = await stored(store)
        assert generation > 0
        times, _, _ = await store.record_logged_out(
            "shop", "ann", generation, 1, "out", certain=True
        )
        assert times == 1
        with redis.Redis.from_url(valkey_url) as client:
            assert read_status(client, "shop", "ann").generation == generation

    run(valkey_url, work)


def test_cookies_of_another_account_are_not_taken_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The copied text is sealed by the same key, under this account's name in Redis."""
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path))
    vault = LoginVault(load())

    def session(site: str, account: str, value: str) -> AccountSession:
        jar = AccountJar(secure_only=False)
        jar.load([["shop.example", "sid", value, False, "/", None]])
        return AccountSession(site, account, 1, jar, {}, frozenset({"shop.example"}))

    own = session("shop", "ann", "own")
    for other in (session("shop", "bob", "bob's"), session("rival", "ann", "rival's")):
        assert not vault.merge(own, AccountStatus(1, vault.seal_session(other)))
    assert own.cookies_for("http://shop.example/") == "sid=own"
    assert vault.merge(own, AccountStatus(1, vault.seal_session(session("shop", "ann", "new"))))
    assert own.cookies_for("http://shop.example/") == "sid=new"
