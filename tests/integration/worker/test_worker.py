"""A whole crawl in one process, its messages passed by hand: doubled, lost, late and out of order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
import sqlalchemy as sa

from scraper.domain import Message, Outcome
from scraper.results.transaction import PageResult
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
