"""A group that holds one page twice: a worker lost its lease, got the page again, and stores both
at once."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.domain import Kind, Outcome, Status, Verdict
from scraper.frontier import leases
from scraper.results.transaction import PageResult
from tests.support.making import (
    OK,
    a_site,
    add,
    claimed,
    expire,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
    with_product,
)

BACK = Verdict(Status.DUE, 0.0, charged=False)
AGAIN = Verdict(Status.DUE, 30.0, charged=True)
DEAD = Verdict(Status.DEAD, 0.0, charged=True)
PAGE = "SELECT status, last_outcome, http_status, attempts, host_attempts, losses FROM pages WHERE kind = 'product'"
COUNTS = (
    "SELECT fetches, retries, ok, dead, gone, product_done, products_new, links_cut FROM crawls"
)


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site())


@pytest.fixture
def twice(engine: sa.Engine, crawl: tuple[int, int]) -> tuple[int, UUID, UUID]:
    """One page that was leased, lost, and leased again: its id, the lost lease, the living one."""
    add(engine, [new_page(crawl, urls(1)[0])])
    (lost,) = lease_all(engine, "shop.example")
    lease = claimed(engine, lost)
    assert lease is not None
    expire(engine, lost.id)
    with engine.begin() as connection:
        assert len(leases.reclaim_expired(connection)) == 1
    (living,) = lease_all(engine, "shop.example")
    assert claimed(engine, living) is not None
    return lease.pages[0].id, lost.id, living.id


def one(
    twice: tuple[int, UUID, UUID],
    crawl: tuple[int, int],
    lease_id: UUID,
    outcome: Outcome,
    verdict: Verdict,
    code: int,
) -> PageResult:
    return PageResult(twice[0], crawl[1], lease_id, outcome, verdict, code)


@pytest.fixture(params=["the lost one first", "the living one first"])
def in_order(request: pytest.FixtureRequest) -> int:
    return 1 if request.param == "the lost one first" else -1


def test_it_is_counted_once_and_the_living_ones_data_is_stored(
    engine: sa.Engine, crawl: tuple[int, int], twice: tuple[int, UUID, UUID], in_order: int
) -> None:
    _, lost, living = twice
    stale = with_product(
        one(twice, crawl, lost, Outcome.FETCHED, OK, 203), crawl, "7", {"title": "stale"}
    )
    links = [new_page(crawl, "https://shop.example/found-by-the-lost-one", Kind.LISTING)]
    stale = replace(stale, links=links, partial=True)
    good = with_product(
        one(twice, crawl, living, Outcome.FETCHED, OK, 200), crawl, "7", {"title": "good"}
    )
    stored = store(engine, crawl, [stale, good][::in_order])
    assert (stored.held, stored.added, stored.drained) == (1, 0, [crawl[1]])
    assert rows(engine, "SELECT external_id, data, version FROM products") == [
        ("7", {"title": "good"}, 1)
    ]
    assert rows(engine, PAGE) == [("ok", "fetched", 200, 1, 0, 0)]
    assert rows(engine, COUNTS) == [(1, 0, 1, 0, 0, 1, 1, 0)]
    assert rows(engine, "SELECT FROM leases") == []
    assert store(engine, crawl, [stale, good]).held == 0


@pytest.mark.parametrize(
    ("outcome", "verdict", "code", "page", "counts"),
    [
        (
            Outcome.DEFERRED,
            BACK,
            None,
            ("due", "worker_lost", None, 0, 0, 1),
            (0, 0, 0, 0, 0, 0, 0, 0),
        ),
        (
            Outcome.HOST_DOWN,
            DEAD._replace(charged=False),
            None,
            ("dead", "host_down", None, 0, 0, 0),
            (0, 0, 0, 1, 0, 1, 0, 0),
        ),
        (Outcome.TIMEOUT, AGAIN, None, ("due", "timeout", None, 0, 1, 0), (1, 1, 0, 0, 0, 0, 0, 0)),
        (Outcome.REFUSED, DEAD, 403, ("dead", "refused", 403, 1, 0, 0), (1, 0, 0, 1, 0, 1, 0, 0)),
    ],
)
def test_what_the_lost_one_fetched_is_nothing(
    engine: sa.Engine,
    crawl: tuple[int, int],
    twice: tuple[int, UUID, UUID],
    in_order: int,
    outcome: Outcome,
    verdict: Verdict,
    code: int,
    page: tuple[object, ...],
    counts: tuple[object, ...],
) -> None:
    """Its answer was good, but the page is another's."""
    stale = with_product(
        one(twice, crawl, twice[1], Outcome.FETCHED, OK, 200), crawl, "7", {"title": "stale"}
    )
    living = one(twice, crawl, twice[2], outcome, verdict, code)
    assert store(engine, crawl, [stale, living][::in_order]).held == 1
    assert rows(engine, PAGE) == [page]
    assert rows(engine, COUNTS) == [counts]
    assert rows(engine, "SELECT FROM products") == []


@pytest.mark.parametrize(
    ("outcome", "verdict", "code"),
    [(Outcome.DEFERRED, BACK, None), (Outcome.TIMEOUT, AGAIN, None), (Outcome.REFUSED, DEAD, 403)],
)
def test_its_outcome_under_the_lost_lease_is_not_counted(
    engine: sa.Engine,
    crawl: tuple[int, int],
    twice: tuple[int, UUID, UUID],
    in_order: int,
    outcome: Outcome,
    verdict: Verdict,
    code: int,
) -> None:
    lost = one(twice, crawl, twice[1], outcome, verdict, code)
    good = with_product(
        one(twice, crawl, twice[2], Outcome.FETCHED, OK, 200), crawl, "7", {"title": "good"}
    )
    assert store(engine, crawl, [lost, good][::in_order]).held == 1
    assert rows(engine, PAGE) == [("ok", "fetched", 200, 1, 0, 0)]
    assert rows(engine, COUNTS) == [(1, 0, 1, 0, 0, 1, 1, 0)]


def test_it_takes_no_page_out_of_the_living_lease(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(2)])
    (lost,) = lease_all(engine, "shop.example")
    expire(engine, lost.id)
    with engine.begin() as connection:
        leases.reclaim_expired(connection)
    (living,) = lease_all(engine, "shop.example")
    lease = claimed(engine, living)
    assert lease is not None
    one, other = (page.id for page in lease.pages)
    stale = settled(one, crawl, lost.id)
    assert store(engine, crawl, [stale, settled(other, crawl, living.id)]).held == 1
    assert rows(engine, "SELECT page_id, lease_id FROM leased_pages") == [(one, living.id)]
    assert store(engine, crawl, [settled(one, crawl, living.id)]).held == 1


def test_one_that_another_worker_has_by_now_is_left_to_it(
    engine: sa.Engine, crawl: tuple[int, int], twice: tuple[int, UUID, UUID], in_order: int
) -> None:
    """Both leases are lost."""
    expire(engine, twice[2])
    with engine.begin() as connection:
        leases.reclaim_expired(connection)
    pages = [
        with_product(
            one(twice, crawl, lease_id, Outcome.FETCHED, OK, 200), crawl, "7", {"title": "stale"}
        )
        for lease_id in twice[1:]
    ]
    assert store(engine, crawl, pages[::in_order]).held == 0
    assert rows(engine, PAGE) == [("due", "worker_lost", None, 0, 0, 2)]
    assert rows(engine, COUNTS) == [(0, 0, 0, 0, 0, 0, 0, 0)]
