"""How a worker ends, and what it must not do any more: a real worker, a real database, a shop that
does as the signal says."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from scraper.coordinator.dispatch import dispatch
from scraper.coordinator.finish import finish
from scraper.coordinator.reap import reap
from scraper.crawl import context
from scraper.frontier import crawls, leases, sites
from scraper.infra.database import connect_watched
from scraper.politeness.host_limiter import HostLimiter
from scraper.results.transaction import PageResult, StoredGroup
from scraper.rules.verdict import RetryPolicy
from scraper.settings import Settings
from scraper.worker import keeper as keeper_module
from scraper.worker import process as worker_module
from scraper.worker import writer as writer_module
from scraper.worker.batch import Batch
from scraper.worker.process import Worker
from scraper.worker.writer import FAILURES_MAX, GROUP_PAGES
from tests.support.making import a_site, add, expire, new_page, open_crawl, rows, standing
from tests.support.shops.odd_shop import Answer, OddShop, Page, drip, hang, product, redirect
from tests.support.waiting import GENEROUS_S, until

NEVER_S = 3600.0
AWAY = OperationalError("COMMIT", None, psycopg.OperationalError("the connection is lost"))


class Bench:
    """One site on the shop, its pages in the frontier, and workers that are handed its leases."""

    def __init__(self, engine: sa.Engine, settings: Settings, shop: OddShop) -> None:
        self.engine, self.settings, self.shop = engine, settings, shop
        # pages of `behind` answer once it is open
        self.door = threading.Event()
        self.workers: list[Worker] = []
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def site(self, **more: object) -> tuple[int, int]:
        values = {
            "start": self.shop.url("/"),
            "allow_private": True,
            "robots": "ignore",
            "revisit": "0s",
        }
        self.crawl = open_crawl(
            self.engine, a_site(**(values | {"rate": "unlimited", "concurrency": 4} | more))
        )
        return self.crawl

    def pages(self, count: int, page: Page | None = None, prefix: str = "/p") -> list[str]:
        """Adds product pages; `page` is what each answers, by default a good product."""
        targets = [f"{prefix}/{n}" for n in range(count)]
        found = [
            self.shop.serve(
                target, page if page is not None else product(target, f"Product {target}").encode()
            )
            for target in targets
        ]
        add(self.engine, [new_page(self.crawl, url) for url in found])
        return targets

    def behind(self, answer: Answer) -> Page:
        async def waits(writer: asyncio.StreamWriter) -> None:
            while not self.door.is_set():
                await asyncio.sleep(0.01)
            writer.write(answer.raw())
            await writer.drain()

        return waits

    def worker(self, **settings: object) -> Worker:
        made = Worker(self.settings.model_copy(update=settings), lambda _: None)
        self.workers.append(made)
        return made

    def leases(self) -> list[UUID]:
        return [
            UUID(m.kwargs["lease_id"]) for m in dispatch(self.engine, self.settings, lambda _: 0)
        ]

    def begin(
        self, worker: Worker, lease_ids: list[UUID] | None = None, *, alone: bool = False
    ) -> None:
        """Each lease on a thread of its own, as Celery's pool has it."""

        def work(lease_id: UUID) -> None:
            try:
                worker.settle_lease(lease_id, alone=alone)
            except BaseException as error:
                self.errors.append(error)

        for lease_id in self.leases() if lease_ids is None else lease_ids:
            thread = threading.Thread(target=work, args=(lease_id,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def ended(self) -> None:
        """Waits until every `work` has returned."""
        for thread in self.threads:
            thread.join(GENEROUS_S)
            assert not thread.is_alive(), "work() does not return"
        self.threads.clear()
        assert self.errors == []

    def asked(self) -> Counter[str]:
        return Counter(self.shop.asked())

    def close(self) -> None:
        self.door.set()
        while self.workers:
            worker = self.workers.pop()
            # a keeper's statement may be under way
            idle = worker._loop.shutdown_default_executor()
            asyncio.run_coroutine_threadsafe(idle, worker._loop).result(GENEROUS_S)
            worker.close()

    def found(self) -> dict[object, object]:
        return standing(self.engine)

    def uncharged(self) -> bool:
        """Every page that is due is as if it had never been tried."""
        query = "SELECT DISTINCT attempts, host_attempts, losses FROM pages WHERE status = 'due'"
        return rows(self.engine, query) in ([], [(0, 0, 0)])

    def finish(self) -> None:
        """Another worker does the rest, once the first ones are gone."""
        self.close()
        second = self.worker()
        for _ in range(20):
            self.begin(second)
            self.ended()
            if self.found().keys() <= {"ok", "unchanged"}:
                return
        pytest.fail(f"pages are left over: {self.found()}")


@pytest.fixture
def bench(engine: sa.Engine, environment: Settings) -> Iterator[Bench]:
    with OddShop() as shop:
        made = Bench(engine, environment, shop)
        yield made
        made.close()


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Says how often workers made from now on look after their leases."""
    return lambda seconds: monkeypatch.setattr(keeper_module, "KEEPER_S", seconds)


# --- a stop
# ----------------------------------------------------------------------------------------------------


def test_a_worker_that_stops_ends_what_it_has_begun_and_no_more(bench: Bench) -> None:
    bench.site()
    targets = bench.pages(20, bench.behind(Answer(product("x", "A").encode())))
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    worker.stop()
    until(lambda: all(batch.handed_back for batch in worker.keeper.batches.values()))
    bench.door.set()
    bench.ended()
    assert bench.found() == {"ok": 4, "due": 16}
    assert bench.uncharged()
    assert rows(bench.engine, "SELECT fetches, retries, ok FROM crawls") == [(4, 0, 4)]
    assert rows(bench.engine, "SELECT FROM leases") == []
    assert worker.lost == 0
    bench.finish()
    assert bench.asked() == Counter(targets), "nothing is fetched twice"


def test_what_is_not_begun_goes_back_at_once_although_every_lane_is_busy(bench: Bench) -> None:
    """The pages under way answer much later; other workers can have the rest."""
    bench.site()
    targets = bench.pages(20, bench.behind(Answer(product("x", "A").encode())))
    worker = bench.worker(stop_s=NEVER_S)
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    worker.stop()
    until(lambda: bench.found() == {"due": 16, "leased": 4})
    assert bench.uncharged()
    (again,) = bench.leases()
    other = bench.worker()
    bench.begin(other, [again])
    bench.door.set()
    bench.ended()
    assert bench.found().keys() <= {"ok", "unchanged"}
    assert bench.asked() == Counter(targets)
    assert rows(bench.engine, "SELECT fetches, retries FROM crawls") == [(20, 0)]


def test_every_batch_goes_back_at_once(bench: Bench) -> None:
    bench.site()
    bench.settings = bench.settings.model_copy(update={"batch_pages": 10})
    bench.pages(40, bench.behind(Answer(product("x", "A").encode())))
    worker = bench.worker(stop_s=NEVER_S)
    bench.begin(worker)
    until(lambda: len(worker.keeper.batches) == 4 and len(bench.asked()) == 4)
    worker.stop()
    until(lambda: bench.found() == {"due": 36, "leased": 4})
    bench.door.set()
    bench.ended()
    assert bench.found() == {"due": 36, "ok": 4}
    assert bench.uncharged()
    assert rows(bench.engine, "SELECT FROM leases") == []
    assert all(limiter.pending == 0 for limiter in worker.services.limiters._limiters.values())


def test_a_worker_that_stops_begins_no_new_batch(bench: Bench) -> None:
    """A message that was read before, and one that comes later."""
    bench.site()
    bench.pages(5)
    worker = bench.worker()
    lease_ids = bench.leases()
    worker.stop()
    worker.stop()
    bench.begin(worker, lease_ids)
    bench.ended()
    assert (bench.asked(), bench.found(), bench.uncharged()) == (Counter(), {"due": 5}, True)
    assert rows(bench.engine, "SELECT FROM leases") == []


@pytest.mark.parametrize("misdeed", [hang, drip], ids=["no answer", "an endless body"])
def test_a_page_that_does_not_end_goes_back_when_the_time_is_up(
    bench: Bench, misdeed: Page
) -> None:
    bench.site()
    bench.pages(2)
    bench.pages(3, misdeed, "/hangs")
    worker = bench.worker(stop_s=0.2)
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 5 and bench.found().get("ok") == 2)
    worker.stop()
    bench.ended()
    assert bench.found() == {"ok": 2, "due": 3}
    assert bench.uncharged()
    assert rows(bench.engine, "SELECT DISTINCT last_outcome FROM pages WHERE status = 'due'") == [
        ("deferred",)
    ]
    assert rows(bench.engine, "SELECT fetches, retries FROM crawls") == [(2, 0)]
    assert rows(bench.engine, "SELECT FROM leases") == []
    assert worker.lost == 0


def test_a_page_that_waits_for_its_hosts_turn_goes_back_too(bench: Bench) -> None:
    bench.site(rate="1/m")
    bench.pages(2)
    bench.settings = bench.settings.model_copy(update={"horizon_s": 30.0})
    with bench.engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET rate_per_s = NULL"))  # dispatch gives it both
    worker = bench.worker(stop_s=0.1, horizon_s=NEVER_S)
    bench.begin(worker)
    until(lambda: bench.found().get("ok") == 1)
    worker.stop()
    bench.ended()
    assert (bench.found(), bench.uncharged(), worker.lost) == ({"ok": 1, "due": 1}, True, 0)


def test_cutting_pages_short_leaves_the_hosts_turns_free(bench: Bench) -> None:
    """What was given up holds neither a turn nor a place in the queue for one."""
    bench.site()
    bench.pages(6, hang, "/hangs")
    worker = bench.worker(stop_s=0.1)
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    worker.stop()
    bench.ended()
    assert all(limiter.is_idle for limiter in worker.services.limiters._limiters.values())


# --- zombies
# ---------------------------------------------------------------------------------------------------------


def no_longer_ours(worker: Worker) -> None:
    """As after a freeze: by its own clock the lease may be another worker's, and no reply has said so
    yet."""
    for batch in worker.keeper.batches.values():
        batch.lease_expires_at = 0.0


def test_a_worker_that_was_frozen_begins_nothing(
    bench: Bench, keeper: Callable[[float], None]
) -> None:
    keeper(NEVER_S)
    bench.site()
    targets = bench.pages(20, bench.behind(Answer(product("x", "A").encode())))
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    no_longer_ours(worker)
    bench.door.set()
    bench.ended()
    assert bench.asked().total() == 4
    assert bench.found() == {"ok": 4, "due": 16}, (
        "the lease was still ours after all: what was fetched counts"
    )
    assert bench.uncharged()
    bench.finish()
    assert bench.asked() == Counter(targets)


def test_a_worker_that_was_frozen_follows_no_redirect(
    bench: Bench, keeper: Callable[[float], None]
) -> None:
    keeper(NEVER_S)
    bench.site()
    target = bench.shop.serve("/target", product("x", "A").encode())
    bench.pages(3, bench.behind(Answer(status=302, headers=(f"Location: {target}",))))
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 3)
    no_longer_ours(worker)
    bench.door.set()
    bench.ended()
    assert bench.asked()["/target"] == 0
    assert (bench.found(), bench.uncharged()) == ({"due": 3}, True)


class Slots:
    """Every wait for a slot of a host that has a rate lasts until it is let on, but for the first
    `free` ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int = 0) -> None:
        self.free, self.waiting, self.door = free, 0, threading.Event()
        take = HostLimiter._wait_for_slot

        async def waits(limiter: HostLimiter, latest: float) -> None:
            if self.free:
                self.free -= 1
            else:
                self.waiting += 1
                while not self.door.is_set():
                    await asyncio.sleep(0.01)
            await take(limiter, latest)

        monkeypatch.setattr(HostLimiter, "_wait_for_slot", waits)


def frozen_meanwhile(bench: Bench, slots: Slots) -> None:
    """A worker that comes to the slot it has to wait for, and then is frozen for longer than its
    lease lasts."""
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: slots.waiting)
    no_longer_ours(worker)
    slots.door.set()
    bench.ended()
    assert (bench.found(), bench.uncharged()) == ({"due": 1}, True)
    assert rows(bench.engine, "SELECT fetches FROM crawls") == [(0,)]


def test_a_page_is_not_asked_for_after_the_wait_for_its_slot(
    bench: Bench, keeper: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper(NEVER_S)
    bench.site(rate="100/s")
    bench.pages(1)
    frozen_meanwhile(bench, Slots(monkeypatch))
    assert bench.asked() == {}


def test_nor_is_robots_txt(
    bench: Bench, keeper: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper(NEVER_S)
    bench.site(rate="100/s", robots="obey")
    bench.pages(1)
    frozen_meanwhile(bench, Slots(monkeypatch))
    assert bench.asked() == {}


def test_nor_is_where_a_page_redirects_to(
    bench: Bench, keeper: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper(NEVER_S)
    bench.site(rate="100/s")
    target = bench.shop.serve("/target", product("x", "A").encode())
    (page,) = bench.pages(1, redirect(target))
    frozen_meanwhile(bench, Slots(monkeypatch, free=1))
    assert bench.asked() == {page: 1}


def test_nor_is_robots_txt_of_the_host_it_redirects_to(
    bench: Bench, keeper: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another port is another host, with rules of its own."""
    keeper(NEVER_S)
    with OddShop() as elsewhere:
        bench.site(rate="100/s", robots="obey", hosts=[elsewhere.url().removeprefix("http://")])
        target = elsewhere.serve("/target", product("x", "A").encode())
        (page,) = bench.pages(1, redirect(target))
        frozen_meanwhile(bench, Slots(monkeypatch, free=2))
        assert elsewhere.asked() == []
    assert bench.asked() == {"/robots.txt": 1, page: 1}


def test_one_that_was_not_frozen_asks_for_the_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the four above rely on: these are the waits there are."""
    slots = Slots(monkeypatch)
    with OddShop() as elsewhere:
        bench.site(rate="100/s", robots="obey", hosts=[elsewhere.url().removeprefix("http://")])
        target = elsewhere.serve("/target", product("x", "A").encode())
        (page,) = bench.pages(1, redirect(target))
        bench.begin(bench.worker())
        until(lambda: slots.waiting)
        slots.door.set()
        bench.ended()
        assert elsewhere.asked() == ["/robots.txt", "/target"]
    assert bench.asked() == {"/robots.txt": 1, page: 1}
    assert slots.waiting == 4
    assert bench.found() == {"ok": 1}


def test_one_that_lost_its_lease_begins_nothing_and_changes_nothing(
    bench: Bench, keeper: Callable[[float], None]
) -> None:
    """Its pages are with another worker: what it still fetches is not used."""
    keeper(0.05)
    bench.site()
    targets = bench.pages(12, bench.behind(Answer(product("x", "A").encode())))
    worker = bench.worker()
    lease_ids = bench.leases()
    bench.begin(worker, lease_ids)
    until(lambda: len(bench.asked()) == 4)
    (batch,) = worker.keeper.batches.values()
    # as if it had not looked after it for long
    with bench.engine.begin() as connection:
        connection.execute(sa.text("UPDATE leases SET until = now() - interval '1 second'"))
        connection.execute(sa.text("DELETE FROM leases"))
    until(lambda: batch.lost)
    bench.door.set()
    bench.ended()
    assert bench.asked().total() == 4
    assert rows(bench.engine, "SELECT count(*), min(status), max(status) FROM pages") == [
        (12, "due", "due")
    ]
    assert rows(bench.engine, "SELECT FROM products") == []
    assert rows(bench.engine, "SELECT fetches, ok FROM crawls") == [(0, 0)]
    bench.finish()
    assert bench.asked().keys() == set(targets)


def test_a_lease_is_prolonged_while_its_worker_lives(
    bench: Bench, keeper: Callable[[float], None]
) -> None:
    """Even one that ran out, as long as it was not taken back."""
    keeper(0.05)
    bench.site()
    bench.pages(2, bench.behind(Answer(product("x", "A").encode())))
    worker = bench.worker()
    lease_ids = bench.leases()
    bench.begin(worker, lease_ids)
    until(lambda: len(bench.asked()) == 2)
    for _ in range(3):
        expire(bench.engine, lease_ids[0])
        until(
            lambda: rows(
                bench.engine, "SELECT FROM leases WHERE until > now() + interval '40 seconds'"
            )
        )
    bench.door.set()
    bench.ended()
    assert bench.found() in ({"ok": 2}, {"ok": 1, "unchanged": 1})


# --- stuck
# -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stuck_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Says for how long a batch has to stand still to count as stuck."""
    settings = Settings()
    usual_s = settings.horizon_s + 2 * settings.page_timeout_s
    return lambda seconds: monkeypatch.setattr(keeper_module, "STUCK_MARGIN_S", seconds - usual_s)


def test_a_batch_that_makes_no_progress_is_given_up(
    bench: Bench, keeper: Callable[[float], None], stuck_after: Callable[[float], None]
) -> None:
    stuck_after(0.5)
    keeper(0.1)
    bench.site()
    targets = bench.pages(6, hang, "/hangs")
    worker = bench.worker()
    bench.begin(worker)
    bench.ended()
    assert worker.keeper.batches == {} and worker.keeper.tasks == {}
    ((lease_id, was),) = rows(bench.engine, "SELECT id, until FROM leases")
    time.sleep(0.5)
    assert rows(bench.engine, "SELECT until FROM leases") == [(was,)], (
        "nobody prolongs it: it runs out"
    )
    expire(bench.engine, lease_id)  # type: ignore[arg-type]
    reap(bench.engine, bench.settings)
    assert rows(bench.engine, "SELECT DISTINCT status, losses FROM pages") == [("due", 1)]
    assert worker.lost == 0
    for target in targets:
        bench.shop.serve(target, product(target, "A").encode())
    stuck_after(600)
    bench.begin(worker)
    bench.ended()
    assert bench.found() == {"ok": 6}, "the worker itself works on"


def test_a_batch_that_was_given_up_leaves_no_page_pending(
    bench: Bench, keeper: Callable[[float], None], stuck_after: Callable[[float], None]
) -> None:
    """Neither those under way nor those not begun: a gate that believed in them would never be
    swept, and would reserve turns for no page. Another batch's pages of the same host stay counted.
    """
    keeper(0.1)
    bench.site()
    bench.pages(20, hang, "/hangs")
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    (limiter,) = worker.services.limiters._limiters.values()
    assert limiter.pending == 20
    stuck_after(0.5)
    bench.ended()
    assert (limiter.pending, limiter.is_idle) == (0, True)
    until(lambda: not worker.services.limiters._limiters)


def test_a_batch_that_moves_is_left_alone(
    bench: Bench, keeper: Callable[[float], None], stuck_after: Callable[[float], None]
) -> None:
    """It takes longer than the limit in all, but is never idle for so long."""
    keeper(0.05)
    bench.site(rate="8/s", concurrency=1)
    bench.pages(16)
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: bench.found().get("ok"))
    stuck_after(1.5)
    bench.ended()
    assert bench.found() == {"ok": 16}


# --- paused sites
# ----------------------------------------------------------------------------------------------------


def pause(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        assert sites.pause_site(connection, "shop")


def resume(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        assert sites.resume_site(connection, "shop")


def test_a_batch_of_a_paused_site_is_handed_back_unfetched(bench: Bench) -> None:
    """Its message was on the way when the site was paused."""
    bench.site()
    targets = bench.pages(10)
    worker = bench.worker()
    lease_ids = bench.leases()
    pause(bench.engine)
    bench.begin(worker, lease_ids)
    bench.ended()
    assert (bench.asked(), bench.found(), bench.uncharged()) == (Counter(), {"due": 10}, True)
    assert rows(bench.engine, "SELECT fetches, retries FROM crawls") == [(0, 0)]
    assert rows(bench.engine, "SELECT FROM leases") == []
    assert bench.leases() == []
    resume(bench.engine)
    bench.finish()
    assert bench.asked() == Counter(targets)


def test_a_pause_stops_a_batch_in_the_middle(bench: Bench, keeper: Callable[[float], None]) -> None:
    keeper(0.05)
    bench.site()
    targets = bench.pages(20, bench.behind(Answer(product("x", "A").encode())))
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    pause(bench.engine)
    until(lambda: all(batch.inactive_crawls for batch in worker.keeper.batches.values()))
    bench.door.set()
    bench.ended()
    assert bench.asked().total() == 4
    assert bench.found() == {"ok": 4, "due": 16}, "what was under way is stored, for it was fetched"
    assert bench.uncharged()
    resume(bench.engine)
    bench.finish()
    assert bench.asked() == Counter(targets)


def test_one_sites_pause_is_not_anothers_in_the_same_batch(
    bench: Bench, keeper: Callable[[float], None], engine: sa.Engine
) -> None:
    keeper(NEVER_S)
    bench.site()
    paused = bench.pages(5, prefix="/paused")
    values = {
        "start": bench.shop.url("/"),
        "allow_private": True,
        "robots": "ignore",
        "rate": "unlimited",
    }
    bench.crawl = open_crawl(engine, a_site("other", revisit="0s", **values))
    others = bench.pages(5, prefix="/other")
    (lease_id,) = bench.leases()
    pause(engine)
    bench.begin(bench.worker(), [lease_id])
    bench.ended()
    assert bench.asked() == Counter(others)
    assert len(
        rows(engine, "SELECT FROM pages WHERE status = 'due' AND url LIKE '%/paused/%'")
    ) == len(paused)


# --- crawls without a context
# ----------------------------------------------------------------------------------------


def broken_definition(engine: sa.Engine, name: str = "shop") -> None:
    """As if it had been written by a version that knew more."""
    with engine.begin() as connection:
        query = "UPDATE crawls SET definition = '{}' WHERE site_id = (SELECT id FROM sites WHERE name = :name)"
        connection.execute(sa.text(query), {"name": name})


def test_a_crawl_whose_definition_cannot_be_used_ends(bench: Bench) -> None:
    """Its pages crash, each for itself and on its own account, and no worker is lost with them."""
    bench.site()
    bench.pages(4)
    broken_definition(bench.engine)
    worker = bench.worker()
    limit = RetryPolicy().attempts_max
    for number in range(1, limit + 1):
        bench.begin(worker)
        bench.ended()
        status = "dead" if number == limit else "due"
        query = "SELECT DISTINCT status, last_outcome, attempts, host_attempts, losses FROM pages"
        assert rows(bench.engine, query) == [(status, "crashed", number, 0, 0)]
        assert rows(bench.engine, "SELECT FROM leases") == []
        with bench.engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET not_before = now()"))
    assert "definition cannot be used" in str(rows(bench.engine, "SELECT error FROM pages")[0][0])
    finish(bench.engine, bench.crawl[1])
    assert rows(
        bench.engine, "SELECT status, dead, product_done, fetches, retries FROM crawls"
    ) == [("failed", 4, 4, 4 * limit, 4 * (limit - 1))]
    assert bench.asked() == {}
    assert all(limiter.pending == 0 for limiter in worker.services.limiters._limiters.values())


def test_a_crawl_whose_code_is_gone_ends_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its definition is fine; what it names is not there any more, or raises when it is compiled."""

    def gone(*_: object) -> None:
        raise ImportError("no module named shop_functions")

    monkeypatch.setattr(context, "make_context", gone)
    bench.site()
    bench.pages(4)
    worker = bench.worker()
    for _ in range(RetryPolicy().attempts_max):
        bench.begin(worker)
        bench.ended()
        with bench.engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET not_before = now()"))
    assert rows(bench.engine, "SELECT DISTINCT status, last_outcome, losses FROM pages") == [
        ("dead", "crashed", 0)
    ]
    assert rows(bench.engine, "SELECT FROM leases") == []


def test_one_crawls_broken_definition_is_not_anothers_trouble(bench: Bench) -> None:
    """They share a batch, and a host."""
    bench.site()
    bench.pages(5, prefix="/broken")
    values = {
        "start": bench.shop.url("/"),
        "allow_private": True,
        "robots": "ignore",
        "rate": "unlimited",
    }
    bench.crawl = open_crawl(bench.engine, a_site("other", revisit="0s", **values))
    others = bench.pages(5, prefix="/other")
    broken_definition(bench.engine)
    (lease_id,) = bench.leases()
    bench.begin(bench.worker(), [lease_id])
    bench.ended()
    assert bench.asked() == Counter(others)
    assert rows(bench.engine, "SELECT last_outcome, count(*) FROM pages GROUP BY 1 ORDER BY 1") == [
        ("crashed", 5),
        ("fetched", 5),
    ]


def test_pages_whose_crawl_cannot_be_read_just_now_come_back_uncharged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL went away between the claim and the definition."""
    bench.site()
    targets = bench.pages(4)
    worker = bench.worker()
    definition, tries = crawls.read_definition, []

    def away_at_first(connection: sa.Connection, crawl_id: int) -> object:
        tries.append(crawl_id)
        if len(tries) == 1:
            raise AWAY
        return definition(connection, crawl_id)

    monkeypatch.setattr(crawls, "read_definition", away_at_first)
    bench.begin(worker)
    bench.ended()
    assert (bench.asked(), bench.found(), bench.uncharged()) == (Counter(), {"due": 4}, True)
    query = "SELECT DISTINCT last_outcome, not_before > now() FROM pages"
    assert rows(bench.engine, query) == [("deferred", True)], (
        "not at once: it may be away for a while"
    )
    assert rows(bench.engine, "SELECT fetches FROM crawls") == [(0,)]
    with bench.engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET not_before = now()"))
    bench.begin(worker)
    bench.ended()
    assert bench.asked() == Counter(targets), "what failed is not remembered"
    assert bench.found() == {"ok": 4}


# --- alone
# -----------------------------------------------------------------------------------------------------------


def claimed_by(engine: sa.Engine) -> dict[object, object]:
    return dict(rows(engine, "SELECT id, alone FROM leases WHERE started_at IS NOT NULL"))  # type: ignore[arg-type]


def test_a_batch_that_must_be_alone_has_no_other_next_to_it(bench: Bench) -> None:
    """It waits for what is under way, and what comes after it waits for it."""
    bench.site()
    bench.settings = bench.settings.model_copy(update={"batch_pages": 2})
    bench.pages(6, bench.behind(Answer(product("x", "A").encode())))
    first, alone, last = bench.leases()
    worker = bench.worker()
    bench.begin(worker, [first])
    until(lambda: len(bench.asked()) == 2)
    bench.begin(worker, [alone], alone=True)
    until(lambda: worker._batch_lock._exclusive == 1)
    bench.begin(worker, [last])
    seen: list[dict[object, object]] = []
    claim = leases.claim_lease

    def noted(connection: sa.Connection, lease_id: UUID, *args: object, **more: object) -> object:
        got = claim(connection, lease_id, *args, **more)  # type: ignore[arg-type]
        seen.append(
            dict(
                connection.execute(
                    sa.text("SELECT id, alone FROM leases WHERE started_at IS NOT NULL")
                ).all()
            )
        )  # type: ignore[arg-type]
        return got

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "claim_lease", noted)
        assert claimed_by(bench.engine) == {first: False}
        bench.door.set()
        bench.ended()
    assert seen == [{alone: True}, {last: False}]
    assert bench.found().keys() <= {"ok", "unchanged"}


def test_one_that_cannot_be_alone_soon_goes_back_unclaimed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease runs out unread: no page's fault."""
    monkeypatch.setattr(worker_module, "ALONE_WAIT_S", 0.05)
    bench.site()
    bench.settings = bench.settings.model_copy(update={"batch_pages": 2})
    bench.pages(4, bench.behind(Answer(product("x", "A").encode())))
    first, alone = bench.leases()
    worker = bench.worker()
    bench.begin(worker, [first])
    until(lambda: len(bench.asked()) == 2)
    worker.settle_lease(alone, alone=True)
    assert claimed_by(bench.engine) == {first: False}
    expire(bench.engine, alone)
    reap(bench.engine, bench.settings)
    assert rows(bench.engine, "SELECT DISTINCT losses FROM pages") == [(0,)]
    assert bench.found() == {"due": 2, "leased": 2}
    bench.door.set()
    bench.ended()
    bench.finish()


# --- a store that is away
# --------------------------------------------------------------------------------------------


def products(engine: sa.Engine) -> list[tuple[object, ...]]:
    return rows(engine, "SELECT external_id, data, version FROM products ORDER BY external_id")


@contextmanager
def out_of_reach(engine: sa.Engine) -> Iterator[None]:
    """The database, for this engine: its connections are closed once they are asked for, and new
    ones go to where no server listens. (Closed at once, the pool would never close one that another
    thread has just then.)"""

    def nowhere(
        _dialect: object, _record: object, _args: object, params: dict[str, object]
    ) -> None:
        params.update(host="127.0.0.1", port=1)

    def broken(*_: object) -> None:
        raise sa.exc.DisconnectionError

    # The first listener that connects is the last one that is asked.
    sa.event.remove(engine, "do_connect", connect_watched)
    sa.event.listen(engine, "do_connect", nowhere)
    sa.event.listen(engine, "checkout", broken)
    yield
    sa.event.remove(engine, "checkout", broken)
    sa.event.remove(engine, "do_connect", nowhere)
    sa.event.listen(engine, "do_connect", connect_watched)


def test_what_was_fetched_while_the_database_was_away_is_stored_when_it_is_back(
    bench: Bench, keeper: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it was tried."""
    keeper(0.1)
    monkeypatch.setattr(writer_module, "BACKOFF_MAX_S", 0.05)
    bench.site()
    targets = bench.pages(60, bench.behind(Answer(product("x", "A").encode())))
    for target in targets:
        bench.shop.serve(
            target, bench.behind(Answer(product(target, f"Product {target}").encode()))
        )
    worker = bench.worker()
    settle, tries = worker.services.settler._settle_group, []

    def counted(pages: Sequence[PageResult]) -> StoredGroup:
        tries.append(len(pages))
        return settle(pages)

    monkeypatch.setattr(worker.services.settler, "_settle_group", counted)
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    with out_of_reach(worker.engine):
        bench.door.set()
        until(lambda: bench.asked().total() == len(targets) and len(tries) > 2 * FAILURES_MAX)
        assert rows(bench.engine, "SELECT FROM products") == []
    bench.ended()
    assert bench.asked() == Counter(targets)
    assert bench.found() == {"ok": 60}
    assert [(data, version) for _, data, version in products(bench.engine)] == [
        ({"title": f"Product {target}"}, 1) for target in sorted(targets)
    ]
    assert rows(
        bench.engine, "SELECT fetches, retries, products_new, product_done FROM crawls"
    ) == [(60, 0, 60, 60)]
    assert (worker.lost, rows(bench.engine, "SELECT FROM leases")) == (0, [])


def test_a_commit_whose_answer_was_lost_is_not_counted_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection broke after PostgreSQL had committed: the group comes once more, and the fence
    knows it."""
    bench.site()
    bench.pages(30)
    worker = bench.worker()
    settle, failed = worker.services.settler._settle_group, []

    def breaks(pages: object) -> object:
        stored = settle(pages)  # type: ignore[arg-type]
        if not failed:
            failed.append(len(pages))  # type: ignore[arg-type]
            raise AWAY
        return stored

    monkeypatch.setattr(worker.services.settler, "_settle_group", breaks)
    bench.begin(worker)
    bench.ended()
    assert failed
    assert rows(bench.engine, "SELECT fetches, ok, products_new, product_done FROM crawls") == [
        (30, 30, 30, 30)
    ]
    assert bench.found() == {"ok": 30}


def test_a_worker_that_must_end_without_a_database_gives_up_and_counts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "GIVE_UP_S", 0.3)
    bench.site()
    bench.pages(7, hang, "/hangs")
    bench.pages(3)
    worker = bench.worker(stop_s=0.1)

    def away(_: object) -> None:
        raise AWAY

    monkeypatch.setattr(worker.services.settler, "_settle_group", away)
    bench.begin(worker)
    until(lambda: sum(count for target, count in bench.asked().items() if "hangs" in target) == 4)
    worker.stop()
    bench.ended()
    assert worker.lost == 10
    assert bench.found() == {"leased": 10}
    with bench.engine.begin() as connection:
        connection.execute(sa.text("UPDATE leases SET until = now()"))
    reap(bench.engine, bench.settings)
    assert rows(bench.engine, "SELECT DISTINCT status, losses FROM pages") == [("due", 1)]


def test_the_database_comes_back_before_the_worker_gives_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.site()
    bench.pages(GROUP_PAGES + 20)
    # The pages under way are answered in this time, and the third try comes after it.
    worker = bench.worker(stop_s=1.0)
    settle, tries = worker.services.settler._settle_group, Counter[str]()

    def away_at_first(pages: object) -> object:
        tries["all"] += 1
        if tries["all"] < 3:
            raise AWAY
        return settle(pages)  # type: ignore[arg-type]

    monkeypatch.setattr(worker.services.settler, "_settle_group", away_at_first)
    bench.begin(worker)
    until(lambda: tries["all"])
    worker.stop()
    bench.ended()
    assert worker.lost == 0
    assert bench.found().keys() <= {"ok", "due"}
    assert bench.found()["ok"] == bench.asked().total()
    assert bench.uncharged()


@contextmanager
def read_only(bench: Bench, engine: sa.Engine) -> Iterator[None]:
    """As after a switchover: sessions that exist stay read-only when new ones are not."""
    database = engine.url.database
    ends = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    )
    alter = f"ALTER DATABASE {database}"
    with psycopg.connect(_libpq(bench.engine), autocommit=True) as operator:
        operator.execute(f"{alter} SET default_transaction_read_only = on")
        operator.execute(ends)
        yield
        operator.execute("SET default_transaction_read_only = off")
        operator.execute(f"{alter} RESET default_transaction_read_only")


@contextmanager
def revoked(bench: Bench, _: sa.Engine) -> Iterator[None]:
    with psycopg.connect(_libpq(bench.engine), autocommit=True) as operator:
        operator.execute(f"REVOKE INSERT, UPDATE ON products FROM {_limited(bench.engine)}")
        yield
        operator.execute(f"GRANT ALL ON products TO {_limited(bench.engine)}")


@contextmanager
def statement_taken(_: Bench, engine: sa.Engine) -> Iterator[None]:
    """As behind a pooler: another session has prepared a statement by that name."""
    taken = "DO 'BEGIN EXECUTE ''PREPARE _pg3_0 AS SELECT 1''; EXCEPTION WHEN OTHERS THEN END'"
    with _on_each_transaction(engine, taken):
        yield


@contextmanager
def deallocated(_: Bench, engine: sa.Engine) -> Iterator[None]:
    """The server forgets what psycopg has prepared, whenever a transaction begins."""
    with _on_each_transaction(engine, "DO 'BEGIN EXECUTE ''DEALLOCATE ALL''; END'"):
        yield


@contextmanager
def _on_each_transaction(engine: sa.Engine, statement: str) -> Iterator[None]:
    def execute(connection: sa.Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.prepare_threshold = 0
        driver.execute(statement, prepare=False)

    sa.event.listen(engine, "begin", execute)
    yield
    sa.event.remove(engine, "begin", execute)


def _limited(engine: sa.Engine) -> str:
    """A role for this database alone: roles are the whole server's."""
    return f"limited_{engine.url.database}"


def _libpq(engine: sa.Engine) -> str:
    url = engine.url.set(drivername="postgresql")
    return url.render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("trouble", "event", "tries_min"),
    [
        (read_only, "PostgreSQL is read-only", 2 * FAILURES_MAX),
        (revoked, "PostgreSQL denies access", 2 * FAILURES_MAX),
        (statement_taken, "PostgreSQL has another session's prepared statement", 2 * FAILURES_MAX),
        # A new connection is good for one transaction: prolonging the leases meets this.
        (deallocated, "PostgreSQL has lost a prepared statement", 0),
    ],
)
def test_what_is_not_the_pages_is_not_charged_to_it(
    own_database: str,
    bench: Bench,
    keeper: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[Bench, sa.Engine], AbstractContextManager[None]],
    event: str,
    tries_min: int,
) -> None:
    """Its results wait until they can be stored, and its connections are replaced."""
    keeper(0.1)
    monkeypatch.setattr(writer_module, "BACKOFF_MAX_S", 0.05)
    role = _limited(bench.engine)
    with bench.engine.begin() as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN",
            f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}",
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}",
        ):
            connection.execute(sa.text(statement))
    bench.settings = bench.settings.model_copy(
        update={"database_url": own_database.replace("://scraper@", f"://{role}@")}
    )
    bench.site()
    targets = bench.pages(60)
    for target in targets:
        answer = Answer(product(target, f"Product {target}").encode())
        bench.shop.serve(target, bench.behind(answer))
    worker = bench.worker()
    tries = []
    settle = worker.services.settler._settle_group

    def counted(pages: Sequence[PageResult]) -> StoredGroup:
        tries.append(len(pages))
        return settle(pages)

    monkeypatch.setattr(worker.services.settler, "_settle_group", counted)
    bench.begin(worker)
    until(lambda: len(bench.asked()) == 4)
    with capture_logs() as logs, trouble(bench, worker.engine):
        until(lambda: tries_min or event in {line["event"] for line in logs})
        bench.door.set()
        until(lambda: len(tries) >= tries_min)
    bench.ended()
    assert event in {line["event"] for line in logs}
    assert not {"group lost", "page rejected by the database"} & {line["event"] for line in logs}
    assert bench.asked() == Counter(targets)
    assert bench.found() == {"ok": 60}
    assert len(products(bench.engine)) == 60
    assert rows(bench.engine, "SELECT fetches, retries, dead FROM crawls") == [(60, 0, 0)]
    assert (worker.lost, rows(bench.engine, "SELECT FROM leases")) == (0, [])
    bench.close()
    with bench.engine.begin() as connection:
        connection.execute(sa.text(f"DROP OWNED BY {role}"))
        connection.execute(sa.text(f"DROP ROLE {role}"))


def test_one_row_that_postgresql_rejects_is_dead_and_the_others_are_stored(
    own_database: str, bench: Bench
) -> None:
    with bench.engine.begin() as connection:
        connection.execute(
            sa.text("ALTER TABLE products ADD CHECK (data ->> 'title' <> 'Product /p/7')")
        )
    bench.site()
    bench.pages(30)
    bench.begin(bench.worker())
    bench.ended()
    assert bench.found() == {"ok": 29, "dead": 1}
    assert rows(bench.engine, "SELECT error FROM pages WHERE status = 'dead'") == [
        ("the database rejects what was extracted: CheckViolation",)
    ]


# --- the batch's own rule
# --------------------------------------------------------------------------------------------


def test_over_says_when_nothing_may_be_begun() -> None:
    async def work() -> None:
        now = asyncio.get_running_loop().time()
        page = type("Page", (), {"crawl_id": 7})()
        rng = random.Random(1)
        for _ in range(200):
            reasons = {
                "handed_back": rng.random() < 0.2,
                "lost": rng.random() < 0.2,
                "inactive_crawls": {7} if rng.random() < 0.2 else {8},
                "lease_expires_at": now + rng.choice((-1.0, 60.0)),
            }
            batch = Batch(None, deadline_at=now - 1, pending=None, **reasons)  # type: ignore[arg-type]
            expected = (
                reasons["handed_back"]
                or reasons["lost"]
                or reasons["inactive_crawls"] == {7}
                or reasons["lease_expires_at"] < now  # type: ignore[operator]
            )
            assert batch.is_dropped(page) == expected

    asyncio.run(work())


# --- how far it is from a page's task to its socket


def awaiting(worker: Worker) -> list[str]:
    """The coroutines that wait for each other, from a host's page task down to what it waits for."""

    async def look() -> list[list[str]]:
        chains = []
        for task in asyncio.all_tasks():
            chain, awaited = [], task.get_coro()
            while awaited is not None:
                code = getattr(awaited, "cr_code", None) or getattr(awaited, "ag_code", None)
                if code is not None:
                    chain.append(code.co_qualname)
                awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
            chains.append(chain)
        return [chain for chain in chains if any("_settle_host_pages" in name for name in chain)]

    (chain,) = asyncio.run_coroutine_threadsafe(look(), worker._loop).result(GENEROUS_S)
    return chain


def test_few_coroutines_lie_between_a_page_and_its_socket(bench: Bench) -> None:
    """Each costs every page, and readers of a traceback: the project's, and those of the HTTP client."""
    bench.site(concurrency=1)
    bench.pages(1, bench.behind(Answer(b"late")), "/late")
    worker = bench.worker()
    bench.begin(worker)
    until(lambda: bench.asked()["/late/0"])
    chain = awaiting(worker)
    assert 5 <= len(chain) <= 11, chain
    bench.door.set()
    bench.ended()
