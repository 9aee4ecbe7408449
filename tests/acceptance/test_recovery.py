"""What a crawl survives: a killed worker, an emptied broker, a worker that stops, a rolling
restart, a pause. The products are the truth every time, and the counters are the pages table's."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, assert_counted, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, SLOWER, Crawl


@pytest.fixture
def crawl(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop], tmp_path: Path
) -> Crawl:
    return Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))


def test_a_killed_worker(crawl: Crawl) -> None:
    crawl.until_fetched(0.3)
    crawl.run.end(crawl.worker, signal.SIGKILL)
    held = crawl.rows("SELECT count(*) FROM leased_pages")[0][0]
    assert isinstance(held, int) and held > 0, "it held pages"
    crawl.run.worker("residential,datacenter")
    crawl.until_completed()
    crawl.assert_exact()
    products = [target for _, target, _ in crawl.shop.log() if target.startswith("/p/")]
    assert 0 <= len(products) - len(set(products)) <= held, "only what was under way is asked again"
    assert crawl.rows("SELECT count(*) FROM pages WHERE losses > 0") == [(0,)], (
        "no page is suspected any more"
    )


def test_an_emptied_broker(crawl: Crawl, valkey_url: str) -> None:
    """Twice: messages, budgets and cached robots.txt are gone. (FLUSHDB: other tests share the
    server.)"""
    with redis.Redis.from_url(valkey_url) as client:
        for share in (0.2, 0.6):
            crawl.until_fetched(share)
            client.flushdb()
            crawl.shop.options(latency_ms=500)
    crawl.shop.options(latency_ms=20)
    crawl.until_completed()
    crawl.assert_exact()
    assert crawl.worker.poll() is None and crawl.coordinator.poll() is None


def test_a_worker_that_stops(any_broker: Settings, crawl: Crawl) -> None:
    """It hands its pages back and ends; another one finishes without waiting for a lease."""
    crawl.until_fetched(0.2)
    assert crawl.run.end(crawl.worker) == 0
    assert crawl.rows("SELECT count(*) FROM leases WHERE started_at IS NOT NULL") == [(0,)]
    before = len(crawl.shop.log())
    time.sleep(1)
    assert len(crawl.shop.log()) == before
    crawl.worker = crawl.run.worker("residential,datacenter")
    crawl.until_completed()
    crawl.assert_exact()
    assert crawl.rows("SELECT count(*) FROM pages WHERE last_outcome = 'worker_lost'") == [(0,)]
    products = [target for _, target, _ in crawl.shop.log() if target.startswith("/p/")]
    assert len(products) == len(set(products)), "nothing is asked twice"


def test_a_rolling_restart(crawl: Crawl) -> None:
    """Every worker is replaced while the crawl runs, more than once: nothing is asked twice."""
    workers = [crawl.worker, crawl.run.worker("residential,datacenter")]
    for share in (0.1, 0.2, 0.3):
        crawl.shop.options(latency_ms=1200)
        crawl.until_fetched(share)
        # The crawl lasts while workers start.
        crawl.shop.options(latency_ms=3000)
        crawl.worker = crawl.run.worker("residential,datacenter")
        crawl.run.until_ready(crawl.worker)
        assert crawl.run.end(workers.pop(0)) == 0
        workers.append(crawl.worker)
    crawl.shop.options(latency_ms=20)
    crawl.until_completed()
    crawl.assert_exact()
    asked = [target for _, target, _ in crawl.shop.log()]
    assert len(asked) == len(set(asked))
    assert crawl.rows(
        "SELECT count(*) FROM pages WHERE last_outcome = 'worker_lost' OR losses > 0"
    ) == [(0,)]


def test_a_pause(crawl: Crawl) -> None:
    """Within seconds nothing is asked any more; resumed, the crawl goes on where it was."""
    crawl.shop.options(latency_ms=800)
    crawl.until_fetched(0.1)
    assert crawl.run.scraper("sites", "pause", "demo").stdout == "demo: paused\n"
    until(crawl.quiet, 15, every_s=1.5)
    assert crawl.progress()["phase"] == "paused"
    assert "# paused sites  demo\n" in crawl.run.scraper("status").stdout
    until(
        lambda: crawl.rows("SELECT count(*) FROM leases WHERE started_at IS NOT NULL") == [(0,)], 15
    )
    assert "resume" in crawl.run.scraper("crawl", "demo", code=1).stderr
    assert crawl.run.scraper("sites", "pause", "demo").stdout == "demo: was paused already\n"
    assert crawl.run.scraper("sites", "resume", "demo").stdout == "demo: resumed\n"
    crawl.shop.options(latency_ms=20)
    crawl.until_completed()
    crawl.assert_exact()
    products = [target for _, target, _ in crawl.shop.log() if target.startswith("/p/")]
    assert len(products) == len(set(products)), "nothing is asked twice"
    assert "no site named" in crawl.run.scraper("sites", "pause", "nobody", code=2).stderr


def test_a_crawl_that_is_stopped(crawl: Crawl) -> None:
    crawl.shop.options(latency_ms=800)
    crawl.until_fetched(0.1)
    crawl.run.scraper("stop", str(crawl.id))
    until(crawl.quiet, 15, every_s=1.5)
    ended = crawl.progress()
    assert ended["status"] == "stopped" and ended["dropped"]
    assert_counted(crawl.engine, ended)
    assert crawl.rows("SELECT count(*) FROM leases") == [(0,)]
    stored = crawl.rows("SELECT count(*) FROM products")
    time.sleep(1)
    assert crawl.rows("SELECT count(*) FROM products") == stored == [(ended["products_new"],)]


def test_a_coordinator_that_dies(crawl: Crawl) -> None:
    """Beat and coordinator are killed together; another pair goes on where they were."""
    crawl.until_fetched(0.2)
    crawl.run.end(crawl.coordinator, signal.SIGKILL)
    crawl.run.coordinator()
    crawl.until_completed()
    crawl.assert_exact()
