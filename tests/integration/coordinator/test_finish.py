"""Crawls that are stopped, that stand still, or replay dead pages: how they end, and what their
leases do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from scraper.coordinator.dispatch import dispatch
from scraper.coordinator.finish import finish, finish_message
from scraper.coordinator.plan import plan
from scraper.coordinator.reap import reap
from scraper.domain import CrawlStatus, Kind, Outcome, Status, Verdict
from scraper.frontier import crawls, leases, sites
from scraper.frontier.control import poll_frontier
from scraper.frontier.crawls import REPLAY
from scraper.infra import outages
from scraper.infra.database import retry_transaction
from scraper.results.missed_products import DELISTED_AFTER
from scraper.results.transaction import PageResult
from scraper.settings import Settings
from tests.support.clocks import hourly_schedule, is_newest_slot
from tests.support.making import (
    AGAIN,
    OK,
    a_site,
    add,
    at_once,
    claimed,
    end,
    expire,
    lease_all,
    lease_some,
    new_page,
    open_crawl,
    rows,
    settled,
    standing,
    store,
    urls,
    with_product,
)

SETTINGS = Settings(batch_pages=100, horizon_s=10, stalled_s=180)
LOOKS = 3  # stalled_s in minutes


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site(rate="unlimited", revisit="0s"))


def dispatched(engine: sa.Engine) -> list[UUID]:
    return [UUID(message.kwargs["lease_id"]) for message in dispatch(engine, SETTINGS, lambda _: 0)]


def sql(engine: sa.Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(statement))


def stop(engine: sa.Engine, crawl: tuple[int, int]) -> bool:
    with engine.begin() as connection:
        return crawls.stop_crawl(connection, crawl[1], "by hand")


# --- stopped
# ---------------------------------------------------------------------------------------------------------


def test_the_leases_of_a_stopped_crawl_end_at_once(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Claimed or not: its messages claim nothing, its workers' leases cannot be prolonged."""
    add(engine, [new_page(crawl, url) for url in urls(20)])
    claimed_one, waiting = (
        lease_all(engine, "shop.example", 10)[0],
        lease_all(engine, "shop.example", 10)[0],
    )
    assert claimed(engine, claimed_one) is not None
    assert stop(engine, crawl)
    assert rows(engine, "SELECT FROM leases") == []
    assert claimed(engine, waiting) is None
    with engine.begin() as connection:
        assert leases.extend_leases(connection, [claimed_one.id, waiting.id], 60) == set()
        assert poll_frontier(connection, (), "datacenter").batches == 0, (
            "nothing keeps the queue from being filled"
        )
    assert rows(engine, "SELECT DISTINCT status FROM pages") == [("dropped",)]
    assert rows(
        engine, "SELECT status, note, dropped, product_done, product_total FROM crawls"
    ) == [("stopped", "by hand", 20, 20, 20)]
    assert reap(engine, SETTINGS) == []


def test_a_lease_with_another_crawls_pages_lives_on_with_those(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(5)])
    other = open_crawl(engine, a_site("other", rate="unlimited"))
    add(engine, [new_page(other, url) for url in urls(5, "other.example")])
    (lease_id,) = dispatched(engine)
    assert stop(engine, crawl)
    lease = claimed(engine, lease_id)
    assert lease is not None
    assert {page.host for page in lease.pages} == {"other.example"}
    store(engine, other, [settled(page.id, other, lease_id) for page in lease.pages])
    assert rows(engine, "SELECT FROM leases") == []
    assert rows(engine, f"SELECT ok, dropped FROM crawls WHERE id = {other[1]}") == [(5, 0)]


def test_a_worker_in_the_middle_of_a_stopped_crawl_stores_the_others_pages_only(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    other = open_crawl(engine, a_site("other", rate="unlimited"))
    add(engine, [new_page(other, urls(1, "other.example")[0])])
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    assert stop(engine, crawl)
    with engine.begin() as connection:
        assert leases.extend_leases(connection, [lease_id], 60) == {lease_id}
        assert poll_frontier(connection, [crawl[1], other[1]]).running == {other[1]}
    for page in lease.pages:
        of = crawl if page.crawl_id == crawl[1] else other
        kept = store(
            engine, of, [with_product(settled(page.id, of, lease_id), of, "7", {"title": "A"})]
        )
        assert kept.held == (of is other)
    assert rows(engine, "SELECT site_id FROM products") == [(other[0],)]


def test_a_crawl_that_is_stopped_while_its_workers_settle_counts_every_page_once(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(40)])
    # as both sides do: one may lose a deadlock
    works = [lambda: retry_transaction(lambda: stop(engine, crawl)) and None]
    for _ in range(3):
        (batch,) = lease_all(engine, "shop.example", 10)
        lease = claimed(engine, batch)
        assert lease is not None
        pages = [settled(page.id, crawl, batch.id) for page in lease.pages]
        works.append(
            lambda pages=pages: (
                [retry_transaction(partial(store, engine, crawl, [p])) for p in pages] and None
            )
        )  # type: ignore[misc]
    at_once(works)
    ((status, ok, dropped, done),) = rows(
        engine, "SELECT status, ok, dropped, product_done FROM crawls"
    )
    found = dict(rows(engine, "SELECT status, count(*) FROM pages GROUP BY 1"))  # type: ignore[arg-type]
    assert (status, done, ok, dropped) == ("stopped", 40, found.get("ok", 0), found["dropped"])
    assert rows(engine, "SELECT FROM leases") == []


def test_a_page_that_is_leased_while_its_crawl_is_stopped_leaves_no_lease(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """The stop sees the page due, waits for the dispatch that has it, and then finds it leased."""
    add(engine, [new_page(crawl, url) for url in urls(5)])
    stopping, pid = threading.Event(), []

    def stops() -> None:
        with engine.begin() as connection:
            pid.append(connection.execute(sa.text("SELECT pg_backend_pid()")).scalar())
            stopping.set()
            assert crawls.stop_crawl(connection, crawl[1], "by hand")

    thread = threading.Thread(target=stops, daemon=True)
    with engine.begin() as dispatching:
        (batch,) = lease_some(dispatching, "shop.example", 3)
        thread.start()
        assert stopping.wait(30)
        while (
            rows(
                engine,
                f"SELECT FROM pg_stat_activity WHERE pid = {pid[0]} AND wait_event_type = 'Lock'",
            )
            == []
        ):
            assert thread.is_alive(), "it has not waited"
    thread.join(30)
    assert not thread.is_alive()
    assert rows(engine, "SELECT FROM leases") == []
    assert rows(engine, "SELECT DISTINCT status FROM pages") == [("dropped",)]
    assert claimed(engine, batch) is None
    assert rows(engine, "SELECT status, dropped, product_done, product_total FROM crawls") == [
        ("stopped", 5, 5, 5)
    ]


def test_a_crawl_that_is_stopped_while_its_pages_are_leased_leaves_none(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(40)])
    leases = [
        lambda: retry_transaction(lambda: lease_all(engine, "shop.example", 10)) and None
        for _ in range(4)
    ]
    at_once([*leases, lambda: retry_transaction(lambda: stop(engine, crawl)) and None])
    assert rows(engine, "SELECT FROM leases") == []
    assert rows(engine, "SELECT DISTINCT status FROM pages") == [("dropped",)]
    assert rows(engine, "SELECT dropped FROM crawls") == [(40,)]


# --- standing still
# --------------------------------------------------------------------------------------------------


def minute(engine: sa.Engine, minutes: float = 1.01) -> None:
    """Time passes: what is on record is that much longer ago."""
    back = f"- {minutes} * interval '1 minute'"
    sql(
        engine,
        f"UPDATE crawls SET watched_at = watched_at {back}, progressed_at = progressed_at {back}",
    )


def looked(engine: sa.Engine, times: int) -> None:
    for _ in range(times):
        minute(engine)
        reap(engine, SETTINGS)


def state(engine: sa.Engine, crawl: tuple[int, int]) -> tuple[object, ...]:
    return rows(engine, f"SELECT status, idle_minutes FROM crawls WHERE id = {crawl[1]}")[0]


def test_a_crawl_in_which_nothing_happens_ends_and_says_what_it_waited_for(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url, queue="residential.eu") for url in urls(7)])
    add(engine, [new_page(crawl, url) for url in urls(2, "cdn.example")])
    looked(engine, LOOKS)
    assert state(engine, crawl) == ("running", LOOKS - 1), (
        "the first look saw the pages that were added"
    )
    minute(engine)
    reap(engine, SETTINGS)
    ((status, note, dropped, done, total),) = rows(
        engine, "SELECT status, note, dropped, product_done, product_total FROM crawls"
    )
    assert (status, dropped, done, total) == ("failed", 9, 9, 9)
    assert (
        note
        == "nothing happened for 3 minutes: 7 pages of shop.example wait on queue residential.eu, never tried"
    )
    assert rows(engine, "SELECT DISTINCT status FROM pages") == [("dropped",)]
    assert rows(engine, "SELECT finished_at IS NOT NULL, products_delisted FROM crawls") == [
        (True, 0)
    ]
    assert finish(engine, crawl[1]) == []
    assert open_crawl(engine, a_site(rate="unlimited")) is not None


def test_the_note_says_how_the_last_try_ended(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    store(
        engine,
        crawl,
        [settled(page.id, crawl, lease_id, AGAIN) for page in lease.pages],
    )
    sql(engine, "UPDATE pages SET not_before = now() + interval '1 day'")
    looked(engine, LOOKS + 1)
    ((note,),) = rows(engine, "SELECT note FROM crawls")
    assert str(note).endswith("3 pages of shop.example wait on queue datacenter, last: timeout")


def test_a_stalled_crawls_leases_end_with_it(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    dispatched(engine)
    looked(engine, LOOKS + 1)
    assert state(engine, crawl)[0] == "failed"
    assert rows(engine, "SELECT FROM leases") == []


Happening = Callable[[sa.Engine, tuple[int, int]], None]


def a_page_is_tried(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    first, *others = lease.pages
    store(
        engine,
        crawl,
        [settled(first.id, crawl, lease_id, Verdict(Status.DUE, 0.0, charged=False))],
    )
    back = Verdict(Status.DUE, 0.0, charged=False)
    late = [PageResult(page.id, crawl[1], lease_id, Outcome.DEFERRED, back) for page in others]
    store(engine, crawl, list(late))


def a_page_is_added(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, f"https://shop.example/{uuid4()}")])


@pytest.mark.parametrize("happens", [a_page_is_tried, a_page_is_added])
def test_progress_begins_the_count_again(
    engine: sa.Engine, crawl: tuple[int, int], happens: Happening
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    for _ in range(3):
        looked(engine, LOOKS)
        assert state(engine, crawl) == ("running", LOOKS - 1)
        happens(engine, crawl)
    looked(engine, 1)
    assert state(engine, crawl) == ("running", 0)


def nothing(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    pass


def a_message_is_not_read(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    for lease_id in dispatched(engine):
        expire(engine, lease_id)


def a_page_is_handed_back(
    engine: sa.Engine, crawl: tuple[int, int], outcomes: Sequence[Outcome] = (Outcome.DEFERRED,)
) -> None:
    back = Verdict(Status.DUE, 0.0, charged=False)
    for lease_id in dispatched(engine):
        lease = claimed(engine, lease_id)
        assert lease is not None
        late = [
            PageResult(page.id, crawl[1], lease_id, outcome, back)
            for page, outcome in zip(lease.pages, cycle(outcomes), strict=False)
        ]
        store(engine, crawl, list(late))


def only_proxies_are_met(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    a_page_is_handed_back(engine, crawl, [Outcome.PROXY_FAILED, Outcome.NO_PROXY])


@pytest.mark.parametrize(
    "happens", [nothing, a_message_is_not_read, a_page_is_handed_back, only_proxies_are_met]
)
def test_other_events_do_not(engine: sa.Engine, crawl: tuple[int, int], happens: Happening) -> None:
    """Messages that go round and round, and pages that are handed back, bring a crawl no nearer to
    its end."""
    add(engine, [new_page(crawl, url) for url in urls(3)])
    for _ in range(LOOKS + 1):
        happens(engine, crawl)
        looked(engine, 1)
    assert state(engine, crawl)[0] == "failed"


def test_a_minute_counts_once_for_many_coordinators(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    looked(engine, 1)
    for expected in (1, 2):
        minute(engine)
        at_once([lambda: reap(engine, SETTINGS) and None] * 4)
        reap(engine, SETTINGS)
        assert state(engine, crawl) == ("running", expected)


def test_an_installation_that_was_down_ends_none_of_its_crawls(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """No coordinator has watched for a month: that is one look, not a month's."""
    add(engine, [new_page(crawl, url) for url in urls(3)])
    minute(engine, 43_200)
    for _ in range(5):
        reap(engine, SETTINGS)
    status, idle = state(engine, crawl)
    assert (status, int(str(idle)) <= 1) == ("running", True)


def test_a_paused_crawl_never_stalls(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    other = open_crawl(engine, a_site("other", rate="unlimited"))
    add(engine, [new_page(other, url) for url in urls(3, "other.example")])
    with engine.begin() as connection:
        sites.pause_site(connection, "shop")
    looked(engine, 3 * LOOKS)
    assert (state(engine, crawl)[0], state(engine, other)[0]) == ("running", "failed")
    with engine.begin() as connection:
        sites.resume_site(connection, "shop")
    looked(engine, 1)
    assert state(engine, crawl)[0] == "running", "the pause does not count afterwards"


def test_an_idle_crawl_with_nothing_open_is_finished_not_failed(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(1)])
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    store(engine, crawl, [settled(lease.pages[0].id, crawl, lease_id)])
    minute(engine)
    assert reap(engine, SETTINGS) == [finish_message(crawl[1])]
    finish(engine, crawl[1])
    looked(engine, 2 * LOOKS)
    assert state(engine, crawl)[0] == "completed"


# --- how long leases live
# --------------------------------------------------------------------------------------------


def left_s(engine: sa.Engine) -> float:
    ((seconds,),) = rows(engine, "SELECT extract(epoch FROM until - now())::float8 FROM leases")
    return float(str(seconds))


@pytest.mark.parametrize(
    ("lease_s", "unclaimed"), [(45.0, leases.CLAIM_S), (600.0, leases.CLAIM_S), (5.0, 5.0)]
)
def test_an_unclaimed_lease_goes_back_soon_and_a_claimed_one_has_its_time(
    engine: sa.Engine, crawl: tuple[int, int], lease_s: float, unclaimed: float
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    settings = SETTINGS.model_copy(update={"lease_s": lease_s})
    (message,) = dispatch(engine, settings, lambda _: 0)
    assert message.expires_s == unclaimed, "its message is worth no more than the lease"
    assert unclaimed - 3 <= left_s(engine) <= unclaimed
    with engine.begin() as connection:
        assert (
            leases.claim_lease(connection, UUID(message.kwargs["lease_id"]), "test", lease_s)
            is not None
        )
    assert lease_s - 3 <= left_s(engine) <= lease_s
    with engine.begin() as connection:
        leases.extend_leases(connection, [UUID(message.kwargs["lease_id"])], lease_s + 100)
    assert lease_s + 97 <= left_s(engine) <= lease_s + 100


@pytest.fixture
def postmaster(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Says how long ago PostgreSQL started."""
    statement = leases.EXPIRED.text

    def started(seconds_ago: float) -> None:
        when = f"(now() - {seconds_ago} * interval '1 second')"
        replaced = sa.text(statement.replace("pg_postmaster_start_time()", when))
        assert when in replaced.text
        monkeypatch.setattr(leases, "EXPIRED", replaced)

    return started


@pytest.mark.parametrize(
    ("started_ago_s", "claimed_ago_s", "back"),
    [
        # its worker has not had the time to prolong it
        (leases.RESTART_GRACE_S - 5, 60, False),
        # it has had, and did not
        (leases.RESTART_GRACE_S + 1, 60, True),
        # claimed since the start: PostgreSQL was there all the time
        (leases.RESTART_GRACE_S - 5, 2, True),
        (3600, 60, True),
    ],
)
def test_leases_from_before_a_restart_get_a_moment(
    engine: sa.Engine,
    crawl: tuple[int, int],
    postmaster: Callable[[float], None],
    started_ago_s: float,
    claimed_ago_s: float,
    back: bool,
) -> None:
    postmaster(started_ago_s)
    add(engine, [new_page(crawl, urls(1)[0])])
    (lease_id,) = dispatched(engine)
    assert claimed(engine, lease_id) is not None
    past = f"now() - {claimed_ago_s} * interval '1 second'"
    sql(engine, f"UPDATE leases SET started_at = {past}, until = now() - interval '1 second'")
    reap(engine, SETTINGS)
    assert rows(engine, "SELECT losses FROM pages") == [(int(back),)]
    assert standing(engine) == {"due" if back else "leased": 1}
    if not back:
        with engine.begin() as connection:
            assert leases.extend_leases(connection, [lease_id], 60) == {lease_id}


@pytest.mark.parametrize("is_long", [True, False])
def test_leases_from_before_a_long_outage_of_the_coordinator_get_a_moment(
    engine: sa.Engine, crawl: tuple[int, int], monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """PostgreSQL was there all the time, and a network lost what was sent to it."""
    now = 1000.0
    outage = outages.Outage("PostgreSQL", "postgresql://db/scraper", lambda: now)
    monkeypatch.setattr(outages, "postgres", lambda: outage)
    add(engine, [new_page(crawl, urls(1)[0])])
    (lease_id,) = dispatched(engine)
    assert claimed(engine, lease_id) is not None
    sql(engine, "UPDATE leases SET until = now() - interval '1 second'")
    outage.record_failure(OSError())
    now += outages.LONG_S if is_long else outages.LONG_S - 1
    reap(engine, SETTINGS)
    assert standing(engine) == {"leased" if is_long else "due": 1}
    outage.record_answer()
    now += outages.LONG_S - 1
    # Another outage, which is short, ends no moment.
    outage.record_failure(OSError())
    outage.record_answer()
    reap(engine, SETTINGS)
    assert standing(engine) == {"leased" if is_long else "due": 1}
    now += 2
    reap(engine, SETTINGS)
    assert standing(engine) == {"due": 1}
    assert rows(engine, "SELECT losses FROM pages") == [(1,)]


def test_an_unclaimed_lease_gets_no_such_moment(
    engine: sa.Engine, crawl: tuple[int, int], postmaster: Callable[[float], None]
) -> None:
    """No worker has it, and its message may be lost."""
    postmaster(1.0)
    add(engine, [new_page(crawl, urls(1)[0])])
    (lease_id,) = dispatched(engine)
    sql(engine, "UPDATE leases SET created_at = now() - interval '1 hour'")
    expire(engine, lease_id)
    reap(engine, SETTINGS)
    assert rows(engine, "SELECT status, losses FROM pages") == [("due", 0)]


def test_the_first_to_ask_has_a_lease_that_ran_out(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Its worker and the reaper at the same moment: one of them gets it, never both."""
    add(engine, [new_page(crawl, url) for url in urls(30)])
    ids = []
    for _ in range(30):
        (batch,) = lease_all(engine, "shop.example", 1)
        assert claimed(engine, batch) is not None
        expire(engine, batch.id)
        ids.append(batch.id)
    kept: set[UUID] = set()

    def prolong() -> None:
        for lease_id in ids:
            with engine.begin() as connection:
                kept.update(leases.extend_leases(connection, [lease_id], 60))

    at_once(
        [prolong, lambda: reap(engine, SETTINGS) and None, lambda: reap(engine, SETTINGS) and None]
    )
    held = {lease_id for (lease_id,) in rows(engine, "SELECT lease_id FROM leased_pages")}
    assert held == kept
    assert len(rows(engine, "SELECT FROM pages WHERE losses = 1")) == 30 - len(kept)


# --- replays
# ---------------------------------------------------------------------------------------------------------


def replay(engine: sa.Engine, site_name: str = "shop") -> tuple[int, int]:
    with engine.begin() as connection:
        found = sites.find_site(connection, site_name)
        assert found is not None
        crawl_id = crawls.open_crawl(connection, found[0], found[1], slot=None, trigger=REPLAY)
        assert crawl_id is not None
        crawls.start_crawl(connection, crawl_id)
    return found[0], crawl_id


def test_a_slot_waits_for_a_replay_and_is_opened_after_it(engine: sa.Engine) -> None:
    schedule = hourly_schedule()
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(schedule=schedule)])
    sql(engine, "UPDATE sites SET scheduled_since = now() - interval '10 days'")
    crawl = replay(engine)
    for _ in range(3):
        assert plan(engine) == []
    assert rows(engine, "SELECT trigger, status FROM crawls") == [("replay", "running")], (
        "not skipped"
    )
    with engine.begin() as connection:
        crawls.end_crawl(connection, crawl[1], CrawlStatus.COMPLETED, None)
    assert len(plan(engine)) == 1
    assert rows(
        engine, f"SELECT trigger, status, {is_newest_slot(schedule)} FROM crawls ORDER BY id"
    )[1:] == [("schedule", "planned", True)]


@pytest.mark.parametrize("trigger", ["manual", REPLAY])
def test_a_replay_delists_nothing(engine: sa.Engine, trigger: str) -> None:
    """It has asked for a few pages only: what it did not reach may be unchanged."""
    site = a_site(rate="unlimited", revisit="0s")
    first = open_crawl(engine, site)
    add(engine, [new_page(first, url) for url in urls(2)])
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    for page in lease.pages:
        store(
            engine,
            first,
            [with_product(settled(page.id, first, lease_id), first, page.url, {"title": page.url})],
        )
    finish(engine, first[1])
    for _ in range(DELISTED_AFTER):
        again = replay(engine) if trigger == REPLAY else open_crawl(engine, site)
        add(engine, [new_page(again, urls(1)[0])])
        (lease_id,) = dispatched(engine)
        lease = claimed(engine, lease_id)
        assert lease is not None
        store(
            engine,
            again,
            [settled(page.id, again, lease_id, OK) for page in lease.pages],
        )
        end(engine, again)
    ((status, delisted),) = rows(
        engine,
        "SELECT min(status), sum(products_delisted) FROM crawls WHERE id > 1 HAVING count(*) = 2",
    )
    assert (status, delisted) == ("completed", 0 if trigger == REPLAY else 1)
    ((missed,),) = rows(engine, "SELECT max(missed_crawls) FROM products")
    assert missed == (0 if trigger == REPLAY else DELISTED_AFTER)


def test_a_listing_that_was_replayed_in_vain_fails_its_crawl_alone(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(rate="unlimited")])
    crawl = replay(engine)
    add(engine, [new_page(crawl, "https://shop.example/", Kind.LISTING)])
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    dead = Verdict(Status.DEAD, 0.0, charged=True)
    store(engine, crawl, [settled(lease.pages[0].id, crawl, lease_id, dead)])
    finish(engine, crawl[1])
    assert rows(engine, "SELECT status, products_delisted FROM crawls") == [("failed", 0)]
