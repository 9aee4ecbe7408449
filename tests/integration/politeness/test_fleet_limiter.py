"""The fleet's budgets on a real Valkey: the script alone, against a model, and with several
processes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import combinations

import pytest
import redis
import redis.asyncio as aredis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scraper.errors import DeferredError
from scraper.politeness import fleet_limiter
from scraper.politeness.fleet_limiter import (
    AHEAD_S,
    LEAD_MAX_S,
    RedisFleetLimiter,
    Reservation,
    ServerClock,
)
from scraper.politeness.host_limiter import HostLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.politeness.host_row import list_hosts, read_rows
from scraper.rules.budget import (
    FLOOR,
    SETTLES_S,
    Budget,
    UnusedSlots,
)
from tests.support.machine import examples
from tests.support.pace import cut_pace, raise_pace

HOST = "shop.example"
SLACK_S = 0.5
# The clock of Redis is known to this.
CLOCK_S = 0.02


class Test:
    began = 0.0


def passed_s() -> float:
    """What may have passed since a reservation of this test, on however slow a machine."""
    return asyncio.get_running_loop().time() - Test.began + CLOCK_S


def run(url: str, work: Callable[[aredis.Redis], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with aredis.Redis.from_url(url) as client:
            Test.began = asyncio.get_running_loop().time()
            await work(client)

    asyncio.run(connected())


class FirstClock(ServerClock):
    """Redis's clock as the first answer gave it: it does not get more exact while a test compares
    times."""

    first_s: float | None = None

    def record(self, asked: float, answered: float, server_s: float) -> float:
        if self.first_s is None:
            self.first_s = super().record(asked, answered, server_s)
        return self.first_s


@pytest.fixture
def far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots are reserved ten times as far ahead. With intervals ten times as long, a slow machine
    may take seconds between two questions."""
    monkeypatch.setattr(fleet_limiter, "AHEAD_S", 10 * AHEAD_S)


async def ask(
    one: RedisFleetLimiter,
    *,
    interval_s: float = 0.0,
    slots: int = 0,
    allotment: int = 0,
    in_flight: int = 0,
    concurrency: int = 4,
    burst: int = 1,
    good: int = 0,
    busy_until: float = 0.0,
    unused: UnusedSlots | None = None,
) -> Reservation:
    budget = Budget(interval_s, concurrency, burst)
    return await one.reserve(
        HOST,
        budget,
        slots=slots,
        allotment=allotment,
        in_flight=in_flight,
        good_answers=good,
        busy_until=busy_until,
        unused=unused,
    )


async def rest(one: RedisFleetLimiter, seconds: float, host: str = HOST) -> None:
    await one.slow_down(host, Budget(), rest_s=seconds, why="asked to", age_s=None)


async def complain(
    one: RedisFleetLimiter, *, interval_s: float = 0.0, age_s: float = 0.0, concurrency: int = 4
) -> None:
    await one.slow_down(HOST, Budget(interval_s, concurrency), rest_s=0.0, why="503", age_s=age_s)


def first_s(got: Reservation) -> float:
    """Seconds until the first slot."""
    return got.at(0) - asyncio.get_running_loop().time()


def allotments(client: redis.Redis) -> dict[str, int]:
    """What is written down as each process's."""
    found = client.hgetall(f"scraper:places:{HOST}")
    return {key.decode(): int(value.split(b":")[0]) for key, value in found.items()}  # type: ignore[union-attr]


# --- pace
# ------------------------------------------------------------------------------------------------------------


def test_processes_get_slots_one_after_the_other(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        a, b = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        first = await ask(a, interval_s=0.5, slots=3, allotment=1)
        assert first_s(first) <= LEAD_MAX_S and first.slots == 3
        second = await ask(b, interval_s=0.5, slots=2, allotment=1)
        assert second.slots == 2
        assert 1.5 - passed_s() <= first_s(second) <= 1.5 + LEAD_MAX_S

    run(valkey_url, work)


@pytest.mark.usefixtures("far_ahead")
def test_slots_are_reserved_only_so_far_ahead(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        a, b = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        assert (await ask(a, interval_s=10.0, slots=100, allotment=1)).slots == int(AHEAD_S) + 1
        nothing = await ask(b, interval_s=10.0, slots=1, allotment=1)
        assert nothing.slots == 0
        assert 10 * AHEAD_S - passed_s() < first_s(nothing) <= 10 * (AHEAD_S + 1) + LEAD_MAX_S

    run(valkey_url, work)


def test_a_host_slower_than_the_horizon_still_gets_a_slot(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        assert (await ask(one, interval_s=60.0, slots=1, allotment=1)).slots == 1
        after = await ask(one, interval_s=60.0, slots=1, allotment=1)
        assert after.slots == 1 and 60 - passed_s() <= first_s(after) <= 60 + LEAD_MAX_S
        assert (await ask(one, interval_s=60.0, slots=1, allotment=1)).slots == 0

    run(valkey_url, work)


def test_unused_time_is_not_saved_up(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        await ask(one, interval_s=0.01, slots=1, allotment=1)
        await asyncio.sleep(0.3)
        Test.began = asyncio.get_running_loop().time()
        await ask(one, interval_s=0.5, slots=1, allotment=1)
        after = await ask(one, interval_s=0.5, slots=1, allotment=1)
        assert first_s(after) >= 0.5 - passed_s()

    run(valkey_url, work)


def test_without_a_rate_all_go_at_once_but_not_during_a_rest(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        free = await ask(one, slots=50, allotment=1)
        assert first_s(free) <= 0 and free.slots == 50
        await rest(one, 30.0)
        resting = await ask(one, slots=50, allotment=1)
        assert resting.slots == 0 and 30 - passed_s() <= first_s(resting) <= 30

    run(valkey_url, work)


def test_a_rest_stops_everybody_and_a_shorter_one_does_not_end_it(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        a, b = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        await rest(a, 20.0)
        await rest(b, 1.0)
        for one in (a, b):
            got = await ask(one, interval_s=0.1, slots=5, allotment=1)
            assert got.slots == 0 and 20 - passed_s() <= first_s(got) <= 20

    run(valkey_url, work)


def test_hosts_have_budgets_of_their_own(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        for host in ("a.example", "b.example", "b.example:8080"):
            got = await one.reserve(host, Budget(1.0, 4), slots=2, allotment=4, in_flight=0)
            assert (got.slots, got.allotment) == (2, 4) and first_s(got) <= LEAD_MAX_S

    run(valkey_url, work)


def test_what_is_kept_runs_out_by_itself(valkey_url: str) -> None:
    """A million hosts that were crawled once leave nothing behind."""

    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        await ask(one, interval_s=0.5, slots=3, allotment=1)
        await rest(one, 5.0, "other.example")
        lives = {key: await client.pttl(key) async for key in client.scan_iter("scraper:*")}
        assert len(lives) == 3
        assert all(0 < ms <= 90_000 for ms in lives.values())

    run(valkey_url, work)


# --- allotments
# ----------------------------------------------------------------------------------------------------------


def test_one_process_may_have_all_and_no_more(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        assert (await ask(one, allotment=2)).allotment == 2
        assert (await ask(one, allotment=100)).allotment == 4

    run(valkey_url, work)


def test_a_busy_process_makes_room_for_another_as_its_requests_end(valkey_url: str) -> None:
    """It is never idle: whatever ends is followed by the next page. It must be asked to let some
    places go."""

    async def work(client: aredis.Redis) -> None:
        a, b = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        assert (await ask(a, allotment=4)).allotment == 4
        # but it is known now that it waits
        assert (await ask(b, allotment=4)).allotment == 0
        # four are under way: no new one before two have ended
        assert (await ask(a, allotment=4, in_flight=4)).allotment == 2
        assert (await ask(b, allotment=4)).allotment == 0  # the four still count
        assert (await ask(a, allotment=4, in_flight=3)).allotment == 2
        assert (await ask(b, allotment=4)).allotment == 1
        assert (await ask(a, allotment=4, in_flight=2)).allotment == 2
        assert (await ask(b, allotment=4, in_flight=1)).allotment == 2
        assert (await ask(a, allotment=4, in_flight=2)).allotment == 2

    run(valkey_url, work)


def test_what_one_does_not_want_another_may_have(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        a, b = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        await ask(a, allotment=1)
        assert (await ask(b, allotment=10)).allotment == 3

    run(valkey_url, work)


def test_a_share_given_back_is_free_at_once(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        a, b = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        await ask(a, allotment=4)
        await ask(a)
        assert (await ask(b, allotment=4)).allotment == 4
        with redis.Redis.from_url(valkey_url) as direct:
            assert allotments(direct) == {"b": 4}

    run(valkey_url, work)


async def let_expire(client: aredis.Redis, process: str) -> None:
    """Moves the end of a process's allotment into the past."""
    row = await client.hget(f"scraper:places:{HOST}", process)  # type: ignore[misc]
    granted, wanted, _, *rest = row.decode().split(":")
    expired = ":".join((granted, wanted, "1", *rest))
    await client.hset(f"scraper:places:{HOST}", process, expired)  # type: ignore[misc]


def test_a_dead_processs_share_is_free_after_its_time(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_limiter, "ALLOTMENT_TTL_S", 600.0)

    async def work(client: aredis.Redis) -> None:
        dead, alive = RedisFleetLimiter(client, "dead"), RedisFleetLimiter(client, "alive")
        await ask(dead, allotment=4)
        assert (await ask(alive, allotment=4)).allotment == 0
        await let_expire(client, "dead")
        assert (await ask(alive, allotment=4)).allotment == 4

    run(valkey_url, work)


@pytest.mark.parametrize(("processes", "concurrency"), [(2, 4), (3, 4), (4, 16), (5, 3)])
def test_all_that_want_much_get_about_the_same(
    valkey_url: str, processes: int, concurrency: int
) -> None:
    """Where there are places for all, each process gets one."""

    async def work(client: aredis.Redis) -> None:
        fleet = [RedisFleetLimiter(client, f"p{n}") for n in range(processes)]
        in_flight = [0] * processes
        got = [0] * processes
        for _ in range(4):
            for n, one in enumerate(fleet):
                in_flight[n] = min(in_flight[n], got[n])
                got[n] = (
                    await ask(one, allotment=50, in_flight=in_flight[n], concurrency=concurrency)
                ).allotment
                in_flight[n] = max(in_flight[n], got[n])
        assert sum(got) <= concurrency
        if processes <= concurrency:
            assert min(got) >= concurrency // processes
            assert max(got) <= concurrency // processes + concurrency % processes
        else:
            assert sum(got) == concurrency

    run(valkey_url, work)


def test_where_processes_outnumber_places_the_places_go_round(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of six waits for ever for two places, and those who have waited longest are the next."""
    monkeypatch.setattr(fleet_limiter, "ROTATION_S", 0.05)

    async def work(client: aredis.Redis) -> None:
        fleet = [RedisFleetLimiter(client, f"p{n}") for n in range(6)]
        holds = [0] * 6
        turns: list[int] = []
        for _ in range(60):
            for n, one in enumerate(fleet):
                got = await ask(one, allotment=4, in_flight=0, concurrency=2)
                if got.allotment and not holds[n]:
                    turns.append(n)
                holds[n] = got.allotment
                assert sum(holds) <= 2
            await asyncio.sleep(0.02)
        assert set(turns) == set(range(6))
        assert turns[:6] == sorted(turns[:6]), "first come, first served"
        counts = [turns.count(n) for n in range(6)]
        assert max(counts) - min(counts) <= 1

    run(valkey_url, work)


def test_the_strictest_of_several_sites_budgets_counts_while_its_process_lives(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_limiter, "ALLOTMENT_TTL_S", 600.0)

    async def work(client: aredis.Redis) -> None:
        a, b = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        await ask(a, interval_s=0.5, allotment=1, concurrency=2)
        got = await ask(b, interval_s=0.1, slots=3, allotment=9, concurrency=9, burst=5)
        assert (got.interval_s, got.slots, got.allotment) == (0.5, 3, 1)
        unlimited = await ask(b, slots=3, allotment=9, concurrency=9)
        assert unlimited.interval_s == 0.5
        await let_expire(client, "a")
        assert (await ask(b, allotment=9, concurrency=9)).interval_s == 0.0

    run(valkey_url, work)


# --- burst
# -----------------------------------------------------------------------------------------------------------


def test_a_clock_of_redis_that_was_set_back_stops_no_host(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        assert (await ask(one, interval_s=1.0, slots=2, allotment=1, burst=2)).slots == 2
        await client.hincrby(f"scraper:host:{HOST}", "tat", 600_000_000)  # type: ignore[misc]
        again = await ask(one, interval_s=1.0, slots=1, allotment=1, burst=2)
        assert again.slots == 0 and first_s(again) < 2 * (AHEAD_S + LEAD_MAX_S) + 5

    run(valkey_url, work)


@pytest.mark.usefixtures("far_ahead")
def test_a_burst_may_leave_at_once_and_is_earned_again(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        one._clock = FirstClock()
        got = await ask(one, interval_s=4.0, slots=6, allotment=1, burst=4)
        times = [got.at(k) - got.at(0) for k in range(got.slots)]
        assert times == pytest.approx([0, 0, 0, 0, 4.0, 8.0], abs=1e-3)
        # The two after the burst and one more interval have passed, and a second.
        await client.hincrby(f"scraper:host:{HOST}", "tat", -13_000_000)  # type: ignore[misc]
        again = await ask(one, interval_s=4.0, slots=3, allotment=1, burst=4)
        assert again.slots == 3
        earned_at = got.at(0) - 1.0
        assert again.at(0) == again.start_at, "one is earned"
        assert [again.at(k) for k in range(3)] == pytest.approx(
            [max(again.start_at, earned_at + 4.0 * k) for k in range(3)], abs=1e-3
        )

    run(valkey_url, work)


@pytest.mark.usefixtures("far_ahead")
def test_no_burst_follows_a_rest(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        await rest(one, 5.0)
        got = await ask(one, interval_s=4.0, slots=4, allotment=1, burst=4)
        assert got.slots == 4
        assert [got.at(k) - got.at(0) for k in range(4)] == pytest.approx(
            [0, 4.0, 8.0, 12.0], abs=1e-3
        )

    run(valkey_url, work)


# --- the pace: slower and faster again
# -------------------------------------------------------------------------------


async def pace(client: aredis.Redis) -> float:
    return float(await client.hget(f"scraper:host:{HOST}", "factor") or 1)  # type: ignore[misc]


async def move(client: aredis.Redis, seconds: float) -> None:
    """Lets time pass for the pace: its moments are moved into the past."""
    for field_ in ("cut", "raised", "since"):
        at = await client.hget(f"scraper:host:{HOST}", field_)  # type: ignore[misc]
        if at is not None:
            await client.hset(f"scraper:host:{HOST}", field_, str(int(at) - round(seconds * 1e6)))  # type: ignore[misc]


def test_a_hundred_complaints_of_one_burst_halve_the_pace_once(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        fleet = [RedisFleetLimiter(client, f"p{n}") for n in range(10)]
        await asyncio.gather(*(complain(one, interval_s=0.1) for one in fleet * 10))
        assert await pace(client) == 0.5
        got = await ask(fleet[0], interval_s=0.1, slots=3, allotment=1)
        assert got.interval_s == pytest.approx(0.2)
        await move(client, SETTLES_S + 1)
        await complain(fleet[3], interval_s=0.1, age_s=30.0)
        assert await pace(client) == 0.5, "that request left before the pace was cut"
        await complain(fleet[3], interval_s=0.1)
        assert await pace(client) == 0.25

    run(valkey_url, work)


def test_good_answers_bring_the_pace_back_and_never_past_the_budget(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        await complain(one, interval_s=0.1)
        for _ in range(4):
            await move(client, 15.0)
            assert (await ask(one, interval_s=0.1, allotment=1)).interval_s > 0.1, (
                "time alone does not heal"
            )
        await ask(one, interval_s=0.1, allotment=1, good=1)
        assert await pace(client) == pytest.approx(0.55, abs=0.001)
        for _ in range(5):
            await move(client, 12.0)
            await ask(one, interval_s=0.1, allotment=1, good=100)
        assert await pace(client) == 1.0
        assert (
            await ask(one, interval_s=0.1, slots=1, allotment=1, good=1000)
        ).interval_s == pytest.approx(0.1)
        assert await client.hget(f"scraper:host:{HOST}", "cut") is None  # type: ignore[misc]

    run(valkey_url, work)


def test_a_host_without_a_rate_gets_one_from_what_it_bore(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        await ask(one, allotment=4, good=1)
        await move(client, 6.0)
        await ask(one, allotment=4, good=99)  # 100 in 10 s
        await complain(one)
        got = await ask(one, slots=4, allotment=4)
        assert got.interval_s == pytest.approx(0.2, rel=0.1), "half of ten a second"
        for _ in range(10):
            await move(client, 12.0)
            await ask(one, allotment=4, good=100)
        assert (await ask(one, slots=4, allotment=4)).interval_s == 0.0

    run(valkey_url, work)


def test_a_host_that_complains_at_once_gets_a_pace_from_its_places(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        await ask(one, allotment=4)
        await complain(one, concurrency=4)
        assert (await ask(one, slots=4, allotment=4)).interval_s == pytest.approx(0.5)

    run(valkey_url, work)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.floats(0.1, 90), st.integers(0, 40), st.booleans(), st.floats(0, 60)),
        max_size=25,
    )
)
def test_the_pace_is_the_policys(
    valkey_url: str, events: list[tuple[float, int, bool, float]]
) -> None:
    """Time passes, answers are good, a process complains: the script does what
    `scraper.rules.budget` says."""

    async def work(client: aredis.Redis) -> None:
        await client.flushdb()
        one = RedisFleetLimiter(client, "a")
        factor, since_cut, since_change = 1.0, float("inf"), 0.0
        loop = asyncio.get_running_loop()
        before = loop.time()
        for passes_s, good, complains, age_s in events:
            await move(client, passes_s)
            # the machine's own time passes, too
            before, passed = loop.time(), passes_s + loop.time() - before
            since_cut += passed
            since_change += passed
            await ask(one, interval_s=1.0, allotment=1, good=good)
            if good and factor < 1:
                factor, since_change = raise_pace(factor, good, since_change), 0.0
                since_cut = float("inf") if factor == 1 else since_cut
            # too close to say, with a real clock
            if complains and abs(since_cut - age_s - SETTLES_S) > 0.5:
                await complain(one, interval_s=1.0, age_s=age_s)
                if since_cut > age_s + SETTLES_S:
                    factor, since_cut, since_change = cut_pace(factor), 0.0, 0.0
            assert await pace(client) == pytest.approx(factor, abs=0.01)
            assert FLOOR <= await pace(client) <= 1

    run(valkey_url, work)


# --- against a model
# -------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """The same decisions on places in Python, for one host and with the clock left out."""

    limit: int
    entries: dict[str, tuple[int, int]] = field(default_factory=dict)

    def ask(self, me: str, wants: int, in_flight: int) -> tuple[int, int]:
        """The least and the most that may be granted: who has waited longer comes first."""
        others = {name: entry for name, entry in self.entries.items() if name != me}
        fair = max(1, self.limit // (len(others) + 1))
        starving = any(held < min(wanted, fair) for held, wanted in others.values())
        free = self.limit - sum(held for held, _ in others.values())
        most = max(0, min(wants, fair if starving else self.limit, free))
        queue = sum(1 for held, wanted in others.values() if held == 0 and wanted)
        held_before = self.entries.get(me, (0, 0))[0]
        return (most if held_before else min(most, max(0, free - queue))), most

    def got(self, me: str, wants: int, in_flight: int, allotment: int) -> None:
        self.entries[me] = (max(in_flight, allotment), wants)
        if wants == in_flight == 0:
            del self.entries[me]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 15), st.integers(0, 12)), max_size=40),
)
def test_shares_are_the_models_and_never_above_the_concurrency(
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    asks: list[tuple[int, int, int]],
) -> None:
    """Processes that keep to their allotments: `ends` of their requests are over when they ask, then
    they use all they have."""
    # The model has no time.
    monkeypatch.setattr(fleet_limiter, "ROTATION_S", 600.0)
    monkeypatch.setattr(fleet_limiter, "ALLOTMENT_TTL_S", 600.0)

    async def work(client: aredis.Redis) -> None:
        await client.flushdb()
        model = Model(limit)
        in_flight = [0] * 4
        for process, wants, ends in asks:
            in_flight[process] = max(0, in_flight[process] - ends)
            one = RedisFleetLimiter(client, str(process))
            got = await ask(one, allotment=wants, in_flight=in_flight[process], concurrency=limit)
            least, most = model.ask(str(process), wants, in_flight[process])
            assert least <= got.allotment <= most
            model.got(str(process), wants, in_flight[process], got.allotment)
            in_flight[process] = max(in_flight[process], got.allotment)
            assert sum(in_flight) <= limit
            with redis.Redis.from_url(valkey_url) as direct:
                written = allotments(direct)
            assert sum(written.values()) <= limit
            assert all(in_flight[int(name)] <= held for name, held in written.items())

    run(valkey_url, work)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.floats(0.02, 20),
    st.integers(1, 6),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30), st.none() | st.floats(0.1, 5)),
        min_size=1,
        max_size=25,
    ),
)
def test_slots_never_exceed_the_budget_in_any_window(
    valkey_url: str, interval_s: float, burst: int, asks: list[tuple[int, int, float | None]]
) -> None:
    """Whichever process asks for how many, whatever rests lie between: n slots take at least (n - burst)
    intervals, none lies in a rest, none further ahead than allowed, and none is left out."""

    async def work(client: aredis.Redis) -> None:
        await client.flushdb()
        loop = asyncio.get_running_loop()
        # One clock for all: the others would each have another.
        one = RedisFleetLimiter(client, "any")
        one._clock = FirstClock()
        slots: list[float] = []
        not_before, rested = 0.0, False
        for _, wanted, rest_s in asks:
            asked = loop.time()
            got = await ask(one, interval_s=interval_s, slots=wanted, allotment=1, burst=burst)
            assert 0 <= got.slots <= wanted
            new = [got.at(k) for k in range(got.slots)]
            ahead_s = max(AHEAD_S, interval_s + 0.5) + LEAD_MAX_S
            assert all(asked <= at <= loop.time() + ahead_s for at in new)
            assert all(at >= not_before - 0.001 for at in new)
            if slots and new and not rested:
                latest = max(slots[-1] + interval_s, loop.time() + LEAD_MAX_S)
                assert new[0] <= latest + SLACK_S, "no slot is left out"
            slots += new
            if rest_s is not None:
                not_before, rested = max(not_before, loop.time() + rest_s), True
                await rest(one, rest_s)
        # of a burst's equal ones the later asked for may be known a little more exactly
        slots.sort()
        for first, last in combinations(range(len(slots)), 2):
            n = last - first + 1
            assert slots[last] - slots[first] >= (n - burst) * interval_s - 0.001

    run(valkey_url, work)


def test_a_slot_is_by_rediss_clock_however_long_its_answer_takes() -> None:
    clock = ServerClock()
    assert clock.record(10.0, 10.4, 1000.2) == pytest.approx(10.4 - 1000.2)
    assert clock.record(11.0, 11.01, 1001.0) == pytest.approx(10.01 - 1000)
    assert clock.record(12.0, 12.5, 1002.0) == pytest.approx(10.01 - 1000), (
        "a slow answer tells nothing new"
    )
    assert clock.lead_s >= 0.5
    assert clock.record(13.0, 13.01, 900.0) == pytest.approx(13.01 - 900), "its clock was set back"
    for n in range(200):
        clock.record(14.0 + n, 14.001 + n, 901.0 + n * 0.999)
    assert clock.record(214.0, 214.001, 1100.8) == pytest.approx(214.001 - 1100.8, abs=0.1), (
        "clocks drift"
    )
    assert clock.lead_s < 0.01


def test_a_redis_that_lost_its_memory_learns_which_slots_are_taken(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        one._clock = FirstClock()
        got = await ask(one, interval_s=0.5, slots=4, allotment=2)
        end = got.at(got.slots)
        await client.flushdb()
        after = await ask(one, interval_s=0.5, slots=1, allotment=2, busy_until=end)
        assert after.at(0) >= end - 0.01
        await client.flushdb()
        far = await ask(one, interval_s=0.5, slots=0, allotment=2, busy_until=end + 1e6)
        assert first_s(far) <= AHEAD_S + LEAD_MAX_S + SLACK_S, (
            "a clock that differs by days stops nobody for days"
        )

    run(valkey_url, work)


# --- Redis is away
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.usefixtures("far_ahead")
def test_slots_come_back_while_no_process_has_later_ones(valkey_url: str, burst: int) -> None:
    async def work(client: aredis.Redis) -> None:
        one, other = RedisFleetLimiter(client, "a"), RedisFleetLimiter(client, "b")
        one._clock = other._clock = FirstClock()
        got = await ask(one, interval_s=5.0, slots=4, allotment=1, burst=burst)
        again = await ask(
            one,
            interval_s=5.0,
            slots=2,
            allotment=1,
            burst=burst,
            unused=UnusedSlots(got.end, 3, got.interval_s),
        )
        assert again.returned and again.slots == 2
        assert again.at(1) == pytest.approx(max(again.start_at, got.first_at + 2 * 5.0), abs=0.02)
        late = await ask(other, interval_s=5.0, slots=1, allotment=1, burst=burst)
        assert late.at(0) >= again.at(1) + 4.99 or burst > 1
        refused = await ask(
            one,
            interval_s=5.0,
            slots=2,
            allotment=1,
            burst=burst,
            unused=UnusedSlots(again.end, 1, 5.0),
        )
        assert not refused.returned and refused.slots == 0
        assert refused.end == late.end, "nothing is taken from the other"

    run(valkey_url, work)


def test_what_comes_back_late_is_not_caught_up_on(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        got = await ask(one, interval_s=0.1, slots=10, allotment=1)
        await asyncio.sleep(0.5)
        asked = asyncio.get_running_loop().time()
        again = await ask(
            one,
            interval_s=0.1,
            slots=2,
            allotment=1,
            unused=UnusedSlots(got.end, 10, got.interval_s),
        )
        assert again.returned and again.at(0) >= asked
        assert again.at(1) - again.at(0) == pytest.approx(0.1)

    run(valkey_url, work)


def test_without_redis_a_page_waits_and_pays_nothing(tmp_path: object) -> None:
    async def work() -> None:
        async with aredis.Redis.from_url(f"unix://{tmp_path}/none.sock") as client:
            one = RedisFleetLimiter(client, "a")
            limiter = HostLimiter(HOST, one)
            with pytest.raises(DeferredError):
                async with limiter.permit(asyncio.get_running_loop().time() + 10):
                    raise AssertionError("no request leaves without a budget")
            await rest(one, 1.0)
            assert limiter.is_idle

    asyncio.run(work())


def test_a_redis_that_lost_its_memory_goes_on(valkey_url: str) -> None:
    """Scripts, pace and allotments are gone; the next question makes them again."""

    async def work(client: aredis.Redis) -> None:
        one = RedisFleetLimiter(client, "a")
        await ask(one, interval_s=1.0, slots=3, allotment=2)
        await client.flushdb()
        await client.script_flush()
        got = await ask(one, interval_s=1.0, slots=3, allotment=2, in_flight=2)
        assert (got.slots, got.allotment) == (3, 2)

    run(valkey_url, work)


@pytest.mark.parametrize(
    "row",
    [
        {"tat": "nan", "factor": "-nan", "rest": "inf"},
        {"tat": "1e30", "rest": "1e30", "factor": "1e-30", "base": "1e30"},
        {"tat": "x", "rest": "", "factor": "no", "raised": "y", "answers": "z", "cut": "?"},
        {"raised": "nan", "factor": "0.5", "answers": "nan", "since": "-1e30", "cut": "nan"},
        {"tat": "9" * 400, "rest": "9" * 400},
        None,
    ],
)
def test_foreign_values_of_a_host_count_as_lost(
    valkey_url: str, row: dict[str, str] | None
) -> None:
    async def work(client: aredis.Redis) -> None:
        for key in (f"scraper:host:{HOST}", f"scraper:places:{HOST}"):
            if row is None:
                await client.set(key, "x")
            else:
                await client.hset(key, mapping=row)  # type: ignore[misc]
        with redis.Redis.from_url(valkey_url) as seen:
            seen.hset(b"scraper:host:\xff", mapping={"why": b"\xff"})
            assert HOST in read_rows(seen, list_hosts(seen))
        one = RedisFleetLimiter(client, "a")
        if row is None:
            await complain(one, interval_s=0.01)
        got = await ask(one, interval_s=0.01, slots=3, allotment=2, good=5)
        assert (got.slots, got.allotment) == (3, 2) and first_s(got) < 1
        await complain(one, interval_s=0.01)
        again = await ask(one, interval_s=0.01, slots=1, allotment=2)
        assert again.slots == 1 and first_s(again) < 2

    run(valkey_url, work)


# A pattern that looks for its beginning everywhere in the last of these would stop Redis for hours.
FORGED = (
    "0:1:{soon}:0:{huge}:1:1",
    "{huge}:{huge}:{soon}:{huge}:1:1:1",
    "{huge}" * 20_000,
)


@pytest.mark.parametrize("row", FORGED, ids=range(len(FORGED)))
def test_a_forged_allotment_does_not_raise_the_rate(valkey_url: str, row: str) -> None:
    async def work(client: aredis.Redis) -> None:
        seconds, _ = await client.time()
        forged = row.format(soon=(seconds + 60) * 1_000_000, huge="9" * 30)
        await client.hset(f"scraper:places:{HOST}", "forged", forged)  # type: ignore[misc]
        one = RedisFleetLimiter(client, "a")
        got = [await ask(one, interval_s=100.0, slots=1, allotment=1) for _ in range(20)]
        assert sum(reservation.slots for reservation in got) <= 2
        assert all(reservation.interval_s == 100.0 for reservation in got)

    run(valkey_url, work)


def test_forged_allotments_without_number_count_as_lost(valkey_url: str) -> None:
    async def work(client: aredis.Redis) -> None:
        seconds, _ = await client.time()
        row = f"1:1:{(seconds + 60) * 1_000_000}:0:0:9:9"
        await client.hset(f"scraper:places:{HOST}", mapping=dict.fromkeys(range(30_000), row))  # type: ignore[misc]
        got = await ask(RedisFleetLimiter(client, "a"), interval_s=0.1, slots=1, allotment=1)
        assert got.allotment == 1
        assert await client.hlen(f"scraper:places:{HOST}") == 1  # type: ignore[misc]

    run(valkey_url, work)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_page_of_a_slow_host_gets_through_whichever_worker_has_it(
    valkey_url: str, processes: int
) -> None:
    """It comes back each time when it has to, to another process or to one that has forgotten
    the host in that time, and no batch lasts as long as the host's interval."""

    async def work(client: aredis.Redis) -> None:
        budget, tries = Budget(1.2, 4), 0
        fleets = [RedisFleetLimiter(client, f"process-{n}") for n in range(processes)]
        loop = asyncio.get_running_loop()

        async def passed() -> bool:
            nonlocal tries
            limiters = HostLimiters(fleets[tries % processes])
            limiter = limiters.for_host(HOST)
            limiter.set_budget(1, budget)
            tries += 1
            try:
                async with limiter.permit(loop.time() + 0.2):
                    return True
            except DeferredError as error:
                await limiters.sweep()
                assert not limiters._limiters, "it is forgotten"
                await asyncio.sleep(error.delay_s + 0.06)
            return False

        for _ in range(3):
            # For seconds after a slow reply, slots are further off than a batch lasts here.
            for _ in range(30):
                if await passed():
                    break
            else:
                raise AssertionError("the page was put off again and again")

    run(valkey_url, work)
