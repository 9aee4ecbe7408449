"""Sums over time and by host: what settling adds to them, what becomes of them with time, and what
is read from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.domain import CrawlStatus, LeasedPage, Outcome, Status, Verdict
from scraper.frontier import crawls, leases, throughput
from scraper.frontier.progress import read_progress
from scraper.frontier.throughput import FetchCost
from scraper.plugins.flower import charts
from scraper.results.transaction import PageResult, settle_pages
from scraper.rules.urls import host_of
from scraper.settings import Settings
from tests.support.making import (
    AGAIN,
    LIMITS,
    OK,
    a_site,
    add,
    at_once,
    claimed,
    expire,
    lease_all,
    new_page,
    open_crawl,
    rows,
    urls,
)

DEAD = Verdict(Status.DEAD, 0.0, True)
SUMS = "SELECT worker, queue, proxy, outcome, tries, done, seconds, bytes FROM throughput ORDER BY 1, 2, 3, 4"
HOSTS = (
    "SELECT host, worker, tries, failures, seconds, slowest_s, bytes FROM crawl_hosts ORDER BY 1, 2"
)


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site())


def leased(
    engine: sa.Engine, crawl: tuple[int, int], found: list[str]
) -> tuple[UUID, tuple[LeasedPage, ...]]:
    add(engine, [new_page(crawl, url) for url in found], room=100_000)
    (batch,) = lease_all(engine, host_of(found[0]), len(found))
    lease = claimed(engine, batch)
    assert lease is not None
    return lease.id, lease.pages


def one(
    crawl: tuple[int, int],
    lease_id: UUID,
    page: LeasedPage,
    outcome: Outcome = Outcome.FETCHED,
    verdict: Verdict = OK,
    **cost: object,
) -> PageResult:
    settled = PageResult(
        page.id, crawl[1], lease_id, outcome, verdict, 200, error=None if verdict is OK else "no"
    )
    spent = {"queue": "datacenter", "host": page.host, "seconds": 0.5, "bytes": 1000} | cost
    return replace(settled, cost=FetchCost(**spent))  # type: ignore[arg-type]


def store(
    engine: sa.Engine, crawl: tuple[int, int], pages: list[PageResult], worker: str = "a:1"
) -> None:
    with engine.begin() as connection:
        settle_pages(connection, pages, {crawl[1]: LIMITS}, worker)


def test_a_group_is_summed_by_queue_proxy_outcome_and_host(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    lease_id, pages = leased(engine, crawl, urls(6))
    group = [
        one(crawl, lease_id, pages[0], seconds=0.25),
        one(crawl, lease_id, pages[1], seconds=2.0),
        one(crawl, lease_id, pages[2], proxy="residential"),
        one(crawl, lease_id, pages[3], Outcome.TIMEOUT, AGAIN, bytes=0),
        one(crawl, lease_id, pages[4], Outcome.SERVER_ERROR, DEAD),
        one(crawl, lease_id, pages[5], Outcome.DEFERRED, Verdict(Status.DUE, 0.0, False)),
    ]
    store(engine, crawl, group)
    assert rows(engine, SUMS) == [
        ("a:1", "datacenter", "", "fetched", 2, 2, 2.25, 2000),
        ("a:1", "datacenter", "", "server_error", 1, 1, 0.5, 1000),
        ("a:1", "datacenter", "", "timeout", 1, 0, 0.5, 0),
        ("a:1", "datacenter", "residential", "fetched", 1, 1, 0.5, 1000),
    ]
    assert rows(engine, HOSTS) == [("shop.example", "a:1", 5, 2, 3.75, 2.0, 4000)]
    assert rows(engine, "SELECT fetches, product_done FROM crawls") == [(5, 4)]


def test_what_a_lost_lease_did_does_not_count(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    lease_id, pages = leased(engine, crawl, urls(2))
    expire(engine, lease_id)
    with engine.begin() as connection:
        leases.reclaim_expired(connection)
    store(engine, crawl, [one(crawl, lease_id, page) for page in pages])
    assert rows(engine, SUMS) == rows(engine, HOSTS) == []


def test_a_group_that_comes_twice_counts_once(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    lease_id, pages = leased(engine, crawl, urls(3))
    add(engine, [new_page(crawl, "https://shop.example/keeps-it-open")])
    for _ in range(2):
        store(engine, crawl, [one(crawl, lease_id, page) for page in pages])
    assert rows(engine, "SELECT sum(tries) FROM throughput") == [(3,)]


def test_two_workers_add_at_once_to_rows_of_their_own(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Neither waits for the other: the first has not committed yet."""
    batches = [leased(engine, crawl, urls(20, host)) for host in ("a.example", "b.example")]
    _, pages = batches[0]
    with engine.connect() as first, first.begin():
        throughput.add_tries(
            first,
            "a:1",
            [
                (crawl[1], Outcome.FETCHED, True, FetchCost("datacenter", "a.example"))
                for _ in pages
            ],
        )
        with engine.begin() as second:
            second.execute(sa.text("SET LOCAL lock_timeout = '2s'"))
            throughput.add_tries(
                second,
                "b:2",
                [
                    (crawl[1], Outcome.FETCHED, True, FetchCost("datacenter", "a.example"))
                    for _ in pages
                ],
            )
    assert rows(engine, "SELECT worker, tries FROM crawl_hosts ORDER BY 1") == [
        ("a:1", 20),
        ("b:2", 20),
    ]


def test_workers_of_one_crawl_lose_nothing_at_once(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    batches = [leased(engine, crawl, urls(30, f"{name}.example")) for name in "abcd"]

    def works(number: int) -> None:
        lease_id, pages = batches[number]
        for start in range(0, 30, 5):
            store(
                engine,
                crawl,
                [one(crawl, lease_id, p) for p in pages[start : start + 5]],
                f"w:{number % 2}",
            )

    at_once([lambda number=number: works(number) for number in range(4)])  # type: ignore[misc]
    assert rows(engine, "SELECT sum(tries), sum(done) FROM throughput") == [(120, 120)]
    assert rows(engine, "SELECT sum(tries), count(DISTINCT host) FROM crawl_hosts") == [(120, 4)]
    assert rows(engine, "SELECT fetches FROM crawls") == [(120,)]


# --- with time


def a_bucket(
    engine: sa.Engine,
    age: str,
    step_s: int = 10,
    tries: int = 1,
    crawl_id: int = 1,
    worker: str = "a",
) -> None:
    query = f"""
        INSERT INTO throughput VALUES (
               {crawl_id}, date_bin(make_interval(secs => {step_s}), now() - interval '{age}', 'epoch'), {step_s},
               '{worker}', 'datacenter', '', 'fetched', {tries}, {tries}, 1.5, 10)
        ON CONFLICT (crawl_id, at, step_s, worker, queue, proxy, outcome) DO UPDATE SET tries = throughput.tries + {tries}"""
    with engine.begin() as connection:
        connection.execute(sa.text(query))


def tidy(engine: sa.Engine, days: int = 14) -> None:
    with engine.begin() as connection:
        throughput.tidy_buckets(connection, days)


def test_old_buckets_become_coarser_and_lose_nothing(engine: sa.Engine) -> None:
    for seconds in range(0, 1200, 10):
        a_bucket(engine, f"4 hours {seconds} seconds", worker="ab"[seconds % 20 // 10])
    a_bucket(engine, "1 hour", tries=7)
    tidy(engine)
    found = dict(rows(engine, "SELECT step_s, sum(tries) FROM throughput GROUP BY 1"))  # type: ignore[arg-type]
    assert found == {60: 120, 10: 7}
    misplaced = (
        "SELECT FROM throughput WHERE date_bin(make_interval(secs => step_s), at, 'epoch') <> at"
    )
    assert rows(engine, misplaced) == []
    before = rows(engine, "SELECT * FROM throughput ORDER BY 1, 2, 3, 4")
    assert len(before) <= 2 * 21 + 1
    tidy(engine)
    assert rows(engine, "SELECT * FROM throughput ORDER BY 1, 2, 3, 4") == before


def test_a_bucket_that_comes_late_is_added(engine: sa.Engine) -> None:
    a_bucket(engine, "5 hours", tries=3)
    ((at,),) = rows(engine, "SELECT at FROM throughput")
    tidy(engine)
    a_bucket(engine, "5 hours", tries=4)
    with engine.begin() as connection:
        late = sa.text("UPDATE throughput SET at = :at WHERE step_s = 10")
        assert connection.execute(late, {"at": at}).rowcount == 1
    tidy(engine)
    assert rows(engine, "SELECT step_s, tries, done FROM throughput") == [(60, 7, 7)]


def test_days_become_ten_minutes_and_weeks_are_dropped(engine: sa.Engine) -> None:
    for age in ("3 days", "3 days 1 minute", "13 days"):
        a_bucket(engine, age, step_s=60, tries=2)
    a_bucket(engine, "15 days", step_s=600)
    # No coordinator ran for weeks.
    a_bucket(engine, "20 days", step_s=10)
    tidy(engine)
    tidy(engine)
    assert rows(engine, "SELECT step_s, sum(tries) FROM throughput GROUP BY 1") == [(600, 6)]
    tidy(engine, days=1)
    assert rows(engine, "SELECT FROM throughput") == []


def test_only_one_coordinator_tidies_at_a_time(engine: sa.Engine) -> None:
    a_bucket(engine, "20 days", step_s=600)
    with engine.connect() as other, other.begin():
        throughput.tidy_buckets(other, 14)
        tidy(engine)  # does not wait
        other.rollback()
    assert len(rows(engine, "SELECT FROM throughput")) == 1
    tidy(engine)
    assert rows(engine, "SELECT FROM throughput") == []


def test_the_reaper_tidies(engine: sa.Engine, environment: Settings) -> None:
    from scraper.coordinator.reap import reap

    a_bucket(engine, "20 days", step_s=600)
    reap(engine, environment)
    assert rows(engine, "SELECT FROM throughput") == []


# --- hosts


def test_a_crawl_that_ends_keeps_its_largest_hosts_and_every_sum(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    many = throughput.HOSTS_KEPT + 300
    for worker in ("a:1", "b:2"):
        efforts = [
            FetchCost("datacenter", f"h{n}.example", seconds=n / 100, bytes=n) for n in range(many)
        ]
        with engine.begin() as connection:
            throughput.add_tries(
                connection,
                worker,
                [(crawl[1], Outcome.TIMEOUT, True, cost) for cost in efforts],
            )
    assert rows(engine, "SELECT count(*) FROM crawl_hosts") == [(2 * many,)]
    sums = """SELECT sum(tries), sum(failures), round(CAST(sum(seconds) AS numeric), 3), max(slowest_s), sum(bytes)
                FROM crawl_hosts"""
    before = rows(engine, sums)
    with engine.begin() as connection:
        crawls.end_crawl(connection, crawl[1], CrawlStatus.COMPLETED, None)
    assert rows(engine, sums) == before
    kept = rows(engine, "SELECT host, worker, tries FROM crawl_hosts")
    assert len(kept) == throughput.HOSTS_KEPT + 1 and ("", "", 600) in kept
    assert {host for host, _, _ in kept} - {""} == {f"h{n}.example" for n in range(300, many)}
    with engine.connect() as connection:
        shown = charts.read_hosts(connection, crawl[1], limit=3)
    assert [(host.host, host.hosts) for host in shown] == [
        (f"h{n}.example", len(kept)) for n in (499, 498, 497)
    ]


def test_hosts_of_old_crawls_are_forgotten_the_oldest_first(engine: sa.Engine) -> None:
    ids = [open_crawl(engine, a_site(f"shop{n}"))[1] for n in range(3)]
    with engine.begin() as connection:
        # crawl 0 is gone itself
        for crawl_id in (*ids, 0):
            throughput.add_tries(
                connection, "a", [(crawl_id, Outcome.FETCHED, True, FetchCost("datacenter", "h"))]
            )
        connection.execute(
            sa.text("UPDATE crawls SET finished_at = now() - interval '20 days' WHERE id = :id"),
            {"id": ids[0]},
        )
    for _ in range(3):
        tidy(engine)
    assert rows(engine, "SELECT crawl_id FROM crawl_hosts ORDER BY 1") == [(ids[1],), (ids[2],)]


# --- read again


def test_a_course_has_every_step_and_every_try(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    for seconds in (0, 5, 700, 1400):
        a_bucket(engine, f"{seconds} seconds", tries=1 + seconds, crawl_id=crawl[1])
    with engine.connect() as connection:
        now: datetime = connection.execute(sa.text("SELECT now()")).scalar_one()
        shown, points = charts.read_course(connection, crawl[1], now - timedelta(seconds=1410), now)
    assert shown.step_s == 20 and len(points) in (71, 72)
    assert sum(point.tries for point in points) == 4 + 2105
    assert all(
        point.outcomes == ({"fetched": point.tries} if point.tries else {}) for point in points
    )


def test_a_course_is_not_finer_than_what_is_kept(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    a_bucket(engine, "10 seconds", step_s=600, crawl_id=crawl[1], tries=60)
    with engine.connect() as connection:
        now: datetime = connection.execute(sa.text("SELECT now()")).scalar_one()
        shown, points = charts.read_course(connection, crawl[1], now - timedelta(seconds=30), now)
    assert shown.step_s == 600 and sum(point.tries for point in points) == 60


def test_a_sparkline_of_an_old_crawl_is_spread_evenly(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    a_bucket(engine, "3 days", step_s=600, crawl_id=crawl[1], tries=600)
    with engine.connect() as connection:
        at: datetime = connection.execute(sa.text("SELECT at FROM throughput")).scalar_one()
        spark = charts.read_sparks(connection, {crawl[1]: (at, at + timedelta(seconds=590))})[
            crawl[1]
        ]
    assert len(spark) > 10 and sum(spark) / len(spark) == pytest.approx(1, rel=0.1)


def test_the_rate_is_that_of_the_last_half_minute(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET started_at = now() - interval '1 hour'"))
    a_bucket(engine, "5 minutes", tries=100_000, crawl_id=crawl[1])
    assert the_rate(engine) == 0
    a_bucket(engine, "15 seconds", tries=400, crawl_id=crawl[1])
    # 400 in 30 to 40 s
    assert 9 < the_rate(engine) <= 13.4
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET started_at = now() - interval '20 seconds'"))
    assert 15 < the_rate(engine) <= 20.1
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET status = 'stopped', finished_at = now()"))
    assert the_rate(engine) == 0


def the_rate(engine: sa.Engine) -> float:
    with engine.connect() as connection:
        (found,) = read_progress(connection)
    return found.recent_per_s


def test_errors_and_dead_pages_are_the_latest(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    lease_id, pages = leased(engine, crawl, urls(30))
    verdicts = {
        0: (Outcome.REFUSED, DEAD),
        1: (Outcome.TIMEOUT, AGAIN),
        2: (Outcome.NOT_FOUND, Verdict(Status.GONE, 0, True)),
    }
    for number, page in enumerate(pages):
        store(engine, crawl, [one(crawl, lease_id, page, *verdicts[number % 3])])
    with engine.connect() as connection:
        latest = charts.read_errors(connection, crawl[1])
        dead, reasons = charts.read_dead_pages(connection, crawl[1], limit=3)
        connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        connection.execute(sa.text("SET LOCAL enable_sort = off"))
        plans = [
            "\n".join(
                connection.execute(
                    sa.text(f"EXPLAIN {query.text}"), {"id": crawl[1], "limit": 3}
                ).scalars()
            )
            for query in (charts.ERRORS, charts.DEAD, charts.REASONS)
        ]
    assert [row.id for row in latest] == [
        p.id for n, p in reversed(list(enumerate(pages))) if n % 3 != 2
    ][:10]
    assert [row.id for row in dead] == [pages[27].id, pages[24].id, pages[21].id]
    assert [tuple(row) for row in reasons] == [("refused", 10)]
    assert all("pages_error_idx" in plan for plan in plans), "only as much is read as is shown"
    assert [("Sort" in plan) for plan in plans[:2]] == [False, False]
