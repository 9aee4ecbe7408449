"""The same promises of Redis and RabbitMQ: what is sent is counted, ordered, and comes out as it
went in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import pools

from scraper import celeryconfig
from scraper import settings as settings_module
from scraper.domain import Message
from scraper.errors import ConfigError, ServerUnavailableError
from scraper.infra import outages, redaction
from scraper.infra.outages import is_broker_away
from scraper.process import servers
from scraper.settings import Settings
from tests.support.machine import everyday
from tests.support.servers import rabbitmq, valkey
from tests.support.servers.forked import run_command, run_program
from tests.support.servers.hostile_server import self_signed

LEASE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def broker(any_broker: Settings) -> Iterator[Settings]:
    """The broker that this process's app speaks to during the test."""
    from scraper.celery import app

    before = {name: app.conf[name] for name in ("broker_url", "broker_transport_options")}

    def use(**conf: Any) -> None:
        for name, value in conf.items():
            app.conf[name] = value
        pools.reset()
        app._pool = None
        app.amqp._producer_pool = None

    options = celeryconfig._RABBITMQ if any_broker.broker_is_amqp else celeryconfig._REDIS
    use(broker_url=any_broker.celery_broker_url, broker_transport_options=options)
    yield any_broker
    app.pool.force_close_all()
    use(**before)


def taken(queue: str) -> list[Any]:
    """Everything in a queue, in the order in which a worker would get it."""
    from scraper.celery import app

    found = []
    with app.pool.acquire(block=True) as connection, connection.channel() as channel:
        while (message := channel.basic_get(queue, no_ack=True)) is not None:
            found.append(message)
    return found


def batch(priority: int, queue: str = "residential.eu", lease: str = LEASE) -> Message:
    return Message("fetch_products", queue, {"lease_id": lease}, priority=priority)


def test_the_most_urgent_message_comes_first(broker: Settings) -> None:
    """Each of the ten priorities differs; equal ones come in the order in which they were
    sent."""
    from scraper.runtime.send import send

    levels = [3, 0, 9, 5, 1, 8, 2, 7, 4, 6]
    send([batch(level * 2, lease=f"{level}-{n}") for n in range(2) for level in levels])
    leases = [json.loads(message.body)[1]["lease_id"] for message in taken("residential.eu")]
    assert leases == [f"{level}-{n}" for level in reversed(range(10)) for n in range(2)]


def test_depth_counts_what_waits(broker: Settings) -> None:
    from scraper.runtime.send import queue_depth, send

    assert queue_depth("residential") == 0, "a queue that does not exist yet"
    send([batch(10, "residential") for _ in range(5)])
    assert queue_depth("residential") == 5
    assert len(taken("residential")) == 5 and queue_depth("residential") == 0


def test_messages_are_json_and_name_no_exchange(broker: Settings) -> None:
    from scraper.runtime.send import send

    send(
        [
            Message("finish", "coordinator", {"crawl_id": 7}),
            Message("dispatch", "coordinator", expires_s=5.0),
        ]
    )
    first, second = taken("coordinator")
    assert (
        first.delivery_info["exchange"] == ""
        and first.delivery_info["routing_key"] == "coordinator"
    )
    assert (
        first.content_type == "application/json" and first.headers["task"] == "scraper.tasks.finish"
    )
    assert first.headers["expires"] is None and second.headers["expires"] is not None


def test_a_message_goes_over_another_channel_if_an_outage_closes_its_own(
    broker: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scraper.celery import app
    from scraper.runtime.send import send

    send([batch(5)])
    with app.producer_pool.acquire(block=True) as producer:
        kept = producer.channel
    publish, closed = kept.basic_publish, list[Any]()

    def close_first(*args: Any, **options: Any) -> Any:
        """As another thread does that meets the outage first."""
        kept.close()
        closed.append(kept)
        return publish(*args, **options)

    monkeypatch.setattr(kept, "basic_publish", close_first)
    send([batch(5)])
    assert closed == [kept]
    assert len(taken("residential.eu")) == 2


def test_a_silent_server_is_away(broker: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from scraper.celery import app
    from scraper.runtime.send import queue_depth, send

    scheme = "amqp" if broker.broker_is_amqp else "redis"
    app.conf.broker_url = f"{scheme}://ann:s3cret@127.0.0.1:1//"
    pools.reset()
    app._pool = app.amqp._producer_pool = None
    for call in (lambda: queue_depth("coordinator"), lambda: send([batch(1)])):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the library's business
            call()
        assert is_broker_away(caught.value), repr(caught.value)


def test_a_broker_that_answers_is_reachable(any_broker: Settings) -> None:
    servers.require_reachable(any_broker)
    assert outages.broker().address == redaction.mask_passwords(
        any_broker.broker_url or any_broker.valkey_url
    )


@pytest.fixture
def own_valkey(
    environment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Settings]]:
    """Starts a Valkey of the test's own with some options; REDIS_URL names it."""
    with ExitStack() as stack:

        def start(*options: str) -> Settings:
            server = stack.enter_context(valkey.Server(tmp_path, *options))
            monkeypatch.setenv("REDIS_URL", server.url)
            settings_module.load.cache_clear()
            return settings_module.load()

        yield start


@pytest.mark.parametrize(
    ("options", "fix"),
    everyday(
        (
            lru := ("--maxmemory 50mb --maxmemory-policy allkeys-lru", "set it to noeviction"),
            ("--maxmemory 50mb --maxmemory-policy volatile-ttl", "set it to noeviction"),
            ("--cluster-enabled yes", "use one primary"),
        ),
        lru,
    ),
)
def test_a_redis_that_may_lose_keys_is_refused(
    own_valkey: Callable[..., Settings], options: str, fix: str
) -> None:
    settings = own_valkey(*options.split())
    with pytest.raises(ConfigError, match=fix):
        servers.require_reachable(settings)
    ended = run_command(["celery", "-A", "scraper", "worker", "-P", "solo"])
    assert ended.returncode == ConfigError.exit_code and fix in ended.stderr


def test_a_redis_with_room_is_used(own_valkey: Callable[..., Settings]) -> None:
    settings = own_valkey("--maxmemory", "50mb")
    servers.require_reachable(settings)
    with redis.Redis.from_url(settings.valkey_url) as client:
        assert client.info("memory")["maxmemory"] == 50 * 2**20


def test_a_user_without_info(own_valkey: Callable[..., Settings]) -> None:
    settings = own_valkey("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    with redis.Redis.from_url(settings.valkey_url) as client:
        client.execute_command("ACL", "SETUSER", "default", "-info")
    servers.require_reachable(settings)


@pytest.mark.parametrize(
    "change", [("s3cret", "wr0ng"), ("/t", "/nowhere")], ids=["password", "virtual host"]
)
def test_a_broker_that_refuses_us(
    environment: Settings,
    rabbitmq_url: str,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str],
) -> None:
    monkeypatch.setenv("BROKER_URL", rabbitmq_url.replace(*change))
    settings_module.load.cache_clear()
    with pytest.raises(ServerUnavailableError, match="BROKER_URL") as caught:
        servers.require_reachable(settings_module.load())
    assert "scraper:***@127.0.0.1" in str(caught.value)
    assert "s3cret" not in str(caught.value) and "wr0ng" not in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "command"),
    everyday(
        product(("amqp", "redis"), ("scraper up", "celery -A scraper worker -P solo")),
        ("amqp", "celery -A scraper worker -P solo"),
        ("redis", "scraper up"),
    ),
)
def test_a_broker_of_its_own_that_is_not_there(
    environment: Settings, scheme: str, command: str
) -> None:
    done = run_command(command.split(), BROKER_URL=f"{scheme}://ann:s3cret@127.0.0.1:1/0")
    assert done.returncode == 3, done.stderr
    assert f"{scheme}://ann:***@127.0.0.1:1/0" in done.stderr and "BROKER_URL" in done.stderr
    assert "s3cret" not in done.stderr + done.stdout and "Traceback" not in done.stderr


def test_an_empty_address_is_none(environment: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docker-compose.yml gives it where .env has none."""
    monkeypatch.setenv("BROKER_URL", "")
    settings_module.load.cache_clear()
    assert settings_module.load().celery_broker_url == environment.celery_broker_url


@pytest.mark.parametrize("url", ["http://host", "amqp://one//;redis://two", "memory://"])
def test_other_brokers_are_refused(
    environment: Settings, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("BROKER_URL", url)
    settings_module.load.cache_clear()
    with pytest.raises(ConfigError, match="BROKER_URL"):
        settings_module.load()
    monkeypatch.delenv("BROKER_URL")


SEND = """
from scraper.runtime.send import queue_depth, send
from scraper.domain import Message
send([Message("fetch_products", "residential", {"lease_id": "x"}, priority=1)])
print(queue_depth("residential"))
"""


def test_amqps_verifies_the_certificate(
    environment: Settings,
    rabbitmq_node: rabbitmq.Node,
    rabbitmq_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROKER_URL", rabbitmq_node.tls_url(rabbitmq_url))
    settings_module.load.cache_clear()
    with pytest.raises(ServerUnavailableError, match="certificate"):
        servers.require_reachable(settings_module.load())
    monkeypatch.setenv("SSL_CERT_FILE", str(rabbitmq_node.certificate))
    servers.require_reachable(settings_module.load())
    done = run_program(SEND)
    assert done.stdout == "1\n", done.stderr


def test_rediss_verifies_the_certificate(
    own_valkey: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kombu verifies it too, whose default is to verify nothing."""
    port = int(own_valkey().valkey_url.rpartition(":")[2].partition("/")[0])
    with valkey.TlsFront(port, self_signed(tmp_path)) as front:
        # REDIS_URL stays plain, so that kombu alone meets the certificate.
        monkeypatch.setenv("BROKER_URL", f"rediss://127.0.0.1:{front.port}/0")
        settings_module.load.cache_clear()
        with pytest.raises(ServerUnavailableError, match="certificate"):
            servers.require_reachable(settings_module.load())
        done = run_program(SEND)
        assert done.returncode and "CERTIFICATE_VERIFY_FAILED" in done.stderr, done
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        servers.require_reachable(settings_module.load())
        done = run_program(SEND)
        assert done.stdout == "1\n" and "insecure" not in done.stderr, done
