"""A process that can write to the broker can write anything: no message ends a process, none is left, and
the same processes do what they are there for as if nothing had been."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from itertools import chain, islice
from time import monotonic, sleep
from typing import Any, cast
from uuid import uuid4

import amqp
import httpx
import pytest
import redis
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.plugins.functions.client import Client
from scraper.plugins.metrics.settings import targets_dir
from scraper.process.dropped_messages import LINE_EVERY_S
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.processes import said
from tests.support import called, invented
from tests.support.servers.flower import Flower

QUEUES = ("datacenter", "residential", "coordinator")
DROPPED = "dropped foreign messages"
SEPARATOR = "\x06\x16"
PRODUCTS = 40


class Fleet:
    """A coordinator and a worker, which are to be the same processes to the end."""

    def __init__(self, run: Commands, settings: Settings) -> None:
        self.run, self.settings = run, settings
        self.began = monotonic()
        self.coordinator = run.coordinator()
        self.worker = run.worker("residential,datacenter", env={"SCRAPER_METRICS_PORT": "0"})
        self.processes = self.coordinator, self.worker
        for process in self.processes:
            run.until_ready(process)

    def assert_alive(self) -> None:
        assert all(process.poll() is None for process in self.processes), self.run.logs()

    def assert_works(self, shop: SampleShop, engine: sa.Engine, dropped_min: int) -> None:
        """A crawl and a call, then a warm end."""
        crawl = self.run.crawl(engine, shop.name)
        assert (crawl["status"], crawl["products_new"]) == ("completed", PRODUCTS)
        inputs = ["x" * 300_000, "é" * 100_000, 3]
        call = Client().map(f"{called.__name__}:echo", inputs, timeout_s=60)
        assert list(call) == inputs
        self.assert_alive()
        assert self.dropped() >= dropped_min
        for process in self.processes:
            log = self.run.log(process)
            assert "Traceback" not in log, log
            lines_max = (monotonic() - self.began) // LINE_EVERY_S + 1
            assert 1 <= said(self.run, process, DROPPED) <= lines_max, log
            assert not re.search(r"[\x00-\x09\x0b-\x1f]", log), "control characters are escaped"
            assert self.run.end(process) == 0

    def dropped(self) -> float:
        """As the worker's metrics have it."""
        pattern = f"*-{self.worker.pid}.json"
        path = until(lambda: next(targets_dir(self.settings).glob(pattern), None), 30)
        ((target,),) = [entry["targets"] for entry in json.loads(path.read_text())]
        text = httpx.get(f"http://{target}/metrics", timeout=60).text
        (value,) = re.findall(r"^scraper_worker_dropped_messages_total (\S+)$", text, re.MULTILINE)
        return float(value)


@pytest.fixture
def shop(sample_shop: Callable[..., SampleShop]) -> SampleShop:
    return sample_shop("--products", str(PRODUCTS))


def unacknowledged() -> Iterator[bytes]:
    """What kombu would put back into queues: [message, exchange, queue]."""
    yield from (b"hello", b"[]", b"null", b"[" * 5000, b"[1, 2, 3]", b'["\\ud800", "", "x"]')
    message = invented.envelope(*invented.task())
    for odd in invented.ODD:
        yield json.dumps([message, odd, odd]).encode()
        yield json.dumps([odd, "", "datacenter"]).encode()
    # Names of keys that are not lists.
    for queue in ("unacked", "unacked_index", "_kombu.binding.celery.pidbox"):
        yield json.dumps([message, "", queue]).encode()


def test_messages_in_redis(
    calling: Settings, run: Commands, engine: sa.Engine, shop: SampleShop
) -> None:
    with redis.Redis.from_url(calling.valkey_url) as client:
        # Some wait before anybody starts, and some were read once and never acknowledged.
        for queue in QUEUES:
            client.lpush(queue, *islice(filter(None, invented.raw()), 9))
        for number, raw in enumerate(unacknowledged()):
            client.hset("unacked", str(number), raw)
            client.zadd("unacked_index", {str(number): 1.0})
        client.zadd("unacked_index", {b"\xff is not there": 1.0})
        fleet = Fleet(run, calling)
        topic = f"/{client.connection_pool.connection_kwargs.get('db', 0)}.celery.pidbox"
        until(lambda: client.publish(topic, b"null") == 2, 10)
        for raw in invented.for_control():
            client.publish(topic, raw)
        fleet.assert_alive()
        pushed = 0
        for raw in chain(invented.for_tasks(), invented.for_control()):
            pushed += 1
            level = pushed // 2 % 10
            # A worker reads its queues the same way: each has every second message.
            for queue in (QUEUES[pushed % 2], QUEUES[2]):
                client.lpush(f"{queue}{SEPARATOR}{level}" if level else queue, raw)
        lists = [
            f"{queue}{SEPARATOR}{level}" if level else queue
            for queue in QUEUES[:2]
            for level in range(10)
        ]

        def read() -> bool:
            fleet.assert_alive()
            return not any(client.llen(name) for name in lists)

        until(read, 120, every_s=0.5)
        fleet.assert_works(shop, engine, dropped_min=pushed // 2)
        assert client.hlen("unacked") == client.zcard("unacked_index") == 0
        assert client.exists(invented.STOLEN) == 0


def test_flower_and_commands_read_their_own_messages(calling: Settings, run: Commands) -> None:
    """Forged events and answers, from a Redis of both."""
    worker = run.worker("datacenter")
    run.until_ready(worker)
    # In ms. On a busy machine a worker takes longer than the second that is the default.
    flower = Flower(run, calling, "--inspect_timeout=5000")
    with redis.Redis.from_url(calling.valkey_url) as client:
        base = f"/{client.connection_pool.connection_kwargs.get('db', 0)}.celeryev"
        topics = (base, f"{base}/task.received")
        heard = 0
        for raw in invented.events():
            heard += sum(client.publish(topic, raw) for topic in topics)
        assert heard > 1000, "Flower listens there"
        done = threading.Event()

        def answer() -> None:
            """Once to each queue of a client that asks."""
            answered: set[bytes] = set()
            while not done.wait(0.05):
                bindings = cast("set[bytes]", client.smembers("_kombu.binding.reply.celery.pidbox"))
                for queue in {member.rpartition(SEPARATOR.encode())[2] for member in bindings}:
                    if queue not in answered:
                        client.lpush(queue, *filter(None, invented.replies(str(uuid4()))))
                        answered.add(queue)

        answering = threading.Thread(target=answer)
        answering.start()
        try:
            assert [name.startswith("w0-") for name in flower.json("/api/workers?refresh=1")]
            inspect = ("inspect", "--timeout=5", "active_queues")
            inspected = run.start("celery", "-A", "scraper", *inspect)
            assert inspected.wait(120) == 0 and "datacenter" in run.log(inspected)
        finally:
            done.set()
            answering.join()

    def seen() -> bool:
        """Workers send events once Flower has asked them to."""
        assert list(Client().map(f"{called.__name__}:echo", [1], timeout_s=60)) == [1]
        tasks = flower.json("/api/tasks?taskname=scraper.tasks.call_functions").values()
        return any(task["worker"] != "w@host" and task["state"] == "SUCCESS" for task in tasks)

    until(seen, 60)
    assert "Traceback" not in run.log(inspected)
    assert "Traceback" not in flower.log(), flower.log()
    flower.stop()
    assert run.end(worker) == 0


RIGHT = {"content_type": "application/json", "content_encoding": "utf-8"}


def command(method: str, **arguments: Any) -> amqp.Message:
    return amqp.Message(json.dumps({"method": method, "arguments": arguments}).encode(), **RIGHT)


class RawMessage(amqp.Message):
    """One whose properties are unchecked bytes."""

    def __init__(self, body: bytes, raw: bytes) -> None:
        super().__init__(body)
        self._raw = raw

    def _serialize_properties(self) -> bytes:
        return self._raw


def messages() -> Iterator[amqp.Message]:
    """For a queue of tasks in RabbitMQ."""
    for body in (b"", b"hello", b"[]", b"42", b"null", b"\xff", b"[" * 9000, bytes(3_000_000)):
        yield amqp.Message(body)
        yield amqp.Message(body, **RIGHT)
        yield amqp.Message(body, application_headers=invented.task()[0], **RIGHT)
    for headers, content in invented.tasks():
        body = json.dumps(content).encode()
        # What AMQP has no way to write down is left out.
        with suppress(Exception):
            message = amqp.Message(body, application_headers=headers, **RIGHT)
            message._serialize_properties()
            yield message
    headers, content = invented.task()
    body = json.dumps(content).encode()
    for changed in (
        {"content_type": "application/data"},
        {"content_type": "application/x-python-serialize"},
        {"content_encoding": "binary"},
        {"priority": 255},
        {"content_encoding": "no-such"},
    ):
        yield amqp.Message(body, application_headers=headers, **{**RIGHT, **changed})
    for name, packed in invented.bombs().items():
        yield amqp.Message(packed, application_headers={**headers, "compression": name}, **RIGHT)
    # The content type is not UTF-8; a header is of a type that there is not; one lies in a table in
    # a table, and so on; a time is after the last year.
    yield RawMessage(body, b"\x80\x00\x02\xff\xfe")
    yield RawMessage(body, b"\x20\x00\x00\x00\x00\x04\x01aZ\x00")
    deep = b""
    for _ in range(2000):
        deep = b"\x01aF" + len(deep).to_bytes(4, "big") + deep
    yield RawMessage(body, b"\x20\x00" + len(deep).to_bytes(4, "big") + deep)
    yield RawMessage(body, b"\x20\x00\x00\x00\x00\x0b\x01aT" + b"\xff" * 8)


@pytest.fixture
def rabbitmq(rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The broker of everything that the test asks for after it."""
    monkeypatch.setenv("BROKER_URL", rabbitmq_url)
    return rabbitmq_url


def test_messages_in_rabbitmq(
    rabbitmq: str, environment: Settings, request: pytest.FixtureRequest
) -> None:
    settings_module.load.cache_clear()
    calling: Settings = request.getfixturevalue("calling")
    run: Commands = request.getfixturevalue("run")
    engine: sa.Engine = request.getfixturevalue("engine")
    shop: SampleShop = request.getfixturevalue("shop")
    fleet = Fleet(run, calling)
    host, _, path = rabbitmq.rpartition("@")[2].partition("/")
    login = rabbitmq.partition("://")[2].partition("@")[0].split(":")
    published = 0

    def connect() -> Any:
        connection = amqp.Connection(
            host=host, userid=login[0], password=login[1], virtual_host=path
        )
        connection.connect()
        return connection

    opened = ExitStack()
    channels: list[Any] = []

    def publish(message: amqp.Message, **where: str) -> None:
        """RabbitMQ may refuse one, and close who sent it."""
        nonlocal published
        if not channels:
            channels.append(opened.enter_context(closing(connect())).channel())
            channels[0].confirm_select()
        try:
            channels[0].basic_publish_confirm(message, **where)
            published += 1
        except (amqp.AMQPError, OSError):
            channels.clear()
            with suppress(amqp.AMQPError, OSError):
                opened.close()

    for number, message in enumerate(messages()):
        for queue in (QUEUES[number % 2], QUEUES[2]):
            publish(message, routing_key=queue)
    with closing(connect()) as connection:
        # Of a client's own exchange, with a routing key that is not text.
        channel = connection.channel()
        channel.exchange_declare("own", "fanout")
        for queue in QUEUES:
            channel.queue_bind(queue, "own")
        # A queue that cannot be declared as workers would: RabbitMQ closes the channel that tries
        # to, and then knows nothing of the messages that are being acknowledged over it.
        refused = command("add_consumer", queue="own")
        for _ in range(10):
            for message in islice(messages(), 9, 40):
                channel.basic_publish(message, routing_key=QUEUES[0])
            channel.basic_publish(refused, exchange="celery.pidbox")
            for message in islice(messages(), 9, 40):
                channel.basic_publish(message, routing_key=QUEUES[0])
            sleep(0.5)
    for message in islice(messages(), 30):
        publish(message, exchange="own", routing_key=b"\xff\xfe")  # type: ignore[arg-type]
    for content in invented.commands():
        publish(amqp.Message(json.dumps(content).encode(), **RIGHT), exchange="celery.pidbox")
    opened.close()
    fleet.assert_alive()
    with closing(connect()) as connection:
        channel = connection.channel()
        until(lambda: not any(channel.queue_declare(q, passive=True)[1] for q in QUEUES[:2]), 120)
    assert published > 1000
    fleet.assert_works(shop, engine, dropped_min=published // 4)
    with closing(connect()) as connection, pytest.raises(amqp.NotFound):
        connection.channel().queue_declare(invented.STOLEN, passive=True)
