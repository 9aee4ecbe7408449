"""From a crawl's first pages to its end on a real PostgreSQL: discover, dispatch, reap, finish. No
broker, no worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from scraper.coordinator.discover import discover, dispatch_message
from scraper.coordinator.dispatch import (
    BATCHES_AHEAD,
    FEEDS_MAX,
    ROUNDS,
    TOP_UP,
    dispatch,
    host_allowance,
    next_batch,
)
from scraper.coordinator.finish import finish, finish_message
from scraper.coordinator.plan import open_now
from scraper.coordinator.reap import reap
from scraper.domain import Kind, Message, Outcome, Status, Verdict
from scraper.frontier import crawls, leases, sites
from scraper.frontier.control import poll_frontier
from scraper.frontier.due import LOSSES_MAX
from scraper.infra.database import make_engine
from scraper.results.transaction import PageResult
from scraper.settings import Settings
from tests.support.making import (
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
)

SETTINGS = Settings(batch_pages=100, horizon_s=10)
DEAD = Verdict(Status.DEAD, 0.0, True)


def empty(_: str) -> int:
    """A broker that has read everything."""
    return 0


def send(engine: sa.Engine, settings: Settings = SETTINGS) -> list[UUID]:
    """Dispatches and returns the batches' lease ids in the order they are sent."""
    return [UUID(message.kwargs["lease_id"]) for message in dispatch(engine, settings, empty)]


def hosts_of(engine: sa.Engine, lease_id: UUID) -> dict[str, int]:
    query = f"SELECT host, count(*) FROM leased_pages WHERE lease_id = '{lease_id}' GROUP BY host"
    return dict(rows(engine, query))  # type: ignore[arg-type]


def leased(engine: sa.Engine) -> dict[str, int]:
    return dict(rows(engine, "SELECT host, count(*) FROM leased_pages GROUP BY host"))  # type: ignore[arg-type]


def take(engine: sa.Engine, lease_ids: list[UUID]) -> None:
    """Workers claim the batches."""
    with engine.begin() as connection:
        for lease_id in lease_ids:
            assert leases.claim_lease(connection, lease_id, "test", 60) is not None


def shop(
    engine: sa.Engine, name: str, pages: int, *, priority: int = 10, **more: object
) -> tuple[int, int]:
    """A running crawl with pages due on its own host."""
    crawl = open_crawl(engine, a_site(name, **({"rate": "unlimited"} | more)))
    add(
        engine,
        [new_page(crawl, url, priority=priority) for url in urls(pages, f"{name}.example")],
        room=1_000_000,
    )
    return crawl


# --- discover
# --------------------------------------------------------------------------------------------------------


def opened(engine: sa.Engine, **more: object) -> int:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(**more)])
    return open_now(engine, "shop").crawl_id


def test_discover_adds_start_pages_and_sitemaps_once(engine: sa.Engine) -> None:
    crawl_id = opened(
        engine,
        start=["https://shop.example/", "https://shop.example/b", "https://shop.example/"],
        sitemap="https://shop.example/sitemap.xml",
        queue="residential",
        region="eu",
        priority="high",
    )
    assert discover(engine, SETTINGS, crawl_id) == [dispatch_message()]
    assert discover(engine, SETTINGS, crawl_id) == []
    found = rows(engine, "SELECT kind, queue, depth, status FROM pages ORDER BY kind")
    assert found == [("listing", "residential.eu", 0, "due")] * 2 + [
        ("sitemap", "residential.eu", 0, "due")
    ]
    assert rows(engine, "SELECT status, discovery_total, product_total FROM crawls") == [
        ("running", 3, 0)
    ]


def test_two_discoveries_at_once_start_one_crawl(engine: sa.Engine) -> None:
    crawl_id = opened(engine)
    sent: list[Message] = []
    at_once([lambda: sent.extend(discover(engine, SETTINGS, crawl_id))] * 3)
    assert sent == [dispatch_message()]
    assert rows(engine, "SELECT discovery_total FROM crawls") == [(1,)]


def test_start_pages_beyond_the_limit_are_counted_as_cut(engine: sa.Engine) -> None:
    """Otherwise the crawl would pass for whole, and what hides behind them would be delisted."""
    start = [f"https://shop.example/{n}" for n in range(5)]
    discover(engine, SETTINGS, opened(engine, start=start, limits={"listings": 3}))
    assert rows(engine, "SELECT discovery_total, links_cut FROM crawls") == [(3, 2)]


def test_a_definition_that_is_not_valid_any_more_fails_its_crawl(engine: sa.Engine) -> None:
    """It must not stay planned for ever, for no other crawl of the site could be."""
    crawl_id = opened(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET definition = '{}'"))
    assert discover(engine, SETTINGS, crawl_id) == []
    ((status, note),) = rows(engine, "SELECT status, note FROM crawls")
    assert (status, "no longer valid" in str(note)) == ("failed", True)


# --- dispatch: budgets
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "pages"), [("2/s", 12), ("30/m", 3), ("1/m", 1)])
def test_a_host_gets_what_its_rate_lets_through_within_the_horizon(
    engine: sa.Engine, rate: str, pages: int
) -> None:
    shop(engine, "slow", 200, rate=rate)
    assert [hosts_of(engine, lease_id) for lease_id in send(engine)] == [{"slow.example": pages}]
    assert send(engine) == []


def test_a_slow_host_is_topped_up_in_batches_not_in_single_pages(engine: sa.Engine) -> None:
    crawl = shop(engine, "slow", 200, rate="2/s")
    (lease_id,) = send(engine)
    with engine.begin() as connection:
        lease = leases.claim_lease(connection, lease_id, "test", 60)
    assert lease is not None
    for number, page in enumerate(lease.pages, 1):
        store(engine, crawl, [settled(page.id, crawl, lease_id)])
        sent = send(engine)
        assert len(sent) == (1 if number == 6 else 0)
        assert leased(engine)["slow.example"] <= 12
        if sent:
            break


def silent_for(engine: sa.Engine, lease_id: UUID, seconds: float) -> None:
    """Its worker has not prolonged it for so long."""
    with engine.begin() as connection:
        query = "UPDATE leases SET until = now() + (:lease_s - :seconds) * interval '1 second' WHERE id = :id"
        connection.execute(
            sa.text(query), {"id": lease_id, "lease_s": SETTINGS.lease_s, "seconds": seconds}
        )


def test_a_host_does_not_wait_for_a_worker_that_is_probably_dead(engine: sa.Engine) -> None:
    """Its pages come back when its lease runs out; until then the host's other pages have its
    budget."""
    shop(engine, "slow", 200, rate="2/s")
    (lease_id,) = send(engine)
    take(engine, [lease_id])
    silent_for(engine, lease_id, leases.SILENT_S / 2)
    assert send(engine) == []
    silent_for(engine, lease_id, leases.SILENT_S + 1)
    assert [hosts_of(engine, more) for more in send(engine)] == [{"slow.example": 12}]
    assert leased(engine) == {"slow.example": 24}, (
        "what it holds is its own until its lease runs out"
    )
    assert send(engine) == []


def test_a_host_on_two_queues_has_one_budget(engine: sa.Engine) -> None:
    crawl = shop(engine, "slow", 100, rate="2/s")
    listings = [f"https://slow.example/l/{n}" for n in range(100)]
    add(
        engine,
        [new_page(crawl, url, Kind.LISTING, queue="residential", priority=11) for url in listings],
    )
    send(engine)
    assert leased(engine) == {"slow.example": 12}


def test_pages_that_wait_for_their_time_are_not_sent(engine: sa.Engine) -> None:
    shop(engine, "shop", 10)
    with engine.begin() as connection:
        query = "UPDATE pages SET not_before = now() + interval '1 minute' WHERE url LIKE '%/p/1' OR url LIKE '%/p/2'"
        connection.execute(sa.text(query))
    send(engine)
    assert leased(engine) == {"shop.example": 8}


# --- dispatch: batches
# -----------------------------------------------------------------------------------------------


def test_many_hosts_share_one_message(engine: sa.Engine) -> None:
    for n in range(30):
        shop(engine, f"slow{n}", 10, rate="12/m")
    (lease_id,) = send(engine)
    assert hosts_of(engine, lease_id) == {f"slow{n}.example": 1 for n in range(30)}


def test_hosts_with_few_pages_each_fill_one_message_too(engine: sa.Engine) -> None:
    for n in range(30):
        shop(engine, f"small{n}", 3)
    (lease_id,) = send(engine)
    assert sum(hosts_of(engine, lease_id).values()) == 90


def test_the_most_urgent_pages_go_first_whatever_their_host(engine: sa.Engine) -> None:
    shop(engine, "low", 300, priority=2)
    shop(engine, "high", 150, priority=18)
    normal = shop(engine, "normal", 50)
    add(engine, [new_page(normal, "https://normal.example/urgent", priority=18)])
    sent = dispatch(engine, SETTINGS, empty)
    batches = [hosts_of(engine, UUID(message.kwargs["lease_id"])) for message in sent]
    assert sum(batches[0].values()) == 100 and set(batches[0]) <= {"high.example", "normal.example"}
    assert batches[0]["normal.example"] == 1
    assert batches[1] == {"high.example": 51}, "a batch is of one priority"
    assert batches[2] == {"normal.example": 50}
    assert batches[3] == {"low.example": 100}
    assert [message.priority for message in sent] == [18, 18, 10, 2, 2, 2]


def test_unclaimed_low_priority_takes_no_room_from_high(engine: sa.Engine) -> None:
    for n in range(3):
        shop(engine, f"low{n}", 1000, priority=4)
    # one lease may make two batches
    assert len(send(engine)) == BATCHES_AHEAD - 1
    normal = shop(engine, "normal", 1000)
    assert [message.priority for message in dispatch(engine, SETTINGS, empty)] == [10] * (
        BATCHES_AHEAD - 1
    )
    add(engine, [new_page(normal, "https://high.example/", priority=16)])
    (urgent,) = dispatch(engine, SETTINGS, empty)
    assert urgent.priority == 16 and hosts_of(engine, UUID(urgent.kwargs["lease_id"])) == {
        "high.example": 1
    }
    assert send(engine) == []


@pytest.mark.parametrize(("rate", "low"), [("4/s", 24), ("unlimited", 1400)])
def test_pages_of_low_priority_that_are_out_take_nothing_of_their_hosts_budget_from_high(
    engine: sa.Engine, rate: str, low: int
) -> None:
    crawl = shop(engine, "shop", 2000, priority=4, rate=rate)
    while sent := send(engine):
        take(engine, sent)
    assert leased(engine) == {"shop.example": low}
    add(engine, [new_page(crawl, f"https://shop.example/deals/{n}", priority=16) for n in range(3)])
    (urgent,) = dispatch(engine, SETTINGS, empty)
    assert urgent.priority == 16 and hosts_of(engine, UUID(urgent.kwargs["lease_id"])) == {
        "shop.example": 3
    }
    take(engine, [UUID(urgent.kwargs["lease_id"])])
    assert send(engine) == [], "pages of low priority get no more than they had"


def test_the_broker_is_not_asked_about_a_queue_that_is_full_already(engine: sa.Engine) -> None:
    for n in range(3):
        shop(engine, f"host{n}", 1000)
    asked: list[str] = []

    def depth(queue: str) -> int:
        asked.append(queue)
        return 0

    assert len(dispatch(engine, SETTINGS, depth)) == BATCHES_AHEAD - 1 and asked == ["datacenter"]
    assert dispatch(engine, SETTINGS, depth) == [] and asked == ["datacenter"]


def test_unread_messages_fill_the_room_of_every_priority(engine: sa.Engine) -> None:
    shop(engine, "high", 10, priority=19)
    assert dispatch(engine, SETTINGS, lambda _: BATCHES_AHEAD) == []


def test_a_small_host_does_not_wait_for_a_large_one(engine: sa.Engine) -> None:
    shop(engine, "large", 5000)
    shop(engine, "small", 3)
    first = send(engine)[0]
    assert hosts_of(engine, first) == {"large.example": 97, "small.example": 3}


def test_a_small_host_that_comes_later_does_not_wait_either(engine: sa.Engine) -> None:
    shop(engine, "large", 5000)
    take(engine, send(engine)[:3])
    shop(engine, "small", 3)
    assert hosts_of(engine, send(engine)[0])["small.example"] == 3


def test_listings_and_products_go_to_tasks_of_their_own(engine: sa.Engine) -> None:
    crawl = shop(engine, "shop", 5)
    add(engine, [new_page(crawl, "https://shop.example/all", Kind.LISTING, priority=11)])
    sent = {message.task: message for message in dispatch(engine, SETTINGS, empty)}
    assert set(sent) == {"fetch_listings", "fetch_products"}
    assert sent["fetch_listings"].priority == 11
    for message in sent.values():
        assert (message.queue, message.expires_s) == ("datacenter", leases.CLAIM_S)
        assert claimed_pages(engine, UUID(message.kwargs["lease_id"])) in (1, 5)


def claimed_pages(engine: sa.Engine, lease_id: UUID) -> int:
    with engine.begin() as connection:
        lease = leases.claim_lease(connection, lease_id, "test", 60)
    return len(lease.pages) if lease else 0


@given(
    st.dictionaries(
        st.integers(0, 3),
        st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 300), min_size=1),
        max_size=4,
    ),
    st.integers(1, 120),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 500)),
)
def test_a_batch_is_full_urgent_first_and_even(
    pages: dict[int, dict[str, int]], size: int, out: dict[str, int]
) -> None:
    due = {priority: Counter(hosts) for priority, hosts in pages.items()}
    total = sum(hosts.total() for hosts in due.values())
    batch = next_batch(due, size, out)
    assert batch.total() == min(size, total)
    assert all(batch.values())
    assert sum(hosts.total() for hosts in due.values()) == total - batch.total()
    taken = {priority: Counter(hosts) - due[priority] for priority, hosts in pages.items()}
    for priority, hosts in pages.items():
        # Some is left: nothing less urgent was taken.
        if due[priority]:
            assert not any(taken[lower] for lower in pages if lower < priority)
            waits = [taken[priority][host] for host in due[priority]]
            if len(hosts) <= size and not any(
                taken[higher] for higher in pages if higher > priority
            ):
                assert min(waits) + 1 >= max(taken[priority].values(), default=0)


# --- dispatch: queues
# ------------------------------------------------------------------------------------------------


def test_queues_are_kept_shallow(engine: sa.Engine) -> None:
    """Invariant 5: however many pages wait, and however often dispatch runs."""
    shop(engine, "large", 3000)
    for n in range(8):
        crawl = shop(engine, f"mixed{n}", 300)
        add(
            engine,
            [
                new_page(crawl, f"https://mixed{n}.example/l/{i}", Kind.LISTING, priority=11)
                for i in range(200)
            ],
        )
    sent: list[UUID] = []
    for _ in range(3):
        sent += send(engine)
        assert BATCHES_AHEAD - 1 <= len(sent) <= BATCHES_AHEAD
    take(engine, sent[:4])
    more = send(engine)
    assert 3 <= len(more) <= 4


def test_a_full_broker_gets_nothing_more(engine: sa.Engine) -> None:
    """It holds messages whose leases have run out: the frontier alone would not know."""
    shop(engine, "shop", 300)
    asked: list[str] = []

    def full(queue: str) -> int:
        asked.append(queue)
        return BATCHES_AHEAD

    assert dispatch(engine, SETTINGS, full) == []
    assert asked == ["datacenter"]
    assert leased(engine) == {}


def test_a_full_queue_does_not_hold_up_another(engine: sa.Engine) -> None:
    crawl = shop(engine, "shop", 10)
    add(engine, [new_page(crawl, "https://shop.example/r", queue="residential")])
    sent = dispatch(engine, SETTINGS, lambda queue: BATCHES_AHEAD if queue == "datacenter" else 0)
    assert [message.queue for message in sent] == ["residential"]


def test_nothing_due_is_nothing_to_send(engine: sa.Engine) -> None:
    assert dispatch(engine, SETTINGS, empty) == []


def test_a_broker_that_fails_leases_nothing(engine: sa.Engine) -> None:
    def away(_: str) -> int:
        raise ConnectionError

    shop(engine, "shop", 10)
    with pytest.raises(ConnectionError):
        dispatch(engine, SETTINGS, away)
    assert leased(engine) == {}


@pytest.fixture
def engines(database: str) -> Iterator[list[sa.Engine]]:
    made = [make_engine(database) for _ in range(3)]
    yield made
    for engine in made:
        engine.dispose()


def test_dispatchers_at_once_never_lease_twice_nor_over_budget(
    engine: sa.Engine, engines: list[sa.Engine]
) -> None:
    """Invariant 10."""
    shop(engine, "large", 2000)
    for n in range(20):
        shop(engine, f"slow{n}", 50, rate="1/s")
    sent: list[UUID] = []
    at_once([lambda own=own: sent.extend(send(own)) for own in engines])  # type: ignore[misc]
    assert len(sent) == len(set(sent)) <= BATCHES_AHEAD
    written = dict(rows(engine, "SELECT id, pages FROM leases"))  # type: ignore[arg-type]
    found = dict(
        rows(engine, "SELECT lease_id, count(DISTINCT page_id) FROM leased_pages GROUP BY 1")
    )  # type: ignore[arg-type]
    assert set(written) == set(sent)
    assert written == found
    assert rows(engine, "SELECT count(*) - count(DISTINCT page_id) FROM leased_pages") == [(0,)]
    pages = leased(engine)
    assert all(count <= 10 for host, count in pages.items() if host != "large.example")
    assert pages["large.example"] <= ROUNDS * SETTINGS.batch_pages


def test_a_queue_may_hold_more_for_several_workers_that_are_busy_with_it(engine: sa.Engine) -> None:
    """What one of them has read, and has no place for yet, keeps the others from nothing."""
    for n in range(8):
        shop(engine, f"shop{n}", 1000)
    first = send(engine)
    assert len(first) == BATCHES_AHEAD - 1
    for number, lease_id in enumerate(first[:6]):
        with engine.begin() as connection:
            assert leases.claim_lease(connection, lease_id, f"worker {number}", 60)
    with engine.begin() as connection:
        assert poll_frontier(connection, (), "datacenter")[1:3] == (len(first) - 6, 6)
    waiting = len(first) - 6 + len(send(engine))
    assert FEEDS_MAX * BATCHES_AHEAD - 1 <= waiting <= FEEDS_MAX * BATCHES_AHEAD
    assert send(engine) == []


def test_a_host_without_a_rate_is_topped_up_by_several_batches_at_once() -> None:
    full, batch = ROUNDS * SETTINGS.batch_pages, SETTINGS.batch_pages
    assert (
        host_allowance(None, 0, SETTINGS) == full
        and host_allowance(None, 0, SETTINGS, workers=3) == 3 * full
    )
    assert host_allowance(None, full - TOP_UP * batch, SETTINGS) == TOP_UP * batch
    assert (
        host_allowance(None, full - TOP_UP * batch + 1, SETTINGS)
        == host_allowance(None, 2 * full, SETTINGS)
        == 0
    )


# --- reap
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site(revisit="0s"))


def test_expired_leases_return_and_others_stay(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(6)])
    expired, living = (
        lease_all(engine, "shop.example", 3)[0],
        lease_all(engine, "shop.example", 3)[0],
    )
    expire(engine, expired.id)
    assert reap(engine, SETTINGS) == [dispatch_message()]
    assert standing(engine) == {"due": 3, "leased": 3}
    assert rows(engine, "SELECT id FROM leases") == [(living.id,)]
    assert reap(engine, SETTINGS) == []


def test_reapers_at_once_take_back_once(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(40)])
    for _ in range(4):
        (batch,) = lease_all(engine, "shop.example", 10)
        assert claimed(engine, batch) is not None
        expire(engine, batch.id)
    at_once([lambda: reap(engine, SETTINGS) and None] * 3)
    assert rows(engine, "SELECT DISTINCT status, losses FROM pages") == [("due", 1)]


def test_a_crawl_whose_last_page_kills_its_workers_ends(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    for _ in range(LOSSES_MAX):
        (sent,) = dispatch(engine, SETTINGS, empty)
        lease_id = UUID(sent.kwargs["lease_id"])
        assert claimed(engine, lease_id, alone=sent.kwargs.get("alone", False)) is not None
        expire(engine, lease_id)
        messages = reap(engine, SETTINGS)
    assert finish_message(crawl[1]) in messages
    finish(engine, crawl[1])
    assert rows(engine, "SELECT status, dead, product_done FROM crawls") == [("failed", 1, 1)]


def test_a_drained_crawl_whose_finish_was_lost_is_found(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Invariant 1."""
    settle_all(engine, crawl, dict.fromkeys(urls(2), OK))
    assert reap(engine, SETTINGS) == reap(engine, SETTINGS) == [finish_message(crawl[1])]
    finish(engine, crawl[1])
    assert reap(engine, SETTINGS) == []


# --- finish
# ----------------------------------------------------------------------------------------------------------


def settle_all(
    engine: sa.Engine,
    crawl: tuple[int, int],
    verdicts: dict[str, Verdict],
    kind: Kind = Kind.PRODUCT,
    depth: int = 1,
) -> None:
    add(engine, [new_page(crawl, url, kind, depth=depth) for url in verdicts])
    (batch,) = lease_all(engine, "shop.example")
    lease = claimed(engine, batch)
    assert lease is not None
    for page in lease.pages:
        verdict = verdicts[page.url]
        outcome = Outcome.FETCHED if verdict is OK else Outcome.SERVER_ERROR
        error = None if verdict is OK else "the server answered 500"
        one = PageResult(page.id, crawl[1], batch.id, outcome, verdict, error=error)
        store(engine, crawl, [one])


def ended(engine: sa.Engine, crawl: tuple[int, int]) -> tuple[object, ...]:
    assert finish(engine, crawl[1]) == []
    return rows(engine, f"SELECT status, note FROM crawls WHERE id = {crawl[1]}")[0]


def test_a_crawl_with_an_open_page_does_not_end(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    settle_all(engine, crawl, {urls(1)[0]: Verdict(Status.DUE, 60.0, True)})
    assert ended(engine, crawl) == ("running", None)


def test_a_good_crawl_is_completed_without_a_note(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    settle_all(engine, crawl, dict.fromkeys(urls(3), OK))
    assert ended(engine, crawl) == ("completed", None)
    assert ended(engine, crawl) == ("completed", None)


def test_dead_and_gone_products_are_noted_not_failed(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    good, dead, gone, invalid = urls(4)
    verdicts = {
        good: OK,
        dead: DEAD,
        gone: Verdict(Status.GONE, 0, True),
        invalid: Verdict(Status.INVALID, 0, True),
    }
    settle_all(engine, crawl, verdicts)
    assert ended(engine, crawl) == ("completed", "1 page dead and 1 page invalid")


def test_a_crawl_that_could_read_nothing_failed_and_says_why(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    settle_all(engine, crawl, {"https://shop.example/": DEAD}, Kind.LISTING, depth=0)
    status, note = ended(engine, crawl)
    assert status == "failed"
    assert note == (
        "the server answered 500 (1 listing page could not be read: https://shop.example/)"
    )


def test_a_crawl_without_one_good_product_failed(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    settle_all(engine, crawl, {"https://shop.example/": OK}, Kind.LISTING, depth=0)
    settle_all(engine, crawl, dict.fromkeys(urls(3), Verdict(Status.INVALID, 0.0, True)))
    assert ended(engine, crawl) == (
        "failed",
        "the server answered 500 (not one of 3 product pages was good); 3 pages invalid",
    )


def test_a_start_page_that_is_gone_is_an_unread_listing_a_later_one_not(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    gone = Verdict(Status.GONE, 0.0, True)
    settle_all(engine, crawl, {urls(1)[0]: OK})
    settle_all(engine, crawl, {"https://shop.example/page/9": gone}, Kind.LISTING, depth=2)
    settle_all(engine, crawl, {"https://shop.example/": gone}, Kind.LISTING, depth=0)
    status, note = ended(engine, crawl)
    assert status == "completed"
    assert "1 listing page could not be read: https://shop.example/" in str(note)


def test_a_crawl_without_any_page_fails_with_a_note(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    assert ended(engine, crawl) == ("failed", "no page could be read")


def test_what_was_cut_is_noted(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    settle_all(engine, crawl, {urls(1)[0]: OK})
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET links_cut = 7"))
    assert ended(engine, crawl) == (
        "completed",
        "7 links were left out: the definition's limits",
    )


def test_a_stopped_crawl_is_not_finished_again(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    with engine.begin() as connection:
        crawls.stop_crawl(connection, crawl[1], "by hand")
    assert ended(engine, crawl) == ("stopped", "by hand")
