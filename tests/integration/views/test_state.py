"""How things stand, read from a real database: it equals what was put there."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.domain import Blame, Outcome
from scraper.frontier import crawls, hosts, sites
from scraper.plugins.metrics.postgres import Postgres
from scraper.runtime.fleet import WorkerNode
from scraper.settings import Settings
from scraper.views import dashboard as status
from scraper.views import queue_stats as state
from scraper.views.dashboard import WorkerState
from scraper.views.queue_stats import LeaseHolder, QueueState
from tests.support.clocks import hourly_schedule
from tests.support.making import (
    a_site,
    add,
    claimed,
    give_up,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
    with_product,
)

LEASE_S = 60.0


def execute(engine: sa.Engine, text: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(text))


def queues(engine: sa.Engine) -> dict[str, QueueState]:
    with engine.connect() as connection:
        return {each.queue: each for each in state.read_queues(connection)}


def test_queues_count_what_is_due_later_leased_and_held(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    add(engine, [new_page(crawl, url) for url in urls(10)])
    add(engine, [new_page(crawl, url, queue="residential") for url in urls(4, "other.example")])
    execute(
        engine,
        "UPDATE pages SET not_before = now() - interval '1 hour' WHERE url LIKE '%/p/1' AND host = 'shop.example'",
    )
    execute(
        engine, "UPDATE pages SET not_before = now() + interval '1 hour' WHERE url LIKE '%/p/2'"
    )
    (batch,) = lease_all(engine, "shop.example", 3)
    found = queues(engine)
    one, other = found["datacenter"], found["residential"]
    assert (one.due, one.later, one.held, one.leased, one.waiting, one.claimed) == (
        6,
        1,
        0,
        3,
        1,
        0,
    )
    assert (other.due, other.later, other.leased) == (3, 1, 0)
    assert claimed(engine, batch) is not None
    assert (queues(engine)["datacenter"].waiting, queues(engine)["datacenter"].claimed) == (0, 1)
    execute(
        engine,
        "UPDATE pages SET not_before = now() - interval '1 hour' "
        " WHERE id = (SELECT min(id) FROM pages WHERE status = 'due' AND id NOT IN (SELECT page_id FROM leased_pages))",
    )
    oldest = queues(engine)["datacenter"].oldest_s
    assert oldest is not None and 3600 <= oldest < 3700


def test_what_is_paused_is_held_and_ages_no_queue(engine: sa.Engine) -> None:
    crawl, other = open_crawl(engine, a_site()), open_crawl(engine, a_site("other"))
    add(engine, [new_page(crawl, url) for url in urls(5)])
    add(engine, [new_page(other, url) for url in urls(2, "other.example")])
    execute(
        engine,
        "UPDATE pages SET not_before = now() - interval '1 hour' WHERE host = 'shop.example'",
    )
    with engine.begin() as connection:
        hosts.set_paused(connection, "shop.example", paused=True)
    one = queues(engine)["datacenter"]
    assert (one.due, one.held) == (2, 5) and one.oldest_s is not None and one.oldest_s < 60
    with engine.begin() as connection:
        sites.pause_site(connection, "other")
    one = queues(engine)["datacenter"]
    assert (one.due, one.held, one.oldest_s) == (0, 7, None)


def test_workers_that_hold_leases_and_those_that_fell_silent(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    add(engine, [new_page(crawl, url) for url in urls(6)])
    for _ in range(2):
        (batch,) = lease_all(engine, "shop.example", 3)
        assert claimed(engine, batch) is not None
    with engine.connect() as connection:
        (holder,) = state.read_holders(connection, LEASE_S)
    assert (holder.worker, holder.batches, holder.pages, holder.queues) == (
        "test",
        2,
        6,
        ["datacenter"],
    )
    assert holder.silent_s < state.SILENT_S
    execute(engine, "UPDATE leases SET until = now() + interval '20 seconds'")
    with engine.connect() as connection:
        (holder,) = state.read_holders(connection, LEASE_S)
    assert holder.silent_s >= 40


def test_workers_are_those_that_answer_and_those_that_only_hold() -> None:
    nodes = {
        "a@h": WorkerNode(["datacenter"], ["h:1"]), "b@h": WorkerNode(["datacenter"], ["h:2"]), "c@h": WorkerNode(["coordinator"], ["h:3"]),
    }  # fmt: skip
    holders = [
        LeaseHolder("h:1", ["datacenter"], 2, 90, 1.0, 1.0),
        LeaseHolder("x:9", ["residential"], 1, 5, 9.0, 30.0),
    ]
    assert status.workers(nodes, holders) == [
        WorkerState("a@h", ["datacenter"], "busy", 2, 90),
        WorkerState("b@h", ["datacenter"], "idle"),
        WorkerState("c@h", ["coordinator"], "coordinator"),
        WorkerState("x:9", ["residential"], "silent", 1, 5),
    ]


def test_errors_are_grouped_with_whom_they_blame_the_latest_first(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(3), Outcome.REFUSED)
    give_up(engine, crawl, urls(2, "two.example"), Outcome.NOT_EXTRACTED)
    execute(
        engine, "UPDATE pages SET settled_at = now() - interval '1 minute' WHERE status = 'dead'"
    )
    add(engine, [new_page(crawl, url) for url in urls(4, "three.example")])
    execute(
        engine,
        "UPDATE pages SET last_outcome = 'timeout', error = 'slow', settled_at = now() - interval '10 minutes' "
        "WHERE status = 'due'",
    )
    give_up(engine, crawl, urls(1, "old.example"), Outcome.REFUSED)
    execute(
        engine, "UPDATE pages SET settled_at = now() - interval '2 days' WHERE host = 'old.example'"
    )
    found = state.read_troubles(engine)
    assert [(e.outcome, e.blame, e.pages, e.host, e.final) for e in found] == [
        ("not_extracted", Blame.PARSER, 2, "two.example", True),
        ("refused", Blame.PAGE, 3, "shop.example", True),
        ("timeout", Blame.HOST, 4, "three.example", False),
    ]
    assert found[2].error == "slow" and found[2].ago_s >= 600
    assert (
        state.read_troubles(engine, "nobody") == []
        and len(state.read_troubles(engine, "shop", limit=1)) == 1
    )
    with engine.connect() as connection:
        unusable = {(u.status, u.pages) for u in state.count_unusable(connection)}
    assert unusable == {("invalid", 2), ("dead", 4)}


def test_a_sample_of_many_open_pages_represents_all(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a small crawl everything is read; a large one's pages are all alike, but for one queue."""
    large, small = open_crawl(engine, a_site()), open_crawl(engine, a_site("other"))
    add(engine, [new_page(large, url) for url in urls(60)])
    add(engine, [new_page(large, url, queue="residential") for url in urls(60, "two.example")])
    add(engine, [new_page(small, url) for url in urls(7, "other.example")])
    exact = queues(engine)
    assert (exact["datacenter"].due, exact["residential"].due) == (67, 60)
    monkeypatch.setattr(state, "COUNTED_MAX", 20)
    estimated = queues(engine)
    assert sum(queue.due for queue in estimated.values()) == 127
    assert estimated["datacenter"].due >= 7
    with engine.connect() as connection:
        (of_site,) = state.read_queues(connection, "other")
    assert of_site.due == 7
    with engine.begin() as connection:
        hosts.set_paused(connection, "shop.example", paused=True)
        hosts.set_paused(connection, "two.example", paused=True)
    assert sum(queue.held for queue in queues(engine).values()) == 120
    lease_all(engine, "other.example", 7)
    (leased,) = (queue for queue in queues(engine).values() if queue.leased)
    assert (leased.leased, sum(queue.due for queue in queues(engine).values())) == (7, 0)


def test_errors_of_crawls_that_have_ended_are_found_and_each_crawl_gives_only_some(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, other = open_crawl(engine, a_site()), open_crawl(engine, a_site("other"))
    give_up(engine, crawl, urls(30), Outcome.REFUSED)
    give_up(engine, other, urls(1, "other.example"), Outcome.NOT_EXTRACTED)
    execute(
        engine,
        "UPDATE crawls SET status = 'completed', finished_at = now() - interval '3 hours'",
    )
    monkeypatch.setattr(state, "FAILURES_MAX", 10)
    found = {(one.site, one.pages, one.final) for one in state.read_troubles(engine)}
    assert found == {("shop", 10, True), ("other", 1, True)}
    execute(engine, "UPDATE crawls SET finished_at = now() - interval '30 hours' WHERE site_id = 1")
    assert [one.site for one in state.read_troubles(engine)] == ["other"]


def freshness(engine: sa.Engine) -> state.SiteFreshness:
    with engine.connect() as connection:
        (one,) = state.read_freshness(connection)
    return one


def test_a_missed_slot_and_the_last_complete_crawl(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(schedule=hourly_schedule())])
    assert freshness(engine).complete_s is None and freshness(engine).missed_s == 0, (
        "none since it was defined"
    )
    execute(engine, "UPDATE sites SET scheduled_since = now() - interval '1 hour'")
    missed = freshness(engine).missed_s
    assert missed is not None and 0 < missed <= 3600
    with engine.begin() as connection:
        sites.pause_site(connection, "shop")
    assert freshness(engine).missed_s == 0, "a paused site misses nothing"
    with engine.begin() as connection:
        sites.resume_site(connection, "shop")
    execute(engine, "UPDATE sites SET scheduled_since = now() - interval '1 hour'")
    plan.plan(engine)
    assert freshness(engine).missed_s == 0, "somebody opened it"
    execute(
        engine, "UPDATE crawls SET status = 'completed', finished_at = now() - interval '2 hours'"
    )
    age = freshness(engine).complete_s
    assert age is not None and 7200 <= age < 7300
    execute(engine, "UPDATE crawls SET trigger = 'replay'")
    assert freshness(engine).complete_s is None, "a replay has not seen the whole site"


def exported(source: Postgres, name: str, **labels: str) -> float:
    families = {family.name: family for family in source.read()}
    return sum(s.value for s in families[name].samples if labels.items() <= s.labels.items())


def test_what_the_exporter_counts_survives_replays_and_deleted_crawls(engine: sa.Engine) -> None:
    """Counters equal what crawls came to since the exporter began to look, and never fall."""
    source = Postgres(engine, LEASE_S)
    crawl = open_crawl(engine, a_site())
    add(engine, [new_page(crawl, url) for url in urls(2)])
    assert exported(source, "scraper_settled_pages") == 0
    (batch,) = lease_all(engine, "shop.example", 2)
    lease = claimed(engine, batch)
    assert lease is not None
    store(
        engine,
        crawl,
        [
            with_product(settled(p.id, crawl, lease.id), crawl, str(p.id), {"t": "x"})
            for p in lease.pages
        ],
    )
    give_up(engine, crawl, urls(3, "b.example"))
    assert exported(source, "scraper_settled_pages", site="shop", status="ok") == 2
    assert exported(source, "scraper_settled_pages", site="shop", status="dead") == 3
    assert exported(source, "scraper_fetches", site="shop") == 5
    assert exported(source, "scraper_products", change="new") == 2
    # as dropping or replaying them does
    execute(engine, "UPDATE crawls SET dead = 0")
    assert exported(source, "scraper_settled_pages", status="dead") == 3
    with engine.begin() as connection:
        crawls.stop_crawl(connection, crawl[1], "by hand")
    assert exported(source, "scraper_crawls_ended", status="stopped") == 1
    assert exported(source, "scraper_crawls_ended", status="stopped") == 1, "counted once"
    execute(engine, "DELETE FROM products; DELETE FROM pages; DELETE FROM crawls")
    assert exported(source, "scraper_settled_pages", status="ok") == 2
    again = open_crawl(engine, a_site())
    add(engine, [new_page(again, url) for url in urls(1)])
    give_up(engine, again, urls(1, "c.example"))
    assert exported(source, "scraper_settled_pages", status="dead") == 4
    assert rows(engine, "SELECT dead FROM crawls") == [(1,)]


def test_a_glance_without_redis_or_broker_says_so(
    engine: sa.Engine, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_crawl(engine, a_site())
    away = environment.model_copy(update={"redis_url": "redis://:s3cret@127.0.0.1:9/0"})
    found = status.read(engine, away, nodes={})
    assert (
        len(found.crawls) == 1
        and "s3cret" not in str(found.away)
        and found.away.keys() == {"redis"}
    )
    told = status.as_json(found)
    assert told["hosts"] == [] and told["crawls"][0]["site"] == "shop"
