"""Proxies lent, struck and reported on a real Valkey, by one process and by several."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio as aredis

from scraper.crawl.context import make_context
from scraper.domain import Kind, LeasedPage
from scraper.errors import DeferredError, NoProxyError
from scraper.http.proxy_route import ProxyRoute
from scraper.proxies import health as store
from scraper.proxies import pool as proxy_pool
from scraper.proxies.file import ProxyFile
from scraper.proxies.health import (
    EVERYWHERE,
    FAILING,
    ProxyHealth,
    Tally,
)
from scraper.proxies.pool import ProxyPool
from scraper.rules.proxies import (
    FORGIVEN_AFTER_S,
    QUARANTINES_S,
    STREAK_MAX,
    ProxyNeed,
    after_strike,
)
from scraper.settings import Settings
from tests.support.making import a_site
from tests.support.servers.proxies import SECRET

HOST = "shop.example"
EACH = ProxyNeed(1, "datacenter")
STICKY = ProxyNeed(1, "residential", None, 60.0, 5)


def run(url: str, work: Callable[[aredis.Redis], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with aredis.Redis.from_url(url) as client:
            await work(client)

    asyncio.run(connected())


def lines(count: int, options: str = "") -> str:
    return "".join(f"http://user{n}:{SECRET}@10.0.0.{n}:8080 {options}\n" for n in range(count))


@pytest.fixture
def listed(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "proxies.txt"
        new = tmp_path / "new.txt"
        new.write_text(text)
        new.chmod(0o600)
        new.replace(path)
        return path

    return write


def pool_of(client: aredis.Redis, path: Path | None, seed: int = 1) -> ProxyPool:
    return ProxyPool(ProxyFile(path), ProxyHealth(client), random.Random(seed))


async def id_of(pool: ProxyPool, need: ProxyNeed = EACH, host: str = HOST, **options: Any) -> str:
    return (await pool.lend(need, host, **options)).proxy.id


# The scripts.


def test_quarantines_grow_as_the_policy_says(valkey_url: str) -> None:
    """The script and the pure function agree, whatever has passed since the last quarantine ended."""

    async def work(client: aredis.Redis) -> None:
        health = ProxyHealth(client)
        await health.strike(HOST, "x", "blocked")
        raw = (await client.hget(store.health_key(HOST), "x")).decode().split(":")  # type: ignore[union-attr,misc]
        for strikes in range(8):
            for free_for_s in (1.0, 10.0, FORGIVEN_AFTER_S * 1.5, FORGIVEN_AFTER_S * 3.5):
                server = await client.time()
                free = round((server[0] + server[1] / 1e6 - free_for_s) * 1e6)
                await client.hset(
                    store.health_key(HOST), "x", ":".join([*raw[:6], str(free), str(strikes), "x"])
                )  # type: ignore[misc]
                count, expected_s = after_strike(strikes, free_for_s)
                assert await health.strike(HOST, "x", "blocked") == pytest.approx(
                    expected_s, abs=1.0
                )
                assert (await health.read([HOST], 0.0))[HOST]["x"].strikes == count

    run(valkey_url, work)


def test_what_many_say_at_once_is_one_strike(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        async with aredis.Redis.from_url(valkey_url) as other:
            one, two = ProxyHealth(client), ProxyHealth(other)
            rests = await asyncio.gather(
                *(each.strike(HOST, "x", "blocked") for each in [one, two] * 10)
            )
        assert max(rests) <= QUARANTINES_S[0]
        assert (await one.read([HOST], 0.0))[HOST]["x"].strikes == 1
        assert await one.strike(HOST, "x", "throttled", 100.0) == pytest.approx(100, abs=1), (
            "a longer wish prolongs it"
        )

    run(valkey_url, work)


def test_reports_add_up_and_a_streak_of_failures_is_a_strike(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        health = ProxyHealth(client)
        await health.report(
            HOST, {"a": Tally(10, 8, 2, 4.0), "b": Tally(STREAK_MAX - 1, 0, STREAK_MAX - 1)}
        )
        await health.report(HOST, {"a": Tally(2, 2, 0, 4.0)})
        found = (await health.read([HOST], 0.0))[HOST]
        assert (found["a"].requests, found["a"].answered, found["a"].failed) == (12, 10, 2)
        assert 0.5 < found["a"].latency_s < 2.0 and 0.8 < found["a"].success < 1
        assert found["b"].free_at < 0 and found["b"].success < 0.8
        await health.report(HOST, {"b": Tally(1, 0, 1)})
        assert (await health.read([HOST], 0.0))[HOST]["b"].why == FAILING
        await health.report(HOST, {"b": Tally(20, 20, 0, 1.0)})
        assert (await health.read([HOST], 0.0))[HOST]["b"].success > 0.9, "it recovers"

    run(valkey_url, work)


# Lending.


def test_datacenter_proxies_change_with_each_page(
    valkey_url: str, listed: Callable[[str], Path]
) -> None:
    async def work(client: aredis.Redis) -> None:
        pool = pool_of(client, listed(lines(5, "class=datacenter")))
        lent = [await pool.lend(EACH, HOST) for _ in range(200)]
        counts = Counter(route.proxy.id for route in lent)
        assert len(counts) == 5 and min(counts.values()) > 15
        assert all(route.jar is None for route in lent)

    run(valkey_url, work)


def test_an_identity_lasts_for_its_requests_and_its_time(
    valkey_url: str, listed: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(proxy_pool, "monotonic", lambda: clock[0])

    async def work(client: aredis.Redis) -> None:
        pool = pool_of(client, listed(lines(4, "class=residential")))
        lent = [await pool.lend(STICKY, HOST) for _ in range(15)]
        runs = [lent[0:5], lent[5:10], lent[10:15]]
        assert all(
            len({id(route.jar) for route in part}) == 1 and part[0].jar is not None for part in runs
        )
        assert all(one[0].proxy != two[0].proxy for one, two in pairwise(runs))
        first = await pool.lend(STICKY, HOST)
        clock[0] += 30
        assert await pool.lend(STICKY, "www." + HOST) is first, (
            "an identity is the site's, on all its hosts"
        )
        clock[0] += 31
        assert await pool.lend(STICKY, HOST) is not first
        assert await pool.lend(
            ProxyNeed(2, "residential", None, 60.0, 5), HOST
        ) is not await pool.lend(STICKY, HOST)

    run(valkey_url, work)


def test_a_second_reading_has_another_proxy_and_no_cookies(
    valkey_url: str, listed: Callable[[str], Path]
) -> None:
    """Of two proxies, however often."""
    site = a_site(start=f"https://{HOST}/", proxy={"pool": "residential", "requests": 1000})
    context = make_context(1, 1, site, Settings())
    first = LeasedPage(1, 1, f"https://{HOST}/1", Kind.PRODUCT, HOST, 0, 0, 1, 10)
    needs = [context.proxy_need(page, "") for page in (first, replace(first, again=True))]

    async def work(client: aredis.Redis) -> None:
        pool = pool_of(client, listed(lines(2, "class=residential")))
        for _ in range(20):
            one, two = [await pool.lend(need, HOST) for need in needs if need is not None]
            assert one.jar is not None and two.jar is None and one.proxy != two.proxy

    run(valkey_url, work)


def test_a_region_is_kept_to(valkey_url: str, listed: Callable[[str], Path]) -> None:
    async def work(client: aredis.Redis) -> None:
        text = "http://a:1 region=eu\nhttp://b:1 region=us\nhttp://c:1\n"
        pool = pool_of(client, listed(text))
        assert {await id_of(pool, ProxyNeed(1, "datacenter", "eu")) for _ in range(30)} == {
            proxy.id for proxy in pool._list_fitting(ProxyNeed(1, "datacenter", "eu"))
        }
        assert len({await id_of(pool) for _ in range(60)}) == 3
        with pytest.raises(NoProxyError, match="no datacenter proxy in jp is on the list"):
            await id_of(pool, ProxyNeed(1, "datacenter", "jp"))

    run(valkey_url, work)


def test_a_quarantine_holds_for_the_fleet_and_for_that_host_alone(
    valkey_url: str, listed: Callable[[str], Path]
) -> None:
    async def work(client: aredis.Redis) -> None:
        path = listed(lines(2))
        one, two = pool_of(client, path, 1), pool_of(client, path, 2)
        await two.lend(EACH, HOST)
        route = await one.lend(EACH, HOST)
        await one.strike(route, HOST, "blocked")
        assert route.proxy.id not in {await id_of(one) for _ in range(30)}, (
            "at once where it was seen"
        )
        await two.refresh()
        assert route.proxy.id not in {await id_of(two) for _ in range(30)}, (
            "and everywhere with the next look"
        )
        assert len({await id_of(two, host="other.example") for _ in range(30)}) == 2
        await one.strike(route, EVERYWHERE, "unusable")
        await two.refresh()
        assert route.proxy.id not in {await id_of(two, host="other.example") for _ in range(30)}

    run(valkey_url, work)


def test_no_proxy_left_says_why_and_for_how_long(
    valkey_url: str, listed: Callable[[str], Path]
) -> None:
    async def work(client: aredis.Redis) -> None:
        pool = pool_of(client, listed(lines(2)))
        for why in ("blocked", "denied"):
            await pool.strike(await pool.lend(EACH, HOST), HOST, why)
        with pytest.raises(NoProxyError) as caught:
            await pool.lend(EACH, HOST)
        assert caught.value.reason == (
            f"no datacenter proxy is free for {HOST}: all 2 are in quarantine (1 blocked, 1 denied)"
        )
        assert 20 < caught.value.delay_s <= QUARANTINES_S[0]
        assert isinstance(caught.value, DeferredError)
        await pool.lend(EACH, "other.example")
        with pytest.raises(NoProxyError, match="this worker has no PROXY_LIST"):
            await pool_of(client, None).lend(EACH, HOST)

    run(valkey_url, work)


def test_an_identity_whose_proxy_fails_is_over(
    valkey_url: str, listed: Callable[[str], Path]
) -> None:
    async def work(client: aredis.Redis) -> None:
        pool = pool_of(client, listed(lines(3, "class=residential")))
        first = await pool.lend(STICKY, HOST)
        second = await pool.lend(STICKY, HOST, {first.proxy.id})
        assert second.proxy != first.proxy and second.jar is not first.jar
        await pool.strike(second, HOST, "blocked")
        assert (await pool.lend(STICKY, HOST)).proxy != second.proxy

    run(valkey_url, work)


def test_without_redis_nothing_is_lent(listed: Callable[[str], Path]) -> None:
    async def work() -> None:
        async with aredis.Redis.from_url("redis://127.0.0.1:1/0") as client:
            with pytest.raises(DeferredError):
                await pool_of(client, listed(lines(2))).lend(EACH, HOST)

    asyncio.run(work())


def test_what_was_seen_while_redis_was_away_is_reported_later(
    valkey_url: str, listed: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: aredis.Redis) -> None:
        pool = pool_of(client, listed(lines(1)))
        route = await pool.lend(EACH, HOST)
        pool.record_success(route, HOST, 0.5)
        report, away = ProxyHealth.report, True

        async def maybe(self: ProxyHealth, host: str, tallies: dict[str, Tally]) -> None:
            if away:
                raise DeferredError(1.0)
            await report(self, host, tallies)

        monkeypatch.setattr(ProxyHealth, "report", maybe)
        await pool.refresh()
        pool.record_success(route, HOST, 0.5)
        away = False
        await pool.refresh()
        assert (await ProxyHealth(client).read([HOST], 0.0))[HOST][route.proxy.id].answered == 2

    run(valkey_url, work)


def test_giant_stats_of_proxies_count_as_lost(valkey_url: str) -> None:
    """They never reach a worker: neither a giant value nor a giant name nor too many of them."""

    async def work(client: aredis.Redis) -> None:
        health, key = ProxyHealth(client), store.health_key(HOST)
        giant, good = "x" * 1_000_000, "1:1:0:0:9:1000000:0:0:"
        await client.hset(key, mapping={"a": good, "b": giant, giant: good})  # type: ignore[misc]
        assert list((await health.read([HOST], 0.0))[HOST]) == ["a"]
        assert await client.hkeys(key) == [b"a"]  # type: ignore[misc]
        await client.hset(key, mapping=dict.fromkeys(range(100_001), good))  # type: ignore[misc]
        assert (await health.read([HOST], 0.0))[HOST] == {}
        assert not await client.exists(key)
        await health.report(HOST, {"a": Tally(requests=1)})
        assert list((await health.read([HOST], 0.0))[HOST]) == ["a"]

    run(valkey_url, work)


# The file.


def test_a_changed_list_is_taken_over_and_a_broken_one_is_not(
    valkey_url: str,
    listed: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def work(client: aredis.Redis) -> None:
        path = listed(lines(1, "class=residential"))
        pool = pool_of(client, path)
        first = await pool.lend(STICKY, HOST)
        listed(lines(1, "class=residential") + f"nonsense://{SECRET}\n")
        await pool.refresh()
        assert (await pool.lend(STICKY, HOST)) is first
        listed(f"http://new:{SECRET}@10.9.9.9:1 class=residential\n")
        await pool.refresh()
        second = await pool.lend(STICKY, HOST)
        assert second.proxy.user == "new", "an identity ends with its proxy's line"
        path.unlink()
        await pool.refresh()
        assert await pool.lend(STICKY, HOST) is second, "a list that is gone changes nothing"
        listed("")
        await pool.refresh()
        with pytest.raises(NoProxyError, match="is on the list"):
            await pool.lend(STICKY, HOST)

    run(valkey_url, work)
    told = caplog.text + "".join(capsys.readouterr())
    assert SECRET not in told and "10.9.9.9" not in told


def test_nothing_in_redis_names_a_proxy_but_its_id(
    valkey_url: str, listed: Callable[[str], Path]
) -> None:
    async def work(client: aredis.Redis) -> None:
        pool = pool_of(client, listed(lines(3)))
        for _ in range(9):
            route: ProxyRoute = await pool.lend(EACH, HOST)
            pool.record_success(route, HOST, 0.1)
        await pool.strike(route, EVERYWHERE, "unusable")
        await pool.refresh()

    run(valkey_url, work)
    with redis.Redis.from_url(valkey_url) as client:
        found = [
            key + b"".join(k + v for k, v in client.hgetall(key).items())
            for key in client.scan_iter()
        ]
        assert len(found) == 2
        for text in found:
            assert SECRET.encode() not in text and b"user" not in text and b"10.0.0." not in text
        everything = store.read_all_stats(client)
        assert sum(known.requests for known in everything[HOST].values()) == 9
        assert [known.why for known in everything[EVERYWHERE].values()] == ["unusable"]


FORGED = [
    "",
    "nan",
    "x:y",
    "1:1:1:1:1:1:1:1",
    f"{'9' * 30}:" * 8 + "why",
    "0:0:0:0:nan:0:0:0:",
    f"0:0:0:0:0:0:{'9' * 16}:1:rests for ever",
    f"0:0:0:0:{'9' * 400}:{'9' * 400}:0:0:no float",
    "0:0:0:0:0:9999999:0:0:more than certain",
    "0:0:0:0:0:0:0:0:" + "x" * 1_000_000,
    None,
]


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_foreign_values_of_a_proxy_count_as_lost(
    valkey_url: str, listed: Callable[[str], Path], forged: str | None
) -> None:
    async def work(client: aredis.Redis) -> None:
        pool, health = pool_of(client, listed(lines(2))), ProxyHealth(client)
        first, key = await id_of(pool), store.health_key(HOST)
        if forged is None:
            await client.set(key, b"x" * 1000)
        else:
            await client.hset(key, mapping={first: forged, "\x00": "\x00"})  # type: ignore[misc]
        with redis.Redis.from_url(valkey_url) as seen:
            seen.hset(b"scraper:proxies:\xff", mapping={"x": "1"})
            store.read_all_stats(seen)
        for stats in (await health.read([HOST], 0.0))[HOST].values():
            assert stats.free_at <= 86_400 and stats.success <= 1
        assert await id_of(pool_of(client, listed(lines(2)))) != ""
        assert 0 < await health.strike(HOST, first, "why") <= max(QUARANTINES_S) + 14 * 86_400
        await health.report(HOST, {first: Tally(requests=1, answered=1, latency_s=0.1)})
        stats = (await health.read([HOST], 0.0))[HOST][first]
        assert stats.success <= 1 and stats.requests >= 1

    run(valkey_url, work)
