"""Messages through a real broker: plain queues that survive its emptying, and a worker that starts,
works and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import redis
import sqlalchemy as sa
from kombu import pools

from scraper.coordinator.plan import open_now
from scraper.domain import Message
from scraper.frontier import sites
from scraper.runtime import fleet
from scraper.settings import Settings
from tests.support.machine import tunes_memory
from tests.support.making import a_site, rows
from tests.support.started import has_ended
from tests.support.waiting import GENEROUS_S, until

# between a queue and its priority, in kombu's names of Redis lists
SEPARATOR = "\x06\x16"


@pytest.fixture
def broker(environment: Settings) -> Iterator[redis.Redis]:
    """The broker that this process's app now speaks to, empty."""
    from scraper.celery import app

    before = app.conf.broker_url

    def use(url: str) -> None:
        app.conf.broker_url = url
        pools.reset()
        app._pool = None
        app.amqp._producer_pool = None

    use(environment.celery_broker_url)
    with redis.Redis.from_url(environment.valkey_url) as client:
        yield client
    use(before)


def messages_in(broker: redis.Redis, queue: str, priority: int = 0) -> list[dict[str, object]]:
    key = f"{queue}{SEPARATOR}{priority}" if priority else queue
    return [json.loads(raw) for raw in broker.lrange(key, 0, -1)]  # type: ignore[union-attr]


@contextmanager
def worker(log: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "scraper",
        "worker",
        "-P",
        "solo",
        "-Q",
        "coordinator",
        *more,
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_messages_go_to_plain_queues(broker: redis.Redis) -> None:
    """Without an exchange: what names one vanishes silently once the broker has been emptied."""
    from scraper.runtime.send import send

    send(
        [
            Message("finish", "coordinator", {"crawl_id": 7}),
            Message("dispatch", "coordinator", expires_s=5.0),
        ]
    )
    first, second = reversed(messages_in(broker, "coordinator", 0))
    assert first["properties"]["delivery_info"] == {"exchange": "", "routing_key": "coordinator"}  # type: ignore[index]
    assert first["headers"]["task"] == "scraper.tasks.finish"  # type: ignore[index]
    assert (first["headers"]["expires"], second["headers"]["expires"] is None) == (None, False)  # type: ignore[index]
    assert first["content-type"] == "application/json"


def test_urgent_messages_lie_in_front(broker: redis.Redis) -> None:
    """Redis: 0 is served first, and each priority has a list of its own."""
    from scraper.runtime.send import queue_depth, send

    send(
        [
            Message("fetch_products", "residential.eu", {"lease_id": "x"}, priority=n)
            for n in (19, 10, 0)
        ]
    )
    assert [len(messages_in(broker, "residential.eu", list_)) for list_ in (0, 3, 4, 9)] == [
        1,
        0,
        1,
        1,
    ]
    assert queue_depth("residential.eu") == 3


def test_depth_counts_and_an_unknown_queue_is_empty(broker: redis.Redis) -> None:
    from scraper.runtime.send import queue_depth, send

    assert queue_depth("nobody-has-named-it") == 0
    send([Message("fetch_products", "datacenter", {"lease_id": str(n)}) for n in range(5)])
    assert queue_depth("datacenter") == 5
    broker.flushdb()
    assert queue_depth("datacenter") == 0
    send([])
    assert queue_depth("datacenter") == 0


@pytest.mark.slow
def test_messages_arrive_also_after_the_broker_was_emptied(
    broker: redis.Redis, environment: Settings, engine: sa.Engine, tmp_path: Path
) -> None:
    """Invariant 1: a worker that was there before, and messages sent again."""
    from scraper.runtime.send import queue_depth, send

    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site("one"), a_site("two")])

    def crawl(name: str) -> None:
        opened = open_now(engine, name)
        send(opened.messages)
        query = f"SELECT FROM crawls WHERE id = {opened.crawl_id} AND status = 'running'"
        until(lambda: len(rows(engine, query)) == 1, f"the crawl of {name} is discovered")
        leased = f"SELECT FROM pages JOIN leased_pages ON page_id = id WHERE crawl_id = {opened.crawl_id}"
        until(lambda: len(rows(engine, leased)) == 1, f"the start page of {name} is dispatched")

    with worker(tmp_path / "worker.log") as process:
        crawl("one")
        until(lambda: queue_depth("datacenter") == 1, "the batch is sent")
        broker.flushdb()
        assert queue_depth("datacenter") == 0
        crawl("two")
        until(lambda: queue_depth("datacenter") == 1, "the batch is sent")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(GENEROUS_S) == 0, (tmp_path / "worker.log").read_text()


@tunes_memory
def test_threads_of_a_worker_share_the_memory_that_they_free(
    broker: redis.Redis, environment: Settings, tmp_path: Path
) -> None:
    """A thread's own memory is seen by what glibc reserves for it: 64 MB that it may not use yet."""
    log = tmp_path / "worker.log"
    with worker(log) as process:
        until(lambda: b" ready." in log.read_bytes(), "the worker is ready")
        until(lambda: psutil.Process(process.pid).num_threads() > 1, "it has threads")
        maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in maps if line.split()[1] == "---p"]
    assert max(int(end, 16) - int(begin, 16) for begin, end in ranges) < 32 * 1024 * 1024


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        (
            {"DATABASE_URL": "postgresql://ann:s3cret@127.0.0.1:1/shop"},
            ["127.0.0.1:1", "DATABASE_URL"],
        ),
        ({"REDIS_URL": "redis://:s3cret@127.0.0.1:1/0"}, ["127.0.0.1:1", "REDIS_URL"]),
        ({"DATABASE_URL": "", "REDIS_URL": ""}, ["scraper up", "DATABASE_URL"]),
    ],
    ids=["postgresql", "redis", "embedded"],
)
@pytest.mark.slow
def test_a_worker_without_a_server_ends_and_says_why(
    environment: Settings, variables: dict[str, str], named: list[str]
) -> None:
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "scraper",
        "worker",
        "-P",
        "solo",
        "-Q",
        "datacenter",
    ]
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 3, done.stderr
    for word in named:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr + done.stdout


@pytest.mark.slow
def test_beat_ends_with_the_worker_that_was_killed(environment: Settings, tmp_path: Path) -> None:
    """`worker -B` runs beat as a child; killed without a chance to end it, the worker must not
    leave it beating."""
    command = fleet.worker_command(["coordinator"], name="killed", beat=True)
    with (tmp_path / "log").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        until(lambda: len(psutil.Process(process.pid).children()) > 0, "beat started")
        # until beat has taken note of its parent
        time.sleep(2)
        (beat,) = psutil.Process(process.pid).children()
    finally:
        process.kill()
        process.wait()
    until(lambda: has_ended(beat), "beat ended")
