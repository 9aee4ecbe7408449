"""What another program writes under names of the program is bounded, dropped or not read, and logged once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis
import redis.asyncio as aredis

from scraper.infra import redis_clients
from scraper.plugins.accounts.store import LoginStore, account_key, read_states, read_status
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_row import host_keys, read_rows
from scraper.politeness.robots_store import RobotsTexts
from scraper.proxies.health import ProxyHealth, Tally, health_key, read_all_stats
from scraper.rules.budget import Budget

HOST, ORIGIN = "shop.example", "https://shop.example"
HUGE, LITTLE = 10_000_000, 1_000_000
LINE = "ignored a foreign value in Redis"
Step = Callable[[aredis.Redis], Awaitable[object]]


async def reserve(client: aredis.Redis) -> object:
    limiter = RedisFleetLimiter(client, "a")
    return await limiter.reserve(HOST, Budget(0.1, 1), slots=1, allotment=1, in_flight=0)


async def slow_down(client: aredis.Redis) -> object:
    limiter = RedisFleetLimiter(client, "a")
    return await limiter.slow_down(HOST, Budget(0.1, 1), rest_s=1, why="x", age_s=None)


WORKERS: dict[str, tuple[str, Step]] = {
    "reserve, host": (host_keys(HOST)[0], reserve),
    "reserve, allotments": (host_keys(HOST)[1], reserve),
    "slow down": (host_keys(HOST)[0], slow_down),
    "read proxies": (health_key(HOST), lambda client: ProxyHealth(client).read([HOST], 0.0)),
    "strike": (health_key(HOST), lambda client: ProxyHealth(client).strike(HOST, "p", "x")),
    "report": (health_key(HOST), lambda client: ProxyHealth(client).report(HOST, {"p": Tally(1)})),
    "robots": (f"scraper:robots:{ORIGIN}", lambda client: RobotsTexts(client).get(ORIGIN)),
    "account": (account_key("shop", "1"), lambda client: LoginStore(client).read("shop", "1")),
}
VIEWS: dict[str, tuple[str, Callable[[redis.Redis], object]]] = {
    "host": (host_keys(HOST)[0], lambda client: read_rows(client, [HOST])),
    "allotments": (host_keys(HOST)[1], lambda client: read_rows(client, [HOST])),
    "proxies": (health_key(HOST), read_all_stats),
    "account": (account_key("shop", "1"), read_states),
    "account's status": (account_key("shop", "1"), lambda client: read_status(client, "shop", "1")),
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    kept: set[bytes] = set()
    monkeypatch.setattr(redis_clients, "_foreign", kept)
    return kept


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_logs_the_name_of_what_it_drops_once(
    valkey_url: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key, step = WORKERS[name]

    async def work() -> None:
        async with aredis.Redis.from_url(valkey_url) as client:
            await step(client)
            assert LINE not in capsys.readouterr().out
            for _ in range(2):
                await client.delete(key)
                await client.rpush(key, "foreign")  # type: ignore[misc]
                await step(client)
        log = capsys.readouterr().out
        assert log.count(LINE) == 1 and key in log

    asyncio.run(work())


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("fields", [1, 20])
def test_a_view_does_not_read_what_is_too_large(valkey_url: str, name: str, fields: int) -> None:
    key, view = VIEWS[name]
    with redis.Redis.from_url(valkey_url) as client:
        known = ("failures", "factor", "why", "tat", "rest")
        for number in range(fields):
            field = known[number] if number < len(known) else str(number)
            client.hset(key, field, b"9" * (5 * HUGE // fields))
        before = client.client_info()
        view(client)
        after = client.client_info()
        assert after["id"] == before["id"], "it is the same connection"
        assert int(after["tot-net-out"]) - int(before["tot-net-out"]) < LITTLE


def test_the_log_names_few_of_many_keys(
    names: set[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1000):
        redis_clients.report_foreign(b"key \x1b[2J %d" % number)
    lines = capsys.readouterr().out
    assert lines.count(LINE) == len(names) == 100 and "\\x1b[2J" in lines
