"""A bad network between the processes and their servers: it delays, breaks off, halves and
swallows. Nothing is lost or doubled, no process ends, and no page is charged for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.plugins.embedded import postgres, valkey
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, Crawl
from tests.support.servers.bad_network import BadNetwork

DELAY_S = 0.1
# `make chaos HOLE_S=120` has longer ones.
HOLE_S = float(os.environ.get("HOLE_S", "35"))
PAUSE_S = 0.3
QUEUES = "residential,datacenter"
# The sample shop has a few links that lead nowhere.
FAULTY = """
SELECT url, status, last_outcome, attempts, host_attempts, losses FROM pages
 WHERE status <> 'gone' AND (attempts > 1 OR host_attempts > 0 OR last_outcome <> 'fetched')
"""


class Networks(NamedTuple):
    postgres: BadNetwork
    redis: BadNetwork


@pytest.fixture
def networks(
    environment: Settings, servers: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Networks]:
    """The environment's URLs lead through two networks."""
    name = sa.make_url(environment.postgres_url).database
    number = environment.valkey_url.rpartition("=")[2]
    with (
        BadNetwork(postgres.socket(servers)) as to_postgres,
        BadNetwork(valkey.socket(servers)) as to_redis,
    ):
        monkeypatch.setenv(
            "DATABASE_URL", f"postgresql://scraper@127.0.0.1:{to_postgres.port}/{name}"
        )
        monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{to_redis.port}/{number}")
        settings_module.load.cache_clear()
        yield Networks(to_postgres, to_redis)


@pytest.fixture
def crawl(
    networks: Networks,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> Crawl:
    run.env["SCRAPER_BATCH_PAGES"] = "20"
    return Crawl(run, engine, sample_shop(*SHOP))


def assert_unharmed(crawl: Crawl) -> None:
    crawl.until_completed(240)
    crawl.assert_exact()
    assert crawl.rows(FAULTY) == []
    for process in (crawl.coordinator, crawl.worker):
        assert process.poll() is None, crawl.run.log(process)
        assert crawl.run.end(process) == 0
    assert "Traceback" not in crawl.run.logs(whole=True)


def test_every_round_trip_takes_long(networks: Networks, crawl: Crawl) -> None:
    for network in networks:
        network.delay_s = DELAY_S
    assert_unharmed(crawl)


def test_connections_break(networks: Networks, crawl: Crawl) -> None:
    crawl.until_fetched(0.05)
    broken = 0
    for _ in range(8):
        for network in networks:
            broken += network.reset()
            time.sleep(PAUSE_S)
            broken += network.halve()
            time.sleep(PAUSE_S)
    assert broken > 8
    assert_unharmed(crawl)


@pytest.mark.timeout(600 + 2 * HOLE_S)
@pytest.mark.parametrize("name", Networks._fields)
def test_a_network_swallows_everything(networks: Networks, crawl: Crawl, name: str) -> None:
    """For longer than any timeout; connections of that time stay silent for good."""
    network: BadNetwork = getattr(networks, name)
    crawl.run.until_ready(crawl.run.worker(QUEUES))
    crawl.until_fetched(0.2)
    assert network.open_hole(loses=True) > 0
    time.sleep(HOLE_S)
    network.close_hole()
    assert_unharmed(crawl)


@pytest.mark.timeout(600 + 2 * HOLE_S)
def test_a_network_swallows_all_of_one_machine(
    networks: Networks, crawl: Crawl, environment: Settings
) -> None:
    """Another machine fetches what the first one had, which works alone after it."""
    run = crawl.run
    direct = {"DATABASE_URL": environment.postgres_url, "REDIS_URL": environment.valkey_url}
    others = [run.coordinator(env=direct), run.worker(QUEUES, env=direct)]
    for process in others:
        run.until_ready(process)
    crawl.until_fetched(0.1)
    closed_at = time.monotonic() + HOLE_S
    for network in networks:
        assert network.open_hole(loses=True) > 0
    crawl.until_completed(120)
    time.sleep(max(0.0, closed_at - time.monotonic()))
    for network in networks:
        network.close_hole()
    for process in others:
        assert run.end(process) == 0
    crawl.assert_exact()
    again = run.crawl(crawl.engine, "demo", "--refetch")
    assert (again["status"], again["dead"]) == ("completed", 0)
    assert crawl.rows(FAULTY) == []
    for process in (crawl.coordinator, crawl.worker):
        assert process.poll() is None, run.log(process)
        assert run.end(process) == 0
    assert "Traceback" not in run.logs(whole=True)
