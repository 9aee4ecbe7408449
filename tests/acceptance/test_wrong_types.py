"""Keys of a wrong type in the broker: before a worker starts, while it runs, and again and again.
They are moved aside, no process ends, and crawls complete."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.processes import said

PRODUCTS = 300
SEPARATOR = "\x06\x16"
QUEUES = [
    f"{queue}{SEPARATOR}{level}" if level else queue
    for queue in ("residential", "datacenter", "coordinator")
    for level in range(10)
]
TABLES = [
    f"_kombu.{kind}.{exchange}"
    for kind in ("binding", "binding_permanent")
    for exchange in ("celery.pidbox", "reply.celery.pidbox", "celeryev", "residential")
]
BOOKS = ["unacked", "unacked_index", "unacked_mutex", "_kombu.binding_deadlines"]
KEYS = QUEUES + TABLES + BOOKS
MOVED = "wrong type, moved to"
SPOILERS: list[Callable[[redis.Redis, str], object]] = [
    lambda client, key: client.set(key, f"of {key}"),
    lambda client, key: client.lpush(key, f"of {key}"),
    lambda client, key: client.hset(key, "of", key),
    lambda client, key: client.sadd(key, f"of {key}"),
    lambda client, key: client.zadd(key, {f"of {key}": 1}),
    lambda client, key: client.xadd(key, {"of": key}),
    lambda client, key: client.setbit(key, 7, 1),
]
RIGHT = {**dict.fromkeys(QUEUES, b"list"), **dict.fromkeys(TABLES, b"set")} | dict(
    zip(BOOKS, (b"hash", b"zset", b"string", b"zset"), strict=True)
)


@pytest.fixture
def client(environment: Settings) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(environment.valkey_url) as client:
        yield client


@pytest.fixture
def shop(sample_shop: Callable[..., SampleShop]) -> SampleShop:
    return sample_shop("--products", str(PRODUCTS))


def spoil(client: redis.Redis, key: str, rng: random.Random) -> None:
    """Replaces a key by something of another type, at once for its readers."""
    with client.pipeline() as pipe:
        pipe.delete(key)
        rng.choice(SPOILERS)(pipe, key)
        pipe.execute()


@contextmanager
def spoiling(client: redis.Redis, seed: int) -> Iterator[list[str]]:
    """Spoils one key after another, each kind many times."""
    rng, done, spoiled = random.Random(seed), threading.Event(), []

    def run() -> None:
        while not done.wait(0.02):
            key = rng.choice(KEYS)
            spoil(client, key, rng)
            spoiled.append(key)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield spoiled
    finally:
        done.set()
        thread.join()


def assert_right_types(client: redis.Redis) -> None:
    """What workers use has its type again."""
    wrong = {key: client.type(key) for key in QUEUES + BOOKS[:2]}
    assert all(kind in (b"none", RIGHT[key]) for key, kind in wrong.items()), wrong


def test_before_the_start(
    environment: Settings, client: redis.Redis, run: Commands, engine: sa.Engine, shop: SampleShop
) -> None:
    for key in KEYS:
        client.set(key, f"of {key}") if key != "unacked_mutex" else client.lpush(key, f"of {key}")
    processes = run.coordinator(), run.worker("residential,datacenter")
    for process in processes:
        run.until_ready(process)
    crawl = run.crawl(engine, shop.name)
    assert (crawl["status"], crawl["products_new"]) == ("completed", PRODUCTS)
    assert_right_types(client)
    for key in QUEUES:
        assert client.get(f"scraper:aside:{key}") == f"of {key}".encode(), key
    for process in processes:
        log = run.log(process)
        assert "Traceback" not in log, log
        assert said(run, process, MOVED) <= 2, "a line a minute"
        assert run.end(process) == 0
    assert any(said(run, process, MOVED) for process in processes)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_in_mid_run_and_again(
    environment: Settings,
    client: redis.Redis,
    run: Commands,
    engine: sa.Engine,
    shop: SampleShop,
    pool: str,
) -> None:
    options = ["-P", "solo"] if pool == "solo" else []
    processes = (
        run.coordinator(),
        run.worker("residential,datacenter", *options),
        run.worker("residential,datacenter"),
    )
    for process in processes:
        run.until_ready(process)
    with spoiling(client, seed=len(pool)) as spoiled:
        until(lambda: set(spoiled) >= set(KEYS), 60)
        crawl = run.crawl(engine, shop.name)
    assert (crawl["status"], crawl["products_new"]) == ("completed", PRODUCTS)
    # Once it is over, the same processes work as before.
    crawl = run.crawl(engine, shop.name, "--refetch")
    assert crawl["status"] == "completed"
    assert all(process.poll() is None for process in processes), run.logs()
    assert_right_types(client)
    for process in processes:
        log = run.log(process)
        assert "Traceback" not in log, log
        assert run.end(process) == 0


def test_giant_keys_of_the_fleet_in_mid_run(
    client: redis.Redis, run: Commands, engine: sa.Engine, shop: SampleShop
) -> None:
    """What the fleet knows of a host and its proxies is forged all the time, at any size: the crawl
    completes, and workers do not grow."""
    host, digits = shop.url.partition("//")[2], "9" * 300_000
    keys = [f"scraper:{kind}:{host}" for kind in ("host", "places", "proxies")]
    keys += ["scraper:proxies:*", f"scraper:robots:{shop.url}"]
    forgers: list[Callable[[redis.Redis, str], object]] = [
        lambda client, key: client.set(key, digits),
        lambda client, key: client.hset(key, digits, "1"),
        lambda client, key: client.hset(key, "forged", digits),
        lambda client, key: client.hset(key, mapping=dict.fromkeys(range(30_000), "9:9")),
    ]
    processes = (
        run.coordinator(),
        run.worker("residential,datacenter", env={"SCRAPER_MEMORY_MAX_MB": "400"}),
    )
    for process in processes:
        run.until_ready(process)
    done, forged = threading.Event(), 0

    def forge() -> None:
        nonlocal forged
        while not done.wait(0.05):
            key = keys[forged % len(keys)]
            client.delete(key)
            forgers[forged % len(forgers)](client, key)
            forged += 1

    thread = threading.Thread(target=forge)
    thread.start()
    until(lambda: forged >= len(keys) * len(forgers), 60)
    crawl = run.crawl(engine, shop.name)
    done.set()
    thread.join()
    assert (crawl["status"], crawl["products_new"]) == ("completed", PRODUCTS)
    for process in processes:
        log = run.log(process)
        assert "Traceback" not in log and len(log) < 100_000, log
        assert run.end(process) == 0
