"""What operators say of hosts and see of them, on a real PostgreSQL and Valkey; and that dispatch
and workers obey."""

from __future__ import annotations

import asyncio
import time

import pytest
import redis
import redis.asyncio as aredis
import sqlalchemy as sa

from scraper.coordinator.dispatch import dispatch
from scraper.frontier import crawls, hosts
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.rules.budget import Budget, Override
from scraper.settings import Settings
from scraper.views import host_states
from scraper.views.host_states import HostState
from tests.support.making import a_site, add, new_page, open_crawl, rows, urls

SETTINGS = Settings(batch_pages=100, horizon_s=10)


def shop(engine: sa.Engine, name: str, pages: int, **more: object) -> tuple[int, int]:
    crawl = open_crawl(engine, a_site(name, **more))
    add(engine, [new_page(crawl, url) for url in urls(pages, f"{name}.example")], room=1_000_000)
    return crawl


def leased(engine: sa.Engine) -> dict[str, int]:
    dispatch(engine, SETTINGS, lambda _: 0)
    return dict(rows(engine, "SELECT host, count(*) FROM leased_pages GROUP BY host"))  # type: ignore[arg-type]


def pause(engine: sa.Engine, host: str, paused: bool = True) -> bool:
    with engine.begin() as connection:
        return hosts.set_paused(connection, host, paused=paused)


def say(engine: sa.Engine, host: str, *, reset: bool = False, **said: object) -> None:
    values = {"rate": None, "concurrency": None, "burst": None} | said
    with engine.begin() as connection:
        hosts.set_budget(connection, host, reset=reset, **values)  # type: ignore[arg-type]


def overrides(engine: sa.Engine) -> dict[str, Override]:
    with engine.connect() as connection:
        return hosts.read_overrides(connection)


def states(engine: sa.Engine, url: str) -> dict[str, HostState]:
    with engine.connect() as connection, redis.Redis.from_url(url) as client:
        return {state.host: state for state in host_states.read_states(connection, client)}


def test_a_paused_host_gets_no_lease_and_others_do(engine: sa.Engine) -> None:
    shop(engine, "a", 5, rate="unlimited")
    shop(engine, "b", 5, rate="unlimited")
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE pages SET losses = 2 WHERE host = 'a.example' AND id % 2 = 0")
        )
    assert pause(engine, "a.example") and not pause(engine, "a.example")
    assert leased(engine) == {"b.example": 5}
    assert pause(engine, "a.example", False) and not pause(engine, "a.example", False)
    assert leased(engine) == {"a.example": 5, "b.example": 5}
    assert rows(engine, "SELECT * FROM hosts") == [], "a row that says nothing is none"


def test_a_crawl_that_waits_for_a_paused_host_does_not_stand_still(engine: sa.Engine) -> None:
    _, crawl_id = shop(engine, "a", 2)
    pause(engine, "a.example")
    still: list[int] = []
    for paused in (True, False):
        pause(engine, "a.example", paused)
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "UPDATE crawls SET watched_at = now() - interval '2 minutes', progressed_at = '2020-01-01'"
                )
            )
            still = crawls.stalled_crawls(connection, 1)
        assert still == ([] if paused else [crawl_id])


@pytest.mark.parametrize(("rate", "pages"), [("6/m", 1), ("2/s", 12), ("unlimited", 300)])
def test_dispatch_goes_by_what_was_set(engine: sa.Engine, rate: str, pages: int) -> None:
    shop(engine, "a", 300, rate="1/s")
    say(engine, "a.example", rate=rate)
    assert leased(engine) == {"a.example": pages}


def test_what_was_said_adds_up_until_it_is_taken_back(engine: sa.Engine) -> None:
    say(engine, "a.example", rate="30/m")
    say(engine, "a.example", concurrency=2)
    pause(engine, "a.example")
    assert overrides(engine) == {"a.example": Override(True, 2.0, 2, None)}
    say(engine, "a.example", reset=True, burst=3, rate="unlimited")
    assert overrides(engine) == {"a.example": Override(True, 0.0, None, 3)}
    say(engine, "a.example", reset=True)
    assert overrides(engine) == {"a.example": Override(True)}
    pause(engine, "a.example", False)
    assert overrides(engine) == {}


def test_what_is_shown_is_what_counts(engine: sa.Engine, valkey_url: str) -> None:
    async def fleet() -> None:
        async with aredis.Redis.from_url(valkey_url) as client:
            one = RedisFleetLimiter(client, "a")
            budget = Budget(0.5, 4, 1)
            await one.reserve("a.example", budget, slots=3, allotment=2, in_flight=0)
            await one.slow_down(
                "a.example", budget, rest_s=30.0, why="429, Retry-After 30 s", age_s=0.0
            )
            await one.reserve("live.example", Budget(0.0, 9), slots=0, allotment=1, in_flight=1)

    shop(engine, "a", 3, rate="2/s")
    shop(engine, "b", 1, rate="unlimited", concurrency=7)
    say(engine, "b.example", rate="30/m")
    pause(engine, "b.example")
    leased(engine)
    began = time.monotonic()
    asyncio.run(fleet())
    with redis.Redis.from_url(valkey_url) as client:
        # a next slot that is not over when it is looked at, on however slow a machine
        client.hincrby("scraper:host:a.example", "tat", 600_000_000)
    found = states(engine, valkey_url)
    passed_s = time.monotonic() - began
    a, b, live = found["a.example"], found["b.example"], found["live.example"]
    assert (a.rate_per_s, a.concurrency, a.burst, a.in_flight) == (2.0, 4, 1, 2)
    assert (a.pace, a.pace_per_s, a.leased, a.due, a.sites) == (0.5, 1.0, 3, 0, ["a"])
    assert a.why == "429, Retry-After 30 s" and a.rests_s is not None
    assert 30 - passed_s < a.rests_s <= 30
    assert a.next_slot_s is not None and 600 - passed_s < a.next_slot_s < 602
    assert (b.rate_per_s, b.concurrency, b.paused, b.override, b.due) == (
        0.5,
        7,
        True,
        {"rate": "30/m"},
        1,
    )
    assert (live.rate_per_s, live.in_flight, live.sites) == (None, 1, [])
