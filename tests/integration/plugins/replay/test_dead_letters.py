"""Dead and invalid pages on a real PostgreSQL: found, replayed through the frontier's front door,
dropped; and what two replays, a crawl's end and a worker do to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import pytest
import sqlalchemy as sa

from scraper.coordinator.discover import discover, dispatch_message
from scraper.coordinator.finish import finish
from scraper.coordinator.plan import open_now, plan
from scraper.domain import Kind, Outcome, Status
from scraper.errors import NotFoundError
from scraper.frontier import crawls, sites
from scraper.infra.database import make_engine
from scraper.plugins.replay import choice, replay
from scraper.plugins.replay import store as store
from scraper.plugins.replay.command import UNUSABLE
from scraper.plugins.replay.replay import DropResult, ReplayResult
from scraper.plugins.replay.store import Selection
from scraper.rules.verdict import RetryPolicy, judge_outcome
from scraper.settings import Settings
from tests.acceptance.commands import counted
from tests.support.making import (
    a_site,
    add,
    at_once,
    claimed,
    give_up,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    urls,
)
from tests.support.making import (
    store as keep,
)

SHOP = Selection(site="shop")

Crawl = tuple[int, int]


def end(engine: sa.Engine, crawl: Crawl) -> None:
    finish(engine, crawl[1])
    assert rows(
        engine, f"SELECT status IN ('completed', 'failed') FROM crawls WHERE id = {crawl[1]}"
    ) == [(True,)]


def ended_crawl(engine: sa.Engine, count: int, **more: object) -> Crawl:
    """A site "shop" whose only crawl has ended with this many dead pages."""
    crawl = open_crawl(engine, a_site(**more))
    give_up(engine, crawl, urls(count))
    end(engine, crawl)
    return crawl


def assert_counters(engine: sa.Engine, *crawl_ids: int) -> None:
    """Those crawls' counters are the pages table's."""
    for crawl_id in crawl_ids:
        table = counted(engine, crawl_id)
        names = ", ".join(table)
        ((*found,),) = rows(engine, f"SELECT {names} FROM crawls WHERE id = {crawl_id}")
        assert dict(zip(table, found, strict=True)) == table


def settle_all(engine: sa.Engine, crawl: Crawl, host: str = "shop.example") -> int:
    """A worker settles what is due as good. Returns how many pages."""
    done = 0
    for batch in lease_all(engine, host, 10_000):
        lease = claimed(engine, batch)
        assert lease is not None
        done += keep(
            engine, crawl, [settled(page.id, crawl, lease.id) for page in lease.pages]
        ).held
    return done


def statuses(engine: sa.Engine) -> dict[object, object]:
    return dict(rows(engine, "SELECT status, count(*) FROM pages GROUP BY status"))  # type: ignore[arg-type]


@pytest.fixture
def other(database: str) -> Iterator[sa.Engine]:
    engine = make_engine(database)
    yield engine
    engine.dispose()


# --- found


@pytest.fixture
def many(engine: sa.Engine) -> sa.Engine:
    """Two sites: "shop" with two refused and one invalid page, "late" with one page that timed out
    two days ago."""
    shop = open_crawl(engine, a_site())
    give_up(engine, shop, urls(2))
    give_up(engine, shop, ["https://m.shop.example/x"], Outcome.NOT_EXTRACTED)
    add(engine, [new_page(shop, "https://shop.example/good")])
    settle_all(engine, shop)
    late = open_crawl(engine, a_site("late"))
    give_up(engine, late, urls(1, "late.example"), Outcome.TIMEOUT)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE pages SET settled_at = now() - interval '2 days' WHERE host = 'late.example'"
            )
        )
    return engine


@pytest.mark.parametrize(
    ("selection", "hosts"),
    [
        (Selection(), ["late.example", "m.shop.example", "shop.example", "shop.example"]),
        (SHOP, ["m.shop.example", "shop.example", "shop.example"]),
        (Selection(status="invalid"), ["m.shop.example"]),
        (Selection(status="dead", site="shop"), ["shop.example"] * 2),
        (Selection(reason="timeout"), ["late.example"]),
        (Selection(reason="timeout", site="shop"), []),
        (Selection(host="m.shop.example"), ["m.shop.example"]),
        (Selection(host="M.shop.example' OR 1=1 --"), []),
        (Selection(older_s=86_400), ["late.example"]),
        (Selection(older_s=86_400 * 3), []),
        (Selection(newer_s=3600), ["m.shop.example", "shop.example", "shop.example"]),
        (Selection(newer_s=86_400 * 3, older_s=60), ["late.example"]),
        (Selection(ids=()), []),
        (Selection(ids=(2**63, -1, 0)), []),
    ],
)
def test_filters(many: sa.Engine, selection: Selection, hosts: list[str]) -> None:
    with many.connect() as connection:
        found = store.find_pages(connection, selection, 100)
        assert sorted(row.host for row in found) == hosts
        assert store.count_pages(connection, selection) == len(hosts)
        assert sum(site.pages for site in store.count_by_site(connection, selection)) == len(hosts)
        assert sum(row.pages for row in store.summarize_pages(connection, selection)) == len(hosts)
        by_id = store.find_pages(
            connection, replace(selection, ids=tuple(row.id for row in found)), 100
        )
        assert [row.id for row in by_id] == [row.id for row in found]


def test_the_latest_come_first_and_a_limit_holds(many: sa.Engine) -> None:
    with many.connect() as connection:
        found = store.find_pages(connection, Selection(), 2)
    assert [row.site for row in found] == ["shop", "shop"]
    assert isinstance(found[0].settled_at, datetime) and found[0].settled_at >= found[1].settled_at


def test_all_that_is_known_of_a_page(many: sa.Engine) -> None:
    with many.connect() as connection:
        (page,) = store.find_pages(connection, Selection(status="invalid"), 1)
        row = store.read_page(connection, page.id)
        assert row is not None
        assert (row.site, row.reason, row.http_status, row.error, row.excerpt) == (
            "shop", "not_extracted", 403, "no", "<h1>",
        )  # fmt: skip
        assert (row.attempts, row.host_attempts, row.response_head) == (1, 0, {"a": "b"})
        assert (
            store.read_page(connection, 2**70) is None and store.read_page(connection, 99) is None
        )


def test_what_a_page_may_be_dead_or_invalid_for() -> None:
    """The reasons that the command line knows are those that the verdicts give."""
    import random

    last = {o: judge_outcome(o, 99, RetryPolicy(), random.Random(1)).status for o in Outcome}
    assert {o for o, status in last.items() if status in (Status.DEAD, Status.INVALID)} == set(
        UNUSABLE
    )


# --- replayed into a crawl of their own


def test_a_replay_opens_a_crawl_of_its_own(engine: sa.Engine) -> None:
    first = ended_crawl(engine, 3)
    with engine.begin() as connection:
        sites.store_definitions(
            connection, [a_site(queue="residential", region="eu", priority="high", rate="2/s")]
        )
    done, messages = replay.replay_pages(engine, SHOP)
    second = (first[0], first[1] + 1)
    assert done == [ReplayResult("shop", 3, second[1], opened=True)]
    assert messages == [dispatch_message()]
    query = "SELECT trigger, status, rate_per_s, product_total, product_done, started_at IS NOT NULL FROM crawls"
    assert rows(engine, f"{query} WHERE id = {second[1]}") == [
        ("replay", "running", 2.0, 3, 0, True)
    ]
    found = rows(
        engine,
        "SELECT DISTINCT queue, priority, status, attempts, depth, error, excerpt FROM pages",
    )
    assert found == [("residential.eu", 16, "due", 0, 1, None, None)]
    assert_counters(engine, second[1])
    assert rows(engine, f"SELECT dead FROM crawls WHERE id = {first[1]}") == [(3,)], (
        "it ended with them dead"
    )


def test_a_replayed_page_ends_its_crawl(engine: sa.Engine) -> None:
    first = ended_crawl(engine, 2)
    replay.replay_pages(engine, SHOP)
    replayed = (first[0], first[1] + 1)
    assert settle_all(engine, replayed) == 2
    finish(engine, replayed[1])
    assert rows(engine, f"SELECT status, ok, dead FROM crawls WHERE id = {replayed[1]}") == [
        ("completed", 2, 0)
    ]
    assert_counters(engine, replayed[1])


def test_a_replay_is_idempotent(engine: sa.Engine) -> None:
    ended_crawl(engine, 3)
    replay.replay_pages(engine, SHOP)
    before = rows(engine, "SELECT * FROM crawls ORDER BY id")
    assert replay.replay_pages(engine, SHOP) == ([], [])
    assert rows(engine, "SELECT * FROM crawls ORDER BY id") == before


def test_nothing_to_replay_opens_no_crawl(engine: sa.Engine) -> None:
    ended_crawl(engine, 1)
    for nothing in (Selection(reason="timeout"), Selection(ids=()), Selection(site="nowhere")):
        assert (
            replay.replay_pages(engine, nothing)
            == ([], [])
            == (replay.preview_replay(engine, nothing), [])
        )
    assert rows(engine, "SELECT count(*) FROM crawls") == [(1,)]


def test_pages_that_were_taken_up_between_the_look_and_the_replay(engine: sa.Engine) -> None:
    """No crawl is opened for nothing."""
    ended_crawl(engine, 2)
    site = store.SitePages(1, "shop", 2)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET status = 'ok'"))
    assert replay._replay_site(engine, site, SHOP) == ReplayResult("shop", 0)
    assert rows(engine, "SELECT count(*) FROM crawls") == [(1,)]


def test_a_product_that_was_good_an_hour_ago_is_asked_all_the_same(engine: sa.Engine) -> None:
    """The revisit age is for pages that are good; the replay's own crawl keeps it for those that a
    listing leads to."""
    crawl = open_crawl(engine, a_site(revisit="7d"))
    add(engine, [new_page(crawl, url) for url in urls(2)])
    settle_all(engine, crawl)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE pages SET status = 'dead', last_outcome = 'refused' WHERE url LIKE '%/p/0'"
            )
        )
        connection.execute(sa.text("UPDATE crawls SET ok = 1, dead = 1"))
    end(engine, crawl)
    replay.replay_pages(engine, SHOP)
    replayed = (crawl[0], crawl[1] + 1)
    assert statuses(engine) == {"due": 1, "ok": 1}
    add(engine, [new_page(replayed, url) for url in urls(2)])
    assert statuses(engine) == {"due": 1, "unchanged": 1}
    assert_counters(engine, replayed[1])


def test_a_listing_is_replayed_as_a_listing(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, ["https://shop.example/l/7"], Outcome.TIMEOUT, Kind.LISTING, depth=4)
    give_up(
        engine,
        crawl,
        ["https://shop.example/sitemap.xml"],
        Outcome.MALFORMED,
        Kind.SITEMAP,
        depth=0,
    )
    end(engine, crawl)
    replay.replay_pages(engine, SHOP)
    replayed = (crawl[0], crawl[1] + 1)
    assert rows(engine, "SELECT kind, depth, priority, status FROM pages ORDER BY kind") == [
        ("listing", 4, 11, "due"),
        ("sitemap", 0, 11, "due"),
    ]
    assert_counters(engine, replayed[1])
    for batch in lease_all(engine, "shop.example"):
        lease = claimed(engine, batch)
        assert lease is not None and batch.kind is Kind.LISTING
        links = [new_page(replayed, url) for url in urls(3)]
        pages = [settled(page.id, replayed, lease.id, links=links) for page in lease.pages]
        keep(engine, replayed, pages)
    assert statuses(engine) == {"ok": 2, "due": 3}
    assert settle_all(engine, replayed) == 3
    end(engine, replayed)
    assert_counters(engine, replayed[1])


def test_a_replay_delists_nothing_and_skips_no_slot(engine: sa.Engine) -> None:
    site = a_site(schedule="* * * * *")
    crawl = open_crawl(engine, site)
    give_up(engine, crawl, urls(1))
    end(engine, crawl)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE sites SET scheduled_since = now() - interval '1 day'"))
    replay.replay_pages(engine, SHOP)
    assert plan(engine) == []
    assert rows(engine, "SELECT trigger, status FROM crawls WHERE id > 1") == [
        ("replay", "running")
    ]
    replayed = (crawl[0], crawl[1] + 1)
    settle_all(engine, replayed)
    end(engine, replayed)
    assert len(plan(engine)) == 1


def test_a_site_that_is_not_defined_any_more(engine: sa.Engine) -> None:
    ended_crawl(engine, 1)
    with engine.begin() as connection:
        assert sites.retire_all_but(connection, []) == ["shop"]
    done, _ = replay.replay_pages(engine, SHOP)
    assert [one.pages for one in done] == [1]
    assert len(lease_all(engine, "shop.example")) == 1


def test_several_sites_have_a_crawl_each(engine: sa.Engine) -> None:
    for name in ("a", "b"):
        crawl = open_crawl(engine, a_site(name))
        give_up(engine, crawl, urls(2, f"{name}.example"))
        end(engine, crawl)
    done, messages = replay.replay_pages(engine, Selection())
    assert [(one.site, one.pages, one.crawl_id, one.opened) for one in done] == [
        ("a", 2, 3, True),
        ("b", 2, 4, True),
    ]
    assert len(messages) == 1
    assert_counters(engine, 3, 4)


# --- replayed into the crawl that runs


def test_a_running_crawl_takes_its_own_dead_pages_up_again(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(3))
    give_up(engine, crawl, ["https://shop.example/l"], Outcome.NOT_EXTRACTED, Kind.LISTING)
    assert_counters(engine, crawl[1])
    done, messages = replay.replay_pages(engine, SHOP)
    assert (done, len(messages)) == ([ReplayResult("shop", 4, crawl[1])], 1)
    assert rows(
        engine, "SELECT product_total, product_done, discovery_done, dead, invalid FROM crawls"
    ) == [(3, 0, 0, 0, 0)]
    assert_counters(engine, crawl[1])
    assert replay.replay_pages(engine, SHOP) == ([], [])
    settle_all(engine, crawl)
    assert_counters(engine, crawl[1])
    end(engine, crawl)


def test_a_running_crawl_takes_an_earlier_ones_up(engine: sa.Engine) -> None:
    first = ended_crawl(engine, 3)
    second = open_crawl(engine, a_site())
    give_up(engine, second, urls(1))
    add(engine, [new_page(second, "https://shop.example/new")])
    done, _ = replay.replay_pages(engine, SHOP)
    assert done == [ReplayResult("shop", 3, second[1])]
    assert statuses(engine) == {"due": 4}
    assert_counters(engine, second[1])
    assert rows(engine, f"SELECT dead FROM crawls WHERE id = {first[1]}") == [(3,)]


def test_limits_of_the_definition_do_not_hold_up_a_replay(engine: sa.Engine) -> None:
    ended_crawl(engine, 5, limits={"products": 2})
    done, _ = replay.replay_pages(engine, SHOP)
    assert done[0].pages == 5
    assert rows(engine, "SELECT links_cut FROM crawls") == [(0,), (0,)]


def test_a_crawl_that_keeps_an_older_definition_is_said_so(engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(1))
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(queue="residential")])
    assert (
        replay.preview_replay(engine, SHOP)
        == [ReplayResult("shop", 1, crawl[1], outdated=True)]
        == replay.replay_pages(engine, SHOP)[0]
    )
    assert rows(engine, "SELECT queue FROM pages") == [("datacenter",)], "as the rest of its crawl"


# --- refused


def test_a_paused_site_refuses_and_the_others_do_not_wait_for_it(engine: sa.Engine) -> None:
    ended_crawl(engine, 1)
    crawl = open_crawl(engine, a_site("other"))
    give_up(engine, crawl, urls(1, "other.example"))
    with engine.begin() as connection:
        sites.pause_site(connection, "shop")
    looked = replay.preview_replay(engine, Selection())
    done, messages = replay.replay_pages(engine, Selection())
    assert looked == done and len(messages) == 1
    assert [(one.site, one.pages) for one in done] == [("other", 1), ("shop", 0)]
    assert done[1].refused and "scraper sites resume shop" in done[1].refused
    with engine.begin() as connection:
        sites.resume_site(connection, "shop")
    assert replay.replay_pages(engine, SHOP)[0][0].pages == 1


def test_a_crawl_that_is_about_to_begin_is_waited_for(engine: sa.Engine) -> None:
    ended_crawl(engine, 1)
    opened = open_now(engine, "shop")
    (refused,), messages = replay.replay_pages(engine, SHOP)
    assert (refused.pages, messages) == (0, [])
    assert (
        refused.refused and f"crawl {opened.crawl_id} of shop is about to begin" in refused.refused
    )
    discover(engine, Settings(), opened.crawl_id)
    ((done,), _) = replay.replay_pages(engine, SHOP)
    assert (done.pages, done.crawl_id) == (1, opened.crawl_id)
    assert_counters(engine, opened.crawl_id)


def test_a_stored_definition_that_is_not_valid_any_more(engine: sa.Engine) -> None:
    ended_crawl(engine, 1)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE sites SET definition = '{}'"))
    for done in (replay.preview_replay(engine, SHOP), replay.replay_pages(engine, SHOP)[0]):
        assert done[0].pages == 0 and "no longer valid" in str(done[0].refused)
    assert rows(engine, "SELECT count(*) FROM crawls") == [(1,)]


# --- many pages, and others at it


def test_many_pages_go_into_one_crawl_in_batches(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers settle each batch before the next is in: the crawl does not end in between."""
    monkeypatch.setattr(replay, "BATCH", 10)
    first = ended_crawl(engine, 35)
    replayed = (first[0], first[1] + 1)
    take, ends = replay._replay_batch, []

    def watched(*args: object, **named: object) -> object:
        if named["target"] is not None:
            assert settle_all(engine, replayed) == 10
            with engine.begin() as connection:
                connection.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
                with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                    crawls.lock_drained(connection, replayed[1])
                connection.rollback()
            ends.append(1)
        return take(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(replay, "_replay_batch", watched)
    done, _ = replay.replay_pages(engine, SHOP)
    assert (done, len(ends)) == ([ReplayResult("shop", 35, replayed[1], opened=True)], 3)
    assert_counters(engine, replayed[1])
    settle_all(engine, replayed)
    end(engine, replayed)
    assert rows(engine, f"SELECT ok FROM crawls WHERE id = {replayed[1]}") == [(35,)]


def test_a_crawl_that_is_stopped_between_two_batches(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "BATCH", 10)
    first = ended_crawl(engine, 25)
    hold = crawls.hold_crawls

    def stopped_before(connection: sa.Connection, ids: list[int]) -> object:
        with engine.begin() as other:
            crawls.stop_crawl(other, ids[0], "by hand")
        return hold(connection, ids)

    monkeypatch.setattr(crawls, "hold_crawls", stopped_before)
    ((done,), messages) = replay.replay_pages(engine, SHOP)
    assert (done.pages, done.crawl_id, len(messages)) == (10, first[1] + 1, 1)
    assert done.refused and "was ended while" in done.refused
    monkeypatch.undo()
    assert statuses(engine) == {"dead": 15, "dropped": 10}
    assert_counters(engine, first[1] + 1)
    assert replay.replay_pages(engine, SHOP)[0][0].pages == 15


def test_a_page_that_dies_again_at_once_is_replayed_once(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "BATCH", 5)
    first = ended_crawl(engine, 12)
    run = replay.run_transaction

    def dies(*args: object) -> object:
        taken = run(*args)  # type: ignore[arg-type]
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET status = 'dead' WHERE status = 'due'"))
        return taken

    monkeypatch.setattr(replay, "run_transaction", dies)
    ((done,), _) = replay.replay_pages(engine, SHOP)
    assert (done.pages, done.crawl_id) == (12, first[1] + 1)


@pytest.mark.parametrize("running", [True, False])
def test_two_replays_at_once(
    engine: sa.Engine, other: sa.Engine, running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page once, one crawl, and its counters are right."""
    monkeypatch.setattr(replay, "BATCH", 20)
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(200))
    if not running:
        end(engine, crawl)
    done: list[ReplayResult] = []

    def replayer(own: sa.Engine) -> Callable[[], None]:
        return lambda: done.extend(replay.replay_pages(own, SHOP)[0])

    at_once([replayer(engine), replayer(other), replayer(engine)])
    assert sum(one.pages for one in done) == 200
    assert not any(one.refused for one in done)
    assert {one.crawl_id for one in done if one.pages} == {crawl[1] + (not running)}
    assert sum(one.opened for one in done if one.pages) <= 1
    assert rows(engine, "SELECT count(*) FROM crawls") == [(1 + (not running),)]
    assert statuses(engine) == {"due": 200}
    assert_counters(engine, crawl[1] + (not running))


def test_a_replay_against_the_end_of_the_crawl(engine: sa.Engine, other: sa.Engine) -> None:
    """No page is added to a crawl that has ended, whichever is first."""
    for number in range(10):
        crawl = open_crawl(engine, a_site(f"s{number}"))
        give_up(engine, crawl, urls(3, f"s{number}.example"))
        only = Selection(site=f"s{number}")
        at_once(
            [
                lambda only=only: replay.replay_pages(engine, only) and None,
                lambda id_=crawl[1]: finish(other, id_) and None,
            ]
        )  # type: ignore[misc]
    query = """SELECT count(*) FROM pages p JOIN crawls c ON c.id = p.crawl_id
                WHERE NOT (p.status = 'due' AND c.status = 'running')"""
    assert rows(engine, query) == [(0,)]
    assert_counters(
        engine, *(int(str(id_)) for (id_,) in rows(engine, "SELECT DISTINCT crawl_id FROM pages"))
    )


def test_a_replay_while_workers_find_the_same_pages(engine: sa.Engine, other: sa.Engine) -> None:
    """Links and replay take the same dead pages up for one crawl: once each."""
    ended_crawl(engine, 300)
    second = open_crawl(engine, a_site())
    links = [new_page(second, url) for url in urls(300)]

    def find() -> None:
        for start in range(0, 300, 25):
            add(other, links[start : start + 25])

    at_once([find, lambda: replay.replay_pages(engine, SHOP) and None])
    assert statuses(engine) == {"due": 300}
    assert rows(engine, f"SELECT product_total FROM crawls WHERE id = {second[1]}") == [(300,)]
    assert_counters(engine, second[1])


# --- dropped


def test_dropped_pages_are_found_again_by_the_next_crawl(engine: sa.Engine) -> None:
    crawl = ended_crawl(engine, 3)
    assert replay.preview_drop(engine, SHOP) == [DropResult("shop", 3)]
    assert statuses(engine) == {"dead": 3}
    assert replay.drop_pages(engine, SHOP) == [DropResult("shop", 3)]
    assert replay.drop_pages(engine, SHOP) == [] == replay.preview_drop(engine, SHOP)
    assert statuses(engine) == {"dropped": 3}
    assert_counters(engine, crawl[1])
    assert replay.replay_pages(engine, SHOP) == ([], [])
    second = open_crawl(engine, a_site())
    add(engine, [new_page(second, url) for url in urls(3)])
    assert statuses(engine) == {"due": 3}


def test_drop_counts_for_the_crawl_that_a_page_belongs_to(engine: sa.Engine) -> None:
    first = ended_crawl(engine, 3)
    second = open_crawl(engine, a_site())
    give_up(engine, second, urls(1))
    give_up(engine, second, ["https://shop.example/l"], Outcome.NOT_EXTRACTED, Kind.LISTING)
    add(engine, [new_page(second, "https://shop.example/open")])
    assert replay.drop_pages(engine, Selection(status="invalid")) == [DropResult("shop", 1)]
    assert_counters(engine, second[1])
    assert replay.drop_pages(engine, SHOP) == [DropResult("shop", 3)]
    query = "SELECT dead, invalid, dropped, status FROM crawls ORDER BY id"
    assert rows(engine, query) == [(1, 0, 2, "failed"), (0, 0, 2, "running")]
    assert_counters(engine, second[1])
    assert first[1] < second[1]


def test_two_drops_and_a_replay_at_once(
    engine: sa.Engine, other: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "BATCH", 20)
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(200))
    replayed: list[ReplayResult] = []
    dropped: list[DropResult] = []
    at_once([
        lambda: replayed.extend(replay.replay_pages(engine, SHOP)[0]),
        lambda: dropped.extend(replay.drop_pages(other, SHOP)),
        lambda: dropped.extend(replay.drop_pages(engine, SHOP)),
    ])  # fmt: skip
    due, gone = sum(one.pages for one in replayed), sum(one.pages for one in dropped)
    assert due + gone == 200
    assert statuses(engine) == {
        name: count for name, count in (("due", due), ("dropped", gone)) if count
    }
    assert_counters(engine, crawl[1])


# --- from a crawl's page


def test_a_crawls_page_replays_no_page_of_another_crawl(
    engine: sa.Engine, environment: Settings
) -> None:
    _, crawl_id = ended_crawl(engine, 1)
    with pytest.raises(NotFoundError, match="Nothing to replay"):
        choice.replay_crawl_pages(engine, environment, crawl_id + 1, "shop", page=None, reason=None)
    assert statuses(engine) == {"dead": 1}
