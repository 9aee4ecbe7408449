"""The frontier on a real PostgreSQL: leases, fences, dedup, and what two connections do to each
other."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
import sqlalchemy as sa

from scraper.domain import Kind, Status, Verdict
from scraper.frontier import crawls, leases
from scraper.frontier.due import (
    DUE_HOSTS,
    DUE_PAGES,
    due_hosts,
    due_pages,
)
from scraper.results.transaction import FENCE
from tests.support.making import (
    AGAIN,
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
    settled,
    standing,
    store,
    urls,
    with_product,
)


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site())


def test_a_page_joins_its_crawl_once(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    pages = [new_page(crawl, url) for url in urls(3)]
    assert len(add(engine, [*pages, *pages]).pages) == 3
    assert add(engine, pages).pages == []
    assert rows(engine, "SELECT product_total, discovery_total FROM crawls") == [(3, 0)]


def test_what_is_over_the_limit_is_cut_and_known_pages_take_no_room(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    pages = [new_page(crawl, url) for url in urls(5)]
    assert add(engine, pages, room=3).cut == {crawl[1]: 2}
    known = {url for (url,) in rows(engine, "SELECT url FROM pages")}
    again = add(engine, [page for page in pages if page.url in known], room=0)
    assert (again.pages, again.cut) == ([], {crawl[1]: 0})


def test_leases_do_not_overlap(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(50)])
    batches: list[leases.LeasedBatch] = []

    def take() -> None:
        while standing(engine).get("due"):
            batches.extend(lease_all(engine, "shop.example", 20))

    at_once([take] * 4)
    assert sum(batch.pages for batch in batches) == 50
    assert len(rows(engine, "SELECT DISTINCT page_id FROM leased_pages")) == 50
    assert len(rows(engine, "SELECT DISTINCT lease_id FROM leased_pages")) == len(batches)


def test_nothing_is_leased_of_a_crawl_that_is_ended(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Nor is it waited for; and who ends a crawl of which something is being leased waits for
    that."""
    other = open_crawl(engine, a_site("other"))
    add(
        engine,
        [new_page(crawl, url) for url in urls(2)]
        + [new_page(other, url) for url in urls(1, "other.example")],
    )
    with engine.begin() as ending, engine.begin() as connection:
        ending.execute(sa.text("SELECT FROM crawls WHERE id = :id FOR UPDATE"), {"id": other[1]})
        assert leases.try_lock_dispatch(connection)
        running = crawls.hold_running(connection)
        assert running == [crawl[1]]
        hosts, many = due_hosts(connection), {"shop.example": 9, "other.example": 9}
        ((_, by_host),) = due_pages(connection, "datacenter", hosts, many, running).items()
        assert set(by_host) == {"shop.example"}
        (batch,) = leases.lease_pages(connection, "datacenter", by_host.values(), 60)
        assert due_pages(connection, "datacenter", due_hosts(connection), many, running) == {}
        with engine.begin() as stopping:
            stopping.execute(sa.text("SET LOCAL lock_timeout = '100ms'"))
            with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                crawls.stop_crawl(stopping, crawl[1], "too early")
    assert (batch.pages, standing(engine)) == (2, {"leased": 2, "due": 1})


def test_a_page_that_another_crawl_has_taken_up_is_not_settled_for_that_one(
    engine: sa.Engine,
) -> None:
    first = open_crawl(engine, a_site(revisit="0s"))
    add(engine, [new_page(first, urls(1)[0])])
    (batch,) = lease_all(engine, "shop.example")
    (page,) = claimed(engine, batch).pages
    # as if its lease had outlived its crawl
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET status = 'stopped'"))
    second = open_crawl(engine, a_site(revisit="0s"))
    add(engine, [new_page(second, page.url)])
    late = with_product(settled(page.id, first, batch.id), first, "7", {"title": "late"})
    assert store(engine, second, [late]).held == 0
    assert rows(engine, "SELECT FROM products") == [] and standing(engine) == {"due": 1}
    (again,) = lease_all(engine, "shop.example")
    assert store(engine, second, [settled(page.id, second, again.id)]).drained == [second[1]]


@pytest.mark.usefixtures("own_database")
def test_what_is_out_is_looked_up_in_a_hash_table_however_much_it_seems(engine: sa.Engine) -> None:
    """A list that is gone through for each page would make a dispatch last minutes."""
    lease = """INSERT INTO leases (id, queue, kind, priority, pages, page_ids, hosts, until)
               SELECT gen_random_uuid(), 'datacenter', 'product', 10, 200, array_agg(n * 200 + m),
                      array_fill('h'::text, '{200}'), now()
                 FROM generate_series(1, 3000) n CROSS JOIN generate_series(1, 200) m GROUP BY n"""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(lease))
        connection.execute(sa.text("ANALYZE leases"))
        values = {
            "paused": [],
            "crawls": [1],
            "passed_over": 1,
            "hosts": "[]",
            "queue": "datacenter",
        }
        for statement in (DUE_HOSTS, DUE_PAGES):
            plan = "\n".join(
                connection.execute(sa.text(f"EXPLAIN {statement.text}"), values).scalars()
            )
            assert "leases" in plan and "(hashed SubPlan" in plan and "(SubPlan" not in plan, plan


@pytest.mark.parametrize("most", [3, 7, 100])
def test_due_pages_come_by_priority_then_by_the_time_they_are_due(
    engine: sa.Engine, crawl: tuple[int, int], most: int
) -> None:
    for priority in (4, 10, 11):
        add(
            engine,
            [
                new_page(crawl, f"https://shop.example/{priority}/{n}", priority=priority)
                for n in range(4)
            ],
        )
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE pages SET not_before = now() + (id % 3 - 2) * interval '1 hour' - id * interval '1 s'"
            )
        )
        connection.execute(
            sa.text(
                "UPDATE pages SET not_before = now() + interval '1 hour' WHERE priority = 11 AND id % 4 < 3"
            )
        )
        query = "SELECT priority, id FROM pages WHERE not_before <= now() ORDER BY priority DESC, not_before LIMIT :most"
        expected = [tuple(row) for row in connection.execute(sa.text(query), {"most": most})]
        found = due_pages(
            connection, "datacenter", due_hosts(connection), {"shop.example": most}, [crawl[1]]
        )
    assert [
        (priority, one.id) for priority, each in found.items() for one in each["shop.example"]
    ] == expected


@pytest.mark.usefixtures("own_database")
def test_pages_are_found_by_their_ids_however_few_seem_to_be_due(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Planned as at a crawl's beginning: a large table of which next to nothing is due."""
    add(engine, [new_page(crawl, url) for url in urls(2000)], room=2000)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET status = 'ok' WHERE id % 500 <> 0"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE pages"))
        values = {
            "id": uuid4(), "rows": "[]", "ids": list(range(1, 101)),
            "started": True, "alone": False, "bound": 4, "losses_max": 5, "death": "",
        }  # fmt: skip
        for statement in (leases.CLAIMED_PAGES, FENCE, leases.TAKE_BACK):
            plan = "\n".join(
                connection.execute(sa.text(f"EXPLAIN {statement.text}"), values).scalars()
            )
            assert (
                "pages_pkey" in plan
                and "pages_due_idx" not in plan
                and "pages_open_idx" not in plan
            ), plan


def test_high_priority_is_leased_first(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(20)])
    urgent = "https://shop.example/urgent"
    add(engine, [new_page(crawl, urgent, priority=18)])
    (batch,) = lease_all(engine, "shop.example", 1)
    lease = claimed(engine, batch)
    assert [page.url for page in lease.pages] == [urgent]
    assert batch.priority == 18


def test_listings_and_products_go_into_batches_of_their_own(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(
        engine,
        [new_page(crawl, "https://shop.example/all", Kind.LISTING), new_page(crawl, urls(1)[0])],
    )
    kinds = {batch.kind: batch.pages for batch in lease_all(engine, "shop.example")}
    assert kinds == {Kind.LISTING: 1, Kind.PRODUCT: 1}


def test_a_message_delivered_twice_is_claimed_once(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    (batch,) = lease_all(engine, "shop.example")
    assert len(claimed(engine, batch).pages) == 3
    assert claimed(engine, batch) is None


def test_a_message_later_than_its_lease_is_nothing(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    (batch,) = lease_all(engine, "shop.example")
    expire(engine, batch.id)
    assert claimed(engine, batch) is None


def test_a_worker_that_lost_its_lease_changes_nothing(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Invariant 2: the zombie's product, verdict and counters all stay out."""
    add(engine, [new_page(crawl, urls(1)[0])])
    (batch,) = lease_all(engine, "shop.example")
    (page,) = claimed(engine, batch).pages
    expire(engine, batch.id)
    with engine.begin() as connection:
        assert len(leases.reclaim_expired(connection)) == 1
    zombie = with_product(settled(page.id, crawl, batch.id), crawl, "7", {"title": "stale"})
    assert store(engine, crawl, [zombie]).held == 0
    assert rows(engine, "SELECT FROM products") == []
    assert rows(engine, "SELECT status, losses, attempts FROM pages") == [("due", 1, 0)]
    assert rows(engine, "SELECT ok, fetches, product_done FROM crawls") == [(0, 0, 0)]


def test_settling_twice_counts_once(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    (batch,) = lease_all(engine, "shop.example")
    (page,) = claimed(engine, batch).pages
    one = with_product(settled(page.id, crawl, batch.id), crawl, "7", {"title": "A"})
    assert store(engine, crawl, [one]).drained == [crawl[1]]
    assert store(engine, crawl, [one]).held == 0
    assert rows(engine, "SELECT ok, fetches, products_new, product_done FROM crawls") == [
        (1, 1, 1, 1)
    ]
    assert rows(engine, "SELECT FROM leases") == []


def test_a_retry_waits_in_the_frontier(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    (batch,) = lease_all(engine, "shop.example")
    (page,) = claimed(engine, batch).pages
    store(engine, crawl, [settled(page.id, crawl, batch.id, AGAIN)])
    assert rows(
        engine,
        "SELECT status, attempts, host_attempts, not_before > now() + interval '25 s' FROM pages",
    ) == [("due", 0, 1, True)], "a timeout is the host's fault"
    assert lease_all(engine, "shop.example") == []
    assert rows(engine, "SELECT retries, fetches, product_done FROM crawls") == [(1, 1, 0)]


def test_an_unread_message_is_charged_to_no_page(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    (batch,) = lease_all(engine, "shop.example")
    expire(engine, batch.id)
    with engine.begin() as connection:
        leases.reclaim_expired(connection)
    assert rows(engine, "SELECT status, losses FROM pages") == [("due", 0)]


def test_the_next_crawl_takes_pages_up_again_but_fresh_products_not(engine: sa.Engine) -> None:
    first = open_crawl(engine, a_site())
    add(engine, [new_page(first, url) for url in urls(2)])
    (batch,) = lease_all(engine, "shop.example", 1)
    (page,) = claimed(engine, batch).pages
    store(engine, first, [settled(page.id, first, batch.id)])
    with engine.begin() as connection:
        assert crawls.stop_crawl(connection, first[1], "test")
    second = open_crawl(engine, a_site())
    add(engine, [new_page(second, url) for url in urls(2)])
    found = rows(engine, "SELECT status, last_outcome FROM pages ORDER BY status")
    assert found == [("due", None), ("unchanged", "fresh")]
    assert rows(
        engine, f"SELECT fresh, product_done, product_total FROM crawls WHERE id = {second[1]}"
    ) == [(1, 1, 2)]


def test_refetch_asks_fresh_products_too(engine: sa.Engine) -> None:
    first = open_crawl(engine, a_site())
    add(engine, [new_page(first, urls(1)[0])])
    (batch,) = lease_all(engine, "shop.example")
    (page,) = claimed(engine, batch).pages
    store(engine, first, [settled(page.id, first, batch.id)])
    with engine.begin() as connection:
        crawls.stop_crawl(connection, first[1], "test")
    second = open_crawl(engine, a_site(), refetch=True)
    add(engine, [new_page(second, urls(1)[0])])
    assert rows(engine, "SELECT status FROM pages") == [("due",)]


def test_a_stopped_crawl_drops_its_pages_and_fences_its_workers(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    (batch,) = lease_all(engine, "shop.example", 1)
    (page,) = claimed(engine, batch).pages
    with engine.begin() as connection:
        assert crawls.stop_crawl(connection, crawl[1], "by hand")
        assert not crawls.stop_crawl(connection, crawl[1], "twice")
    late = with_product(settled(page.id, crawl, batch.id), crawl, "7", {"title": "late"})
    assert store(engine, crawl, [late]).held == 0
    assert rows(engine, "SELECT FROM products") == []
    assert rows(engine, "SELECT status, dropped, product_done, product_total FROM crawls") == [
        ("stopped", 3, 3, 3)
    ]


def test_two_listings_that_link_to_each_other_do_not_lock_up(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    listings = [new_page(crawl, f"https://shop.example/l/{n}", Kind.LISTING) for n in range(20)]
    add(engine, listings)
    batches = [lease_all(engine, "shop.example", 10)[0] for _ in range(2)]

    def writer(batch: leases.LeasedBatch) -> Callable[[], None]:
        pages = claimed(engine, batch).pages
        found = [*listings, *(new_page(crawl, url) for url in urls(200))]

        def write() -> None:
            for page in pages:
                store(engine, crawl, [settled(page.id, crawl, batch.id, links=found)])

        return write

    at_once([writer(batch) for batch in batches])
    assert rows(engine, "SELECT discovery_done, product_total FROM crawls") == [(20, 200)]


def test_counters_equal_the_pages_table(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(30)])
    verdicts = [
        Verdict(status, 0.0, True) for status in (Status.GONE, Status.DEAD, Status.INVALID)
    ] + [OK, AGAIN]
    (batch,) = lease_all(engine, "shop.example")
    pages = claimed(engine, batch).pages
    store(
        engine,
        crawl,
        [settled(p.id, crawl, batch.id, verdicts[i % 5]) for i, p in enumerate(pages)],
    )
    ((total, done, *counted),) = rows(
        engine,
        "SELECT product_total, product_done, ok, gone, dead, invalid, unchanged, dropped FROM crawls",
    )
    found = dict(rows(engine, "SELECT status, count(*) FROM pages GROUP BY status"))  # type: ignore[arg-type]
    assert (total, done) == (30, 30 - found["due"])
    assert counted == [
        found.get(s, 0) for s in ("ok", "gone", "dead", "invalid", "unchanged", "dropped")
    ]


def test_an_extended_lease_lives_and_a_lost_one_is_missing(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(2)])
    kept, lost = lease_all(engine, "shop.example", 1)[0], lease_all(engine, "shop.example", 1)[0]
    expire(engine, lost.id)
    with engine.begin() as connection:
        leases.reclaim_expired(connection)
        assert leases.extend_leases(connection, [kept.id, lost.id, uuid4()], 60) == {kept.id}


def test_a_lease_that_ran_out_is_its_workers_until_it_is_taken_back(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """PostgreSQL was away: no other worker can have got the pages."""
    add(engine, [new_page(crawl, url) for url in urls(2)])
    (batch,) = lease_all(engine, "shop.example")
    claimed(engine, batch)
    expire(engine, batch.id)
    with engine.begin() as connection:
        assert leases.extend_leases(connection, [batch.id], 60) == {batch.id}
        assert leases.reclaim_expired(connection) == []


@pytest.mark.parametrize("lease_s", [5.0, 15.0, 60.0, 600.0])
def test_a_host_holds_what_is_waiting_or_with_a_living_worker(
    engine: sa.Engine, crawl: tuple[int, int], lease_s: float
) -> None:
    """Not what a worker has that has not prolonged its lease for long: it is probably dead."""
    add(engine, [new_page(crawl, url) for url in urls(4 + 8 + 16 + 1)])
    unclaimed, living, silent = (
        lease_all(engine, "shop.example", pages, lease_s)[0] for pages in (4, 8, 16)
    )
    for batch in (living, silent):
        with engine.begin() as connection:
            leases.claim_lease(connection, batch.id, "test", lease_s)
    with engine.begin() as connection:
        grace_s = min(leases.SILENT_S, lease_s / 2)
        query = sa.text("UPDATE leases SET until = until - :s * interval '1 second' WHERE id = :id")
        connection.execute(query, {"id": silent.id, "s": grace_s})
        connection.execute(query, {"id": living.id, "s": grace_s / 2})
        connection.execute(query, {"id": unclaimed.id, "s": 600})
        assert leases.count_leased(connection, lease_s) == {"shop.example": {5: 4 + 8}}
        assert leases.extend_leases(connection, [silent.id], lease_s) == {silent.id}
        assert leases.count_leased(connection, lease_s) == {"shop.example": {5: 4 + 8 + 16}}, (
            "it lives after all"
        )
