"""The fault harness's own judgement: what its checks find, and how it measures recovery. No
process, no server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scraper.plugins.demo.catalogue import Catalogue
from tests.acceptance.chaos import recovery, truth
from tests.acceptance.chaos.audit import Held, Story
from tests.acceptance.chaos.rig import Injected
from tests.acceptance.chaos.servers import Disorder, Interval
from tests.acceptance.chaos.truth import Counted

SHOP = "http://shop"
PAGE = 7
PATH = "/all?page=1"


def story(*held: Held, **more: Any) -> Story:
    return Story(1, 0.0, 100.0, held={PAGE: list(held)}, **more)


def asked(
    monkeypatch: pytest.MonkeyPatch,
    told: Story,
    *log: tuple[float, int],
    woken: tuple[float, ...] = (),
) -> Any:
    """(problems, numbers) for requests for one page at these times, with these answers."""
    monkeypatch.setattr(truth, "pages_of", lambda *_: {PATH: PAGE})
    shop: Any = SimpleNamespace(url=SHOP, log=lambda: [(at, PATH, status) for at, status in log])
    numbers = Counted(1, 1.0)
    engine: Any = None
    found = truth.requests_are_explained(engine, shop, told, Catalogue(10), 1, woken, numbers)
    return found, numbers


def test_one_request_a_lease_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    told = story(Held(PAGE, "a", 1.0, 5.0), Held(PAGE, "b", 6.0, 9.0))
    found, numbers = asked(monkeypatch, told, (2.0, 500), (7.0, 200))
    assert found == [] and (numbers.fetches, numbers.minimum, numbers.over) == (2, 2, 0)


@pytest.mark.parametrize(
    "log", [[(2.0, 200), (3.0, 200)], [(0.5, 200), (2.0, 200)], [(2.0, 200), (5.5, 200)]]
)
def test_a_second_request_and_one_without_a_lease_are_not(
    monkeypatch: pytest.MonkeyPatch, log: list[tuple[float, int]]
) -> None:
    found, numbers = asked(monkeypatch, story(Held(PAGE, "a", 1.0, 5.0)), *log)
    assert len(found) == 1 and numbers.over == 1


def test_a_request_that_was_broken_off_may_be_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = story(Held(PAGE, "a", 1.0, 5.0))
    assert asked(monkeypatch, told, (2.0, 0), (2.1, 200))[0] == []
    assert len(asked(monkeypatch, told, (2.0, 0), (2.1, 0), (2.2, 0))[0]) == 1


def test_what_leaves_a_worker_as_it_wakes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = story(Held(PAGE, "a", 1.0, 5.0))
    found, numbers = asked(monkeypatch, told, (2.0, 200), (20.1, 200), woken=(20.0,))
    assert found == [] and numbers.woken == 1
    assert len(asked(monkeypatch, told, (2.0, 200), (29.0, 200), woken=(20.0,))[0]) == 1


def test_a_page_without_a_request_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, story())[0] == [f"{PATH} was never asked for"]


def test_a_lease_claimed_twice_is_found() -> None:
    told = story(claims=[(1.0, "a", "w1"), (2.0, "b", "w1"), (3.0, "a", "w2")])
    assert truth.leases_are_claimed_once(told) == ["lease a was claimed 2 times"]


def test_time_counts_only_while_nothing_else_is_out_of_order() -> None:
    disorder = Disorder(
        [Interval("redis", 10, 14), Interval("shop", 13, 16), Interval("postgres", 30)]
    )
    assert disorder.orderly_s(8, 20, *recovery.ALL) == 2 + 4
    assert (
        disorder.orderly_s(11, 15, *recovery.ALL) is None
        and disorder.orderly_s(31, 40, *recovery.SERVERS) is None
    )
    assert (
        disorder.orderly_s(14, 20, *recovery.ALL) == 4
        and disorder.orderly_s(14, 20, *recovery.SERVERS) == 6
    )
    assert (
        disorder.since(15, "shop")
        and not disorder.since(15, "redis")
        and disorder.since(99, "postgres")
    )


def measured(kind: str, told: Story, disorder: Disorder | None = None, **more: Any) -> float | None:
    fault = Injected(1, kind, 20.0, ended=22.0, crawl_id=1, **more)
    recovery.measure([fault], told, disorder or Disorder())
    return fault.recovery_s


def test_recovery_of_servers_and_coordinators() -> None:
    told = story(tried=[19.0, 21.0, 25.0], made=[19.0, 21.5], good=[50.0])
    assert measured("postgres_killed", told) == 3
    assert measured("coordinator_killed", told) == 1.5
    assert measured("shop_500", told) == 28
    assert measured("redis_killed", told, Disorder([Interval("postgres", 21, 24)])) == 1
    assert measured("redis_killed", story(tried=[19.0])) is None


def test_recovery_of_a_killed_workers_pages_is_the_slowest_ones() -> None:
    claims = [(1.0, "a", "host:1"), (1.0, "z", "host:2")]
    again = story(
        Held(PAGE, "a", 1.0, 40.0, "due", "worker_lost"),
        Held(PAGE, "b", 41.0, 42.0, "ok", "fetched"),
        claims=claims,
    )
    assert measured("worker_killed", again, workers=["host:1"]) == 20
    assert measured("worker_killed", again, workers=["host:2"]) is None
    before = story(Held(PAGE, "a", 1.0, 5.0, "ok", "fetched"), claims=claims)
    assert measured("worker_killed", before, workers=["host:1"]) is None


def test_what_took_too_long_is_said() -> None:
    slow = Injected(4, "redis_killed", 0.0, recovery_s=31.0)
    assert recovery.too_slow([slow, Injected(5, "shop_500", 0.0, recovery_s=99.0)]) == [
        "#4 redis_killed: work went on after 31.0 s, not 30 s"
    ]
    assert recovery.bound_s("worker_killed") == 60
