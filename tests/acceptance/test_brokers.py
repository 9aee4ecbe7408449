"""Redis or RabbitMQ, it makes no difference: the crawl's products are the truth, whatever happens
to messages, workers and the broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.domain import Message
from scraper.plugins.functions.client import Client
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, SLOWER, Crawl
from tests.acceptance.processes import assert_quiet, said
from tests.acceptance.processes import send as send_to
from tests.support import called
from tests.support.servers import rabbitmq

HOSTS = 8
# Messages expire after 50 ms, and a queue holds two.
POLICY = {"message-ttl": 50, "max-length": 2}


@pytest.fixture(scope="module")
def node_of_module(
    installed_rabbitmq: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[rabbitmq.Node]:
    node = rabbitmq.Node(tmp_path_factory.mktemp("rabbitmq"), hosts=HOSTS, policy=POLICY)
    yield node
    node.down()


@pytest.fixture
def own_node(
    node_of_module: rabbitmq.Node, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> rabbitmq.Node:
    """A RabbitMQ that the test may stop; BROKER_URL names a virtual host that no test has had."""
    node_of_module.up()
    monkeypatch.setenv("BROKER_URL", node_of_module.take())
    settings_module.load.cache_clear()
    return node_of_module


def test_every_message_twice_and_late(
    any_broker: Settings, run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    """Messages of every lease there is are sent again and again during the crawl, and such as have
    expired."""
    crawl = Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))
    done = Event()

    def double() -> None:
        while not done.wait(0.2):
            for (lease,) in crawl.rows("SELECT id FROM leases"):
                message = Message(
                    "fetch_products", "residential", {"lease_id": str(lease)}, priority=9
                )
                send_to(any_broker, message)
            send_to(any_broker, message_of_yesterday)

    message_of_yesterday = Message(
        "fetch_products", "residential", {"lease_id": "x"}, expires_s=0.001
    )
    doubling = Thread(target=double)
    doubling.start()
    try:
        crawl.until_completed()
    finally:
        done.set()
        doubling.join()
    crawl.assert_exact()
    asked = [target for _, target, _ in crawl.shop.log()]
    assert len(asked) == len(set(asked))
    assert "Traceback" not in run.logs(whole=True)
    assert run.end(crawl.worker) == 0 and run.end(crawl.coordinator) == 0


def test_rabbitmq_is_killed_in_mid_crawl(
    own_node: rabbitmq.Node,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """RabbitMQ is killed and started again, its messages gone: the same processes go on, with one
    line an outage."""
    # so that there is always something left to send
    run.env["SCRAPER_BATCH_PAGES"] = "10"
    crawl = Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))
    processes = crawl.coordinator, crawl.worker
    crawl.until_fetched(0.1)
    own_node.down(signal.SIGKILL)
    until(lambda: all(said(run, each, "the broker is away") for each in processes), 30)
    own_node.up()
    until(lambda: all(said(run, each, "the broker is back") for each in processes), 30)
    crawl.until_completed(90)
    crawl.assert_exact()
    assert all(each.poll() is None for each in processes)
    for process in processes:
        assert_quiet(run, process)


def test_quorum_queues_whose_node_restarts_in_mid_crawl(
    own_node: rabbitmq.Node,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    run.env |= {"SCRAPER_BATCH_PAGES": "10", "SCRAPER_RABBITMQ_QUEUES": "quorum"}
    crawl = Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))
    crawl.until_fetched(0.1)
    host = os.environ["BROKER_URL"].rpartition("/")[2]
    queues = own_node.control("-q", "list_queues", "-p", host, "name", "type")
    types = dict(line.split("\t") for line in queues.splitlines()[1:])
    assert {types[name] for name in ("coordinator", "residential", "datacenter")} == {"quorum"}
    own_node.down()
    until(lambda: said(run, crawl.worker, "the broker is away"), 30)
    own_node.up()
    crawl.until_completed(90)
    crawl.assert_exact()
    assert run.end(crawl.worker) == 0 and run.end(crawl.coordinator) == 0


def test_two_of_three_nodes_of_rabbitmq_die_one_after_the_other(
    installed_rabbitmq: str,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
    tmp_path: Path,
) -> None:
    """The addresses of all three are known. Two always run, so that quorum queues lose nothing."""
    first = rabbitmq.Node(tmp_path / "rabbitmq1", hosts=1)
    others = [
        rabbitmq.Node(tmp_path / f"rabbitmq{number}", hosts=1, first=first) for number in (2, 3)
    ]
    try:
        for node in (first, *others):
            node.up()
        addresses = ";".join(node.url() for node in (first, *others))
        run.env |= {
            "BROKER_URL": addresses,
            "SCRAPER_BATCH_PAGES": "10",
            "SCRAPER_RABBITMQ_QUEUES": "quorum",
        }
        crawl = Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))
        crawl.until_fetched(0.1)
        first.processes()[-1].kill()
        crawl.until_fetched(0.3)
        first.up()
        others[0].processes()[-1].kill()
        crawl.until_completed(90)
        crawl.assert_exact()
        assert run.end(crawl.worker) == 0 and run.end(crawl.coordinator) == 0
    finally:
        for node in (*others, first):
            node.down(signal.SIGKILL)


def test_a_policy_of_rabbitmq_drops_messages(
    own_node: rabbitmq.Node,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """Messages expire, and queues are full: their leases bring them back."""
    run.env |= {"BROKER_URL": own_node.url(HOSTS - 1), "SCRAPER_BATCH_PAGES": "10"}
    crawl = Crawl(run, engine, sample_shop(*SHOP))
    crawl.until_completed(180)
    crawl.assert_exact()


def test_a_memory_alarm_of_rabbitmq_in_mid_crawl(
    own_node: rabbitmq.Node,
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """RabbitMQ accepts no message while it is short of memory: the processes say so, and go on."""
    run.env["SCRAPER_BATCH_PAGES"] = "10"
    crawl = Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))
    crawl.until_fetched(0.1)
    own_node.control("set_vm_memory_high_watermark", "absolute", "1MB")
    until(lambda: said(run, crawl.coordinator, "the broker is away"), 60)
    own_node.control("set_vm_memory_high_watermark", "absolute", "300MB")
    crawl.until_completed(90)
    crawl.assert_exact()
    assert all(process.poll() is None for process in (crawl.coordinator, crawl.worker))


def test_rabbitmq_is_killed_in_mid_call(
    own_node: rabbitmq.Node, calling: Settings, run: Commands, tmp_path: Path
) -> None:
    """A call's messages are lost with it, but for those that the worker has taken: their inputs are
    sent again."""
    # An input waits as long as the broker is away.
    patient = {"SCRAPER_INPUT_TIMEOUT_S": "300"}
    worker = run.worker("datacenter", "-c", "1", "--prefetch-multiplier", "1", env=patient)
    run.until_ready(worker)
    there = tmp_path / "there"
    call = Client().map(
        f"{called.__name__}:when_there", [[n, str(there)] for n in range(500)], timeout_s=300
    )
    until(lambda: call.messages == 10, 10)
    own_node.down(signal.SIGKILL)
    until(lambda: said(run, worker, "the broker is away"), 30)
    own_node.up()
    until(lambda: said(run, worker, "the broker is back"), 30)
    there.touch()
    assert [value for value, _ in call] == list(range(500))
    assert call.messages > 10
    assert_quiet(run, worker)
