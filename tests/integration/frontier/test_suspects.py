"""Pages that workers died with, on a real PostgreSQL: the cause is found and given up, and nothing
else is."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.coordinator.dispatch import BATCHES_AHEAD, dispatch
from scraper.coordinator.finish import finish
from scraper.coordinator.reap import reap
from scraper.domain import Kind, Message, Outcome, Status, Verdict
from scraper.frontier import sites
from scraper.frontier.due import (
    LOSSES_MAX,
    SUSPECT_BATCH,
    SUSPECT_LEASES,
    SUSPECT_LOSSES,
    suspect_groups,
)
from scraper.infra.database import make_engine
from scraper.results.transaction import PageResult, settle_pages
from scraper.settings import Settings
from tests.support.machine import everyday
from tests.support.making import (
    AGAIN,
    LIMITS,
    OK,
    a_site,
    add,
    at_once,
    claimed,
    expire,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
)

SETTINGS = Settings(batch_pages=20, horizon_s=10)
KILLER = "https://shop.example/killer"


def messages(engine: sa.Engine, settings: Settings = SETTINGS) -> list[Message]:
    return dispatch(engine, settings, lambda _: 0)


def lease_of(message: Message) -> UUID:
    return UUID(message.kwargs["lease_id"])


def dispatched(engine: sa.Engine, settings: Settings = SETTINGS) -> list[UUID]:
    return [lease_of(message) for message in messages(engine, settings)]


def leases_by_losses(engine: sa.Engine) -> list[tuple[set[int], int]]:
    """Of each lease that is out: the losses its pages have had, and how many they are."""
    query = "SELECT array_agg(DISTINCT losses), count(*) FROM pages JOIN leased_pages ON page_id = id GROUP BY lease_id"
    return [(set(losses), pages) for losses, pages in rows(engine, query)]  # type: ignore[call-overload,misc]


def assert_suspects_apart(engine: sa.Engine) -> None:
    """No lease has suspects and others, and suspects of a queue go out few at a time."""
    query = (
        "SELECT p.queue, array_agg(DISTINCT losses), count(*) FROM pages p JOIN leased_pages ON page_id = id"
        " GROUP BY 1, lease_id"
    )
    out: Counter[tuple[str, int]] = Counter()
    for queue, losses, pages in rows(engine, query):
        most = max(losses)  # type: ignore[call-overload]
        if most >= SUSPECT_LOSSES:
            assert len(losses) == 1  # type: ignore[arg-type]
            assert pages <= SUSPECT_BATCH[most]  # type: ignore[operator]
            out[queue, most] += 1  # type: ignore[index]
    assert all(count <= SUSPECT_LEASES[losses] for (_, losses), count in out.items()), out


def one_dies(engine: sa.Engine, messages: list[Message], *, honest: bool = True) -> None:
    """A worker claims leases, each by itself, and is never seen again. One that is not `honest`
    does other things next to what it should do alone."""
    for message in messages:
        alone = honest and message.kwargs.get("alone", False)
        assert claimed(engine, lease_of(message), alone=alone) is not None
        expire(engine, lease_of(message))
    reap(engine, SETTINGS)


@dataclass
class Worker:
    """Several slots. A lease that it must have for itself waits until it holds nothing; until then
    it takes nothing else."""

    held: dict[UUID, set[str]] = field(default_factory=dict)
    wants_alone: UUID | None = None
    waited: int = 0
    alone: bool = False


class Fleet:
    """Workers, and a broker that hands its messages out in any order. A worker dies with every
    lease it holds: at the moment it claims a page that kills, or `late`, when that page's turn
    comes; or by chance."""

    def __init__(
        self, engine: sa.Engine, rng: random.Random, workers: int, slots: int, *, late: bool = False
    ) -> None:
        self.engine, self.rng, self.slots, self.late = engine, rng, slots, late
        self.workers = [Worker() for _ in range(workers)]
        self.broker: list[Message] = []
        self.deaths: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.lost_alone: Counter[str] = Counter()
        self.settings = SETTINGS
        self.expired = False

    def run(self, killers: set[str], chance: float = 0.0, rounds: int = 1500) -> None:
        for _ in range(rounds):
            self.broker += messages(self.engine, self.settings)
            assert_suspects_apart(self.engine)
            self.rng.shuffle(self.broker)
            for worker in self.workers:
                self._claim(worker, killers, chance)
            for worker in self.workers:
                self._work(worker, killers)
            # Without an expired lease it takes nothing back.
            if self.expired:
                reap(self.engine, SETTINGS)
                self.expired = False
            if not rows(self.engine, "SELECT FROM pages WHERE status = 'due'"):
                for (crawl_id,) in rows(
                    self.engine, "SELECT id FROM crawls WHERE status = 'running'"
                ):
                    finish(self.engine, crawl_id)  # type: ignore[arg-type]
                return
        pytest.fail("the crawl does not end")

    def _claim(self, worker: Worker, killers: set[str], chance: float) -> None:
        self._be_alone(worker, killers, chance)
        while (
            self.broker
            and len(worker.held) < self.slots
            and not (worker.alone or worker.wants_alone)
        ):
            message = self.broker.pop()
            if not message.kwargs.get("alone"):
                self._take(worker, lease_of(message), killers, chance)
            else:
                worker.wants_alone, worker.waited = lease_of(message), 0
                self._be_alone(worker, killers, chance)

    def _be_alone(self, worker: Worker, killers: set[str], chance: float) -> None:
        if worker.wants_alone is None or (worker.held and worker.waited < 4):
            worker.waited += 1
            return
        lease_id, worker.wants_alone = worker.wants_alone, None
        if worker.held:
            self._expire(lease_id)  # it goes back unclaimed
        else:
            self._take(worker, lease_id, killers, chance, alone=True)

    def _take(
        self,
        worker: Worker,
        lease_id: UUID,
        killers: set[str],
        chance: float,
        *,
        alone: bool = False,
    ) -> None:
        lease = claimed(self.engine, lease_id, alone=alone)
        if lease is None:
            return
        assert not worker.alone and not (alone and worker.held)
        worker.alone = alone
        worker.held[lease_id] = {page.url for page in lease.pages}
        found = worker.held[lease_id] & killers
        if self.rng.random() < chance:
            self._dies(worker, {"by chance"})
        elif found and not self.late:
            self._dies(worker, found)

    def _dies(self, worker: Worker, why: set[str]) -> None:
        self.deaths.update(why)
        for lease_id, found in worker.held.items():
            self.losses.update(found)
            if worker.alone:
                assert len(worker.held) == len(found) == 1
                self.lost_alone.update(found)
            self._expire(lease_id)
        if worker.wants_alone is not None:
            # its message is gone: it goes back unclaimed
            self._expire(worker.wants_alone)
        worker.held, worker.alone, worker.wants_alone = {}, False, None

    def _expire(self, lease_id: UUID) -> None:
        expire(self.engine, lease_id)
        self.expired = True

    def _work(self, worker: Worker, killers: set[str]) -> None:
        for lease_id in list(worker.held):
            if self.rng.random() < 0.5 and lease_id in worker.held:
                found = worker.held[lease_id] & killers
                if found:
                    self._dies(worker, found)
                else:
                    worker.held.pop(lease_id)
                    worker.alone = False
                    self._settle(lease_id)

    def _settle(self, lease_id: UUID) -> None:
        of = rows(
            self.engine,
            f"""
            SELECT id, site_id, crawl_id FROM pages JOIN leased_pages ON page_id = id WHERE lease_id = '{lease_id}'""",
        )
        assert of, "nobody takes a living worker's pages"
        pages = [settled(page, (site, crawl), lease_id) for page, site, crawl in of]  # type: ignore[arg-type]
        with self.engine.begin() as connection:
            settle_pages(connection, pages, {crawl: LIMITS for _, _, crawl in of})  # type: ignore[misc]


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site(rate="unlimited", revisit="0s"))


def outcomes(engine: sa.Engine) -> dict[tuple[object, object, object], object]:
    query = "SELECT url LIKE '%killer%', status, last_outcome, count(*) FROM pages GROUP BY 1, 2, 3"
    return {key: count for *key_, count in rows(engine, query) for key in [tuple(key_)]}  # type: ignore[misc]


# --- the cause is found
# ----------------------------------------------------------------------------------------------

FLEETS = [(1, 1), (1, 8), (3, 3)]


@pytest.mark.parametrize(("workers", "slots"), FLEETS)
@pytest.mark.parametrize("seed", range(2))
def test_one_page_that_kills_among_a_hundred(
    engine: sa.Engine, crawl: tuple[int, int], workers: int, slots: int, seed: int
) -> None:
    """It takes whatever its workers hold with it, each time; the others are fetched nevertheless."""
    rng = random.Random(seed)
    pages = [*urls(100), KILLER]
    rng.shuffle(pages)
    add(engine, [new_page(crawl, url) for url in pages])
    fleet = Fleet(engine, rng, workers, slots)
    fleet.run({KILLER})
    assert fleet.deaths == {KILLER: LOSSES_MAX}
    assert fleet.lost_alone == {KILLER: 1}
    assert outcomes(engine) == {(False, "ok", "fetched"): 100, (True, "dead", "worker_lost"): 1}
    ((error, losses),) = rows(engine, "SELECT error, losses FROM pages WHERE status = 'dead'")
    assert (str(error).split()[0], losses) == (str(LOSSES_MAX), LOSSES_MAX)
    assert rows(
        engine, "SELECT status, ok, dead, product_done, product_total, note FROM crawls"
    ) == [("completed", 100, 1, 101, 101, "1 page dead")]
    assert rows(engine, "SELECT FROM leases") == []


@pytest.mark.parametrize(
    ("killers", "late", "fleet_of"),
    everyday(
        product((2, 3, 5), (False, True), FLEETS),
        (2, False, (1, 1)),
        (3, True, (3, 3)),
        (5, False, (1, 8)),
    ),
)
def test_several_pages_that_kill_die_and_nothing_else(
    engine: sa.Engine, crawl: tuple[int, int], killers: int, late: bool, fleet_of: tuple[int, int]
) -> None:
    """Each takes the others with it, and whatever else is held."""
    workers, slots = fleet_of
    rng = random.Random(killers * 100 + workers * 10 + late)
    kill = {f"{KILLER}{n}" for n in range(killers)}
    pages = [*urls(80), *sorted(kill)]
    rng.shuffle(pages)
    add(engine, [new_page(crawl, url) for url in pages])
    fleet = Fleet(engine, rng, workers, slots, late=late)
    fleet.run(kill)
    assert outcomes(engine) == {
        (False, "ok", "fetched"): 80,
        (True, "dead", "worker_lost"): killers,
    }
    assert fleet.lost_alone == dict.fromkeys(kill, 1)
    assert all(fleet.losses[url] >= LOSSES_MAX for url in kill)
    assert late or fleet.deaths == dict.fromkeys(kill, LOSSES_MAX)
    assert rows(engine, "SELECT ok, dead, product_done, product_total FROM crawls") == [
        (80, killers, 80 + killers, 80 + killers)
    ]
    assert rows(engine, "SELECT FROM leases") == []


@pytest.mark.parametrize(
    ("late", "fleet_of"),
    everyday(product((False, True), FLEETS), (False, (1, 8)), (True, (3, 3))),
)
def test_pages_that_kill_on_several_queues(
    engine: sa.Engine, crawl: tuple[int, int], late: bool, fleet_of: tuple[int, int]
) -> None:
    """Each queue has suspects of its own, and so several leases at a time want a worker for
    themselves."""
    workers, slots = fleet_of
    other = open_crawl(engine, a_site("other", rate="unlimited", revisit="0s"))
    kill = set()
    for number, queue in enumerate(["datacenter", "residential", "browser"]):
        of = crawl if number else other
        bad = [f"{KILLER}-{queue}-{n}" for n in range(2)]
        kill |= set(bad)
        found = [f"https://shop.example/{queue}/{n}" for n in range(25)]
        add(engine, [new_page(of, url, queue=queue) for url in [*found, *bad]])
    fleet = Fleet(engine, random.Random(workers + late), workers, slots, late=late)
    fleet.run(kill)
    assert outcomes(engine) == {(False, "ok", "fetched"): 75, (True, "dead", "worker_lost"): 6}
    assert fleet.lost_alone == dict.fromkeys(kill, 1)
    assert rows(engine, "SELECT status, dead FROM crawls ORDER BY id") == [
        ("completed", 4),
        ("completed", 2),
    ]


def test_the_innocent_are_cleared_of_every_loss(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in [*urls(30), KILLER]])
    Fleet(engine, random.Random(1), 2, 2).run({KILLER})
    assert rows(engine, "SELECT DISTINCT losses FROM pages WHERE status = 'ok'") == [(0,)]


@pytest.mark.parametrize("late", [False, True], ids=["when claimed", "later"])
def test_a_listing_that_kills_takes_no_product_with_it(
    engine: sa.Engine, crawl: tuple[int, int], late: bool
) -> None:
    add(engine, [new_page(crawl, url) for url in urls(40)])
    listings = [f"https://shop.example/l/{n}" for n in range(5)]
    add(engine, [new_page(crawl, url, Kind.LISTING, priority=11) for url in [*listings, KILLER]])
    Fleet(engine, random.Random(2), 1, 8, late=late).run({KILLER})
    assert outcomes(engine) == {(False, "ok", "fetched"): 45, (True, "dead", "worker_lost"): 1}


def assert_fair(engine: sa.Engine, fleet: Fleet, killers: set[str]) -> None:
    """A death costs a page if nothing else can have been its cause, and only one that four others
    had come before."""
    dead = {
        str(url): losses
        for url, losses in rows(engine, "SELECT url, losses FROM pages WHERE status = 'dead'")
    }
    assert killers <= dead.keys()
    assert fleet.lost_alone == dict.fromkeys(dead, 1)
    assert all(fleet.losses[url] >= LOSSES_MAX == losses for url, losses in dead.items())
    ((ok, counted, done, total),) = rows(
        engine, "SELECT ok, dead, product_done, product_total FROM crawls"
    )
    assert (counted, done, ok) == (len(dead), total, total - len(dead))  # type: ignore[operator]
    assert rows(engine, "SELECT DISTINCT losses FROM pages WHERE status = 'ok'") in ([(0,)], [])
    assert rows(engine, "SELECT FROM leases") == []


@pytest.mark.parametrize(
    ("killers", "chance", "fleet_of"),
    everyday(
        product((0, 2), (1 / 8, 0.3, 0.5), FLEETS),
        (0, 0.3, (3, 3)),
        (2, 1 / 8, (1, 1)),
        (2, 0.5, (1, 8)),
    ),
)
def test_workers_that_die_at_random_cost_only_pages_that_were_alone_with_them(
    engine: sa.Engine,
    crawl: tuple[int, int],
    killers: int,
    chance: float,
    fleet_of: tuple[int, int],
) -> None:
    """The out-of-memory killer, deployments, a person who tries it: up to one claim in two ends in
    a death, and even then a crawl ends. A page that five workers died with, the last one with
    nothing else to do, looks like the cause."""
    workers, slots = fleet_of
    kill = {f"{KILLER}{n}" for n in range(killers)}
    add(engine, [new_page(crawl, url) for url in [*urls(60), *sorted(kill)]])
    fleet = Fleet(engine, random.Random(workers * 7 + killers), workers, slots)
    fleet.settings = Settings(batch_pages=5)
    fleet.run(kill, chance=chance)
    assert fleet.deaths["by chance"] >= 2
    assert_fair(engine, fleet, kill)


@pytest.mark.parametrize("seed", range(4))
def test_a_few_random_deaths_cost_no_page(
    engine: sa.Engine, crawl: tuple[int, int], seed: int
) -> None:
    """Four of them, wherever they strike: none can be the fifth of a page."""
    rng = random.Random(seed)
    add(engine, [new_page(crawl, url) for url in urls(100)])
    fleet = Fleet(engine, rng, 3, 3)
    fleet.settings = Settings(batch_pages=5)
    dies = fleet._dies

    def four_times(worker: Worker, why: set[str]) -> None:
        if fleet.deaths.total() < LOSSES_MAX - 1:
            dies(worker, why)

    fleet._dies = four_times  # type: ignore[method-assign]
    fleet.run(set(), chance=0.5)
    assert fleet.deaths["by chance"] == LOSSES_MAX - 1
    assert outcomes(engine) == {(False, "ok", "fetched"): 100}


# --- how suspects are leased
# -----------------------------------------------------------------------------------------


def with_losses(
    engine: sa.Engine, crawl: tuple[int, int], pages: int, losses: int, host: str = "shop.example"
) -> None:
    """Adds pages to a host, all of whose pages have had this many losses."""
    add(engine, [new_page(crawl, url) for url in urls(pages, host)])
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE pages SET losses = :n WHERE host = :host"), {"n": losses, "host": host}
        )


def test_one_loss_makes_no_suspect(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    """A deployment that kills a fleet once must not slow it down."""
    with_losses(engine, crawl, 60, 1)
    dispatched(engine)
    assert leases_by_losses(engine) == [({1}, 20)] * 3


@pytest.mark.parametrize(("losses", "pages", "leases"), [(2, 10, 4), (3, 1, 4), (4, 1, 1)])
def test_suspects_go_out_few_at_a_time(
    engine: sa.Engine, crawl: tuple[int, int], losses: int, pages: int, leases: int
) -> None:
    with_losses(engine, crawl, 60, losses)
    sent = dispatched(engine)
    assert leases_by_losses(engine) == [({losses}, pages)] * leases
    assert dispatched(engine) == []
    for lease_id in sent:
        assert claimed(engine, lease_id) is not None
    assert dispatched(engine) == [], "what is being worked on counts as much as what waits"
    done = rows(engine, f"SELECT page_id FROM leased_pages WHERE lease_id = '{sent[0]}'")
    store(engine, crawl, [settled(id_, crawl, sent[0]) for (id_,) in done])  # type: ignore[arg-type]
    assert len(dispatched(engine)) == 1, "one ends, one follows"
    assert len(leases_by_losses(engine)) == leases


def test_suspects_leave_room_for_the_rest_of_the_queue(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    with_losses(engine, crawl, 100, 2)
    with_losses(engine, crawl, 300, 0, host="fine.example")
    dispatched(engine)
    found = Counter(max(losses) for losses, _ in leases_by_losses(engine))
    assert found[2] == SUSPECT_LEASES[2]
    assert 1 <= found[0] <= BATCHES_AHEAD - SUSPECT_LEASES[2]


def test_suspects_respect_a_full_broker(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    with_losses(engine, crawl, 60, 2)
    assert dispatch(engine, SETTINGS, lambda _: BATCHES_AHEAD) == []
    assert leases_by_losses(engine) == []


def test_a_suspect_waits_for_its_time_like_any_page(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    with_losses(engine, crawl, 5, 3)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET not_before = now() + interval '1 minute'"))
    assert dispatched(engine) == []


def test_suspects_of_a_paused_site_rest_too(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    with_losses(engine, crawl, 5, 3)
    with engine.begin() as connection:
        sites.pause_site(connection, "shop")
    assert dispatched(engine) == []
    with engine.begin() as connection:
        sites.resume_site(connection, "shop")
    assert len(dispatched(engine)) == SUSPECT_LEASES[3]


@pytest.mark.parametrize("losses", sorted(SUSPECT_BATCH))
@pytest.mark.parametrize("listings", range(0, 41, 5))
def test_the_limits_hold_for_listings_and_products_together(
    engine: sa.Engine, crawl: tuple[int, int], losses: int, listings: int
) -> None:
    """A lease of both makes two batches, and two messages."""
    found = [f"https://shop.example/l/{n}" for n in range(listings)]
    add(engine, [new_page(crawl, url, Kind.LISTING, priority=11) for url in found])
    with_losses(engine, crawl, 45 - listings, losses)
    for _ in range(3):
        assert 0 <= len(dispatched(engine)) <= SUSPECT_LEASES[losses]
        assert_suspects_apart(engine)
    assert len(leases_by_losses(engine)) == SUSPECT_LEASES[losses]


@pytest.mark.parametrize("room", range(BATCHES_AHEAD + 1))
def test_a_broker_that_is_nearly_full_gets_no_more_suspects_than_it_has_room_for(
    engine: sa.Engine, crawl: tuple[int, int], room: int
) -> None:
    found = [f"https://shop.example/l/{n}" for n in range(5)]
    add(engine, [new_page(crawl, url, Kind.LISTING, priority=11) for url in found])
    with_losses(engine, crawl, 60, 2)
    assert len(dispatch(engine, SETTINGS, lambda _: BATCHES_AHEAD - room)) <= room
    assert_suspects_apart(engine)


@pytest.mark.parametrize("losses", [0, 1, *SUSPECT_BATCH])
def test_only_the_last_suspects_are_to_be_worked_on_alone(
    engine: sa.Engine, crawl: tuple[int, int], losses: int
) -> None:
    with_losses(engine, crawl, 5, losses)
    sent = messages(engine)
    wanted = {"alone": True} if losses == LOSSES_MAX - 1 else {}
    assert sent and all(
        message.kwargs == {"lease_id": message.kwargs["lease_id"]} | wanted for message in sent
    )


@pytest.fixture
def engines(database: str) -> Iterator[list[sa.Engine]]:
    made = [make_engine(database) for _ in range(2)]
    yield made
    for engine in made:
        engine.dispose()


def test_two_dispatchers_at_once_lease_no_suspect_twice_nor_too_many(
    engine: sa.Engine, crawl: tuple[int, int], engines: list[sa.Engine]
) -> None:
    for losses in SUSPECT_BATCH:
        with_losses(engine, crawl, 60, losses, host=f"h{losses}.example")
    sent: list[UUID] = []
    for _ in range(4):
        at_once([lambda own=own: sent.extend(dispatched(own)) for own in engines])  # type: ignore[misc]
        assert_suspects_apart(engine)
    assert len(sent) == len(set(sent)) == len(leases_by_losses(engine))


# --- what losses mean
# ------------------------------------------------------------------------------------------------


def test_an_unread_message_makes_no_suspect(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(5)])
    for _ in range(LOSSES_MAX + 1):
        (lease_id,) = dispatched(engine)
        expire(engine, lease_id)
        reap(engine, SETTINGS)
    assert rows(engine, "SELECT DISTINCT status, losses FROM pages") == [("due", 0)]


def test_an_unread_message_of_a_suspect_costs_nothing_either(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    with_losses(engine, crawl, 1, LOSSES_MAX - 1)
    (lease_id,) = dispatched(engine)
    expire(engine, lease_id)
    reap(engine, SETTINGS)
    assert rows(engine, "SELECT status, losses FROM pages") == [("due", LOSSES_MAX - 1)]


NOT_BEGUN = [Outcome.DEFERRED, Outcome.PROXY_FAILED, Outcome.NO_PROXY, Outcome.NO_LOGIN]


@pytest.mark.parametrize(
    ("outcome", "verdict", "left"),
    [
        *((outcome, Verdict(Status.DUE, 0.0, charged=False), 3) for outcome in NOT_BEGUN),
        (Outcome.TIMEOUT, AGAIN, 0),
        (Outcome.FETCHED, OK, 0),
        (Outcome.CRASHED, AGAIN, 0),
    ],
)
def test_only_a_page_that_was_tried_is_cleared(
    engine: sa.Engine, crawl: tuple[int, int], outcome: Outcome, verdict: Verdict, left: int
) -> None:
    """One that was handed back unbegun has proved nothing: it may still be the cause."""
    with_losses(engine, crawl, 1, 3)
    (lease_id,) = dispatched(engine)
    lease = claimed(engine, lease_id)
    assert lease is not None
    store(
        engine,
        crawl,
        [PageResult(lease.pages[0].id, crawl[1], lease_id, outcome, verdict)],
    )
    assert rows(engine, "SELECT losses FROM pages") == [(left,)]


def test_a_suspect_that_is_handed_back_again_and_again_goes_on(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """A worker that stops while it holds suspects does not make it forget, or lose, them."""
    with_losses(engine, crawl, 3, 4)
    back = Verdict(Status.DUE, 0.0, charged=False)
    for _ in range(6):
        (lease_id,) = dispatched(engine)
        lease = claimed(engine, lease_id)
        assert lease is not None
        store(
            engine,
            crawl,
            [PageResult(p.id, crawl[1], lease_id, Outcome.DEFERRED, back) for p in lease.pages],
        )
    assert rows(engine, "SELECT DISTINCT status, losses, attempts FROM pages") == [("due", 4, 0)]
    assert rows(engine, "SELECT FROM leases") == []


def test_a_page_dies_with_its_fifth_worker_and_not_before(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, KILLER)])
    for loss in range(1, LOSSES_MAX + 1):
        one_dies(engine, messages(engine))
        status = "dead" if loss == LOSSES_MAX else "due"
        assert rows(engine, "SELECT status, losses, attempts, host_attempts FROM pages") == [
            (status, loss, 0, 0)
        ]
    assert dispatched(engine) == []
    assert rows(engine, "SELECT dead, product_done FROM crawls") == [(1, 1)]


def test_a_death_next_to_others_is_never_the_last(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """Its worker did other things as well: any of them may have been the cause."""
    add(engine, [new_page(crawl, KILLER)])
    for loss in range(1, 3 * LOSSES_MAX):
        one_dies(engine, messages(engine), honest=False)
        query = "SELECT status, losses, last_outcome, error FROM pages"
        assert rows(engine, query) == [("due", min(loss, LOSSES_MAX - 1), "worker_lost", None)]
    one_dies(engine, messages(engine))
    assert rows(engine, "SELECT status, losses FROM pages") == [("dead", LOSSES_MAX)]


def test_leases_that_run_out_together_are_judged_apart(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    """One reap finds a lease of every sort: unread, of a worker that had others, and of one that
    had not."""
    with_losses(engine, crawl, 1, LOSSES_MAX - 1, "alone.example")
    for queue in ("residential", "browser"):
        add(engine, [new_page(crawl, f"https://{queue}.example/p", queue=queue)])
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET losses = :n"), {"n": LOSSES_MAX - 1})
    for message in messages(engine):
        if message.queue != "browser":
            assert (
                claimed(engine, lease_of(message), alone=message.queue == "datacenter") is not None
            )
        expire(engine, lease_of(message))
    reap(engine, SETTINGS)
    assert rows(engine, "SELECT queue, status, losses FROM pages ORDER BY 1") == [
        ("browser", "due", LOSSES_MAX - 1),
        ("datacenter", "dead", LOSSES_MAX),
        ("residential", "due", LOSSES_MAX - 1),
    ]
    assert rows(engine, "SELECT dead, product_done FROM crawls") == [(1, 1)]


def test_the_next_crawl_suspects_no_page(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, url) for url in urls(3)])
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET losses = 4"))
        connection.execute(sa.text("UPDATE crawls SET status = 'completed'"))
    second = open_crawl(engine, a_site(rate="unlimited", revisit="0s"))
    add(engine, [new_page(second, url) for url in urls(3)])
    assert rows(engine, "SELECT DISTINCT status, losses FROM pages") == [("due", 0)]
    with engine.begin() as connection:
        assert suspect_groups(connection, []) == []
