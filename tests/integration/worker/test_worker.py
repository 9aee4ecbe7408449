"""A whole crawl in one process, its messages passed by hand: doubled, lost, late and out of order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import httpx
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from scraper import registry
from scraper.crawl import context
from scraper.domain import Message, Outcome
from scraper.plugin import Hooks, WorkerPart
from scraper.results.transaction import PageResult
from scraper.worker.host import SlotLoad
from scraper.worker.writer import Pending
from tests.support.broker import Broker
from tests.support.making import rows


def check(engine: sa.Engine, shop: str) -> None:
    """Products equal the truth, counters equal the pages table, nothing is left over."""
    truth = {row["id"]: row for row in httpx.get(f"{shop}/_control/truth").json()}
    stored = dict(rows(engine, "SELECT external_id, data FROM products"))
    assert stored.keys() == truth.keys()
    for key, data in stored.items():
        assert data["name"] == truth[key]["name"]  # type: ignore[index]
    ((total, done, *counted),) = rows(
        engine,
        "SELECT product_total + discovery_total, product_done + discovery_done, ok, unchanged, gone, dead, invalid "
        "FROM crawls WHERE status = 'completed'",
    )
    found = dict(rows(engine, "SELECT status, count(*) FROM pages GROUP BY status"))
    assert counted == [
        found.get(status, 0) for status in ("ok", "unchanged", "gone", "dead", "invalid")
    ]
    assert total == done == sum(found.values())  # type: ignore[arg-type]
    assert rows(engine, "SELECT FROM leases") == []


def test_every_message_once(crawl: Callable[..., Broker], engine: sa.Engine, shop: str) -> None:
    crawl(lambda message: [message]).run()
    check(engine, shop)


def test_every_message_twice(crawl: Callable[..., Broker], engine: sa.Engine, shop: str) -> None:
    httpx.post(f"{shop}/_visit")
    httpx.delete(f"{shop}/_control/log")
    crawl(lambda message: [message, message]).run()
    check(engine, shop)
    fetches, retries = rows(engine, "SELECT fetches, retries FROM crawls")[0]
    pages = rows(engine, "SELECT count(*) FROM pages")[0][0]
    assert fetches - retries == pages  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(3))
def test_messages_lost_doubled_and_out_of_order(
    crawl: Callable[..., Broker], engine: sa.Engine, shop: str, seed: int
) -> None:
    """Invariants 1 to 3: whatever the broker does, the crawl completes, exactly."""
    rng = random.Random(seed)
    broker = crawl(lambda message: [message] * rng.choice((0, 1, 1, 2)))
    handle = broker.handle

    def shuffled(message: Message) -> None:
        rng.shuffle(broker.waiting)
        handle(message)

    broker.handle = shuffled  # type: ignore[method-assign]
    broker.run()
    check(engine, shop)


def test_a_stopping_worker_hands_back_what_it_has_not_begun(
    crawl: Callable[..., Broker], engine: sa.Engine, shop: str
) -> None:
    broker = crawl(lambda message: [message])
    broker.worker.stop()
    broker.handle(broker.waiting.pop(0))
    while broker.waiting and not rows(engine, "SELECT FROM pages WHERE last_outcome = 'deferred'"):
        broker.handle(broker.waiting.pop(0))
    assert rows(engine, "SELECT DISTINCT status, attempts FROM pages") == [("due", 0)]
    assert rows(engine, "SELECT FROM leases") == []
    assert rows(engine, "SELECT fetches FROM crawls") == [(0,)]


def test_one_request_at_a_time_and_robots_do_not_block_each_other(
    crawl: Callable[..., Broker], engine: sa.Engine, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """robots.txt is asked for by a page that holds the host's only turn, while others wait at its
    gate. No page goes back untried, not even once."""
    broker = crawl(lambda message: [message], concurrency=1)
    writer, outcomes = broker.worker.services.writer, Counter[Outcome]()
    put = writer.put

    def counted(page: PageResult, pending: Pending) -> None:
        outcomes[page.outcome] += 1
        put(page, pending)

    monkeypatch.setattr(writer, "put", counted)
    broker.run()
    check(engine, shop)
    assert outcomes[Outcome.FETCHED] and not outcomes[Outcome.DEFERRED]


class BrokenHooks(Hooks):
    def crawl_extra(self, connection: sa.Connection, *_: object) -> object:
        return connection.execute(sa.text("SELECT FROM no_such_table"))


class KeepingHooks(Hooks):
    def crawl_extra(self, *_: object) -> object:
        return True


class BrokenPart(WorkerPart):
    async def keep(self, *_: object) -> object:
        raise KeyError("keep")

    async def end_batch(self, *_: object) -> None:
        raise KeyError("end_batch")

    def before_settling(self, *_: object) -> Sequence[PageResult]:
        raise KeyError("before_settling")

    def after_settling(self, *_: object) -> None:
        raise KeyError("after_settling")

    def slot_loads(self) -> Sequence[SlotLoad]:
        raise KeyError("slot_loads")


def test_a_plugin_that_fails_is_named_and_loses_no_page(
    crawl: Callable[..., Broker], engine: sa.Engine, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = {"broken": BrokenHooks(), "keeping": KeepingHooks(), **registry.plugin_hooks()}
    monkeypatch.setattr(context, "plugin_hooks", lambda: hooks)
    broker = crawl(lambda message: [message])
    services = broker.worker.services
    services.parts["keeping"] = BrokenPart(services.host)
    with capture_logs() as logs:
        broker.run()
    check(engine, shop)
    failed = {
        (line["plugin"], line["method"]) for line in logs if line["event"] == "plug-in failed"
    }
    called = ["keep", "before_settling", "after_settling", "end_batch"]
    assert failed >= {("broken", "crawl_extra"), *(("keeping", method) for method in called)}
    assert not {"group not stored", "group lost"} & {line["event"] for line in logs}
    assert services.slot_loads() == []


class RefusedPart(WorkerPart):
    """What a plug-in does before settling fails: first since no connection is free, then since
    PostgreSQL refuses its values."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.calls = 0

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        self.calls += 1
        if self.calls == 1:
            raise sa.exc.TimeoutError("QueuePool limit reached")
        with self.engine.connect() as connection:
            connection.execute(sa.text("SELECT CAST('x' AS int)"))
        return pages


def test_values_of_a_plugin_that_postgresql_refuses_lose_no_page(
    crawl: Callable[..., Broker], engine: sa.Engine, shop: str
) -> None:
    broker = crawl(lambda message: [message])
    part = broker.worker.services.parts["refused"] = RefusedPart(engine)
    with capture_logs() as logs:
        broker.run()
    check(engine, shop)
    failed = [line for line in logs if line["event"] == "plug-in failed"]
    assert len(failed) == part.calls - 1 > 0, "a busy server is asked again"
