"""One Redis client a channel, and never one of a connection that is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest
from kombu import Connection, Consumer, Message

from scraper import celery
from scraper.runtime.admission import READ_AHEAD
from scraper.runtime.pool import TaskPool
from scraper.runtime.redis_transport import RedisChannel, RedisTransport
from scraper.settings import Settings


@pytest.fixture
def connection(valkey_url: str) -> Connection:
    # naming it is what makes `redis://` mean our transport
    assert celery.app
    return Connection(Settings(redis_url=valkey_url).celery_broker_url)


def test_redis_urls_mean_our_transport(connection: Connection) -> None:
    with connection:
        assert (
            type(connection.transport) is RedisTransport
            and type(connection.default_channel) is RedisChannel
        )


def test_messages_share_a_client_until_its_pool_is_gone(connection: Connection) -> None:
    with connection, connection.channel() as channel:
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second and first.ping()
        channel._disconnect_pools()
        with channel.conn_or_acquire() as anew:
            assert anew is not first and anew.connection_pool is channel.pool and anew.ping()


def test_messages_of_all_priorities_are_counted(connection: Connection) -> None:
    with connection, connection.channel() as channel, connection.Producer(channel) as producer:
        queue = connection.SimpleQueue("counted", channel=channel)
        assert channel.count_messages("counted") == 0 == channel.count_messages("never heard of")
        for priority in (0, 3, 9, 9):
            producer.publish(
                {}, routing_key="counted", exchange=queue.queue.exchange, priority=priority
            )
        assert (
            channel.count_messages("counted")
            == 4
            == channel.queue_declare("counted", passive=True).message_count
        )


@pytest.fixture
def let_go(connection: Connection) -> Iterator[threading.Event]:
    """Ends the one batch of a pool that has a single slot, and steers what the connection reads."""
    pool, event = TaskPool(1), threading.Event()
    pool.start()
    connection.transport.wants = pool.admission.wants
    for _ in range(1 + READ_AHEAD):
        pool.on_apply(
            lambda *_: event.wait(20),
            ("task", "id", {"delivery_info": {"priority": 3, "routing_key": "shared"}}),
        )
    yield event
    event.set()
    pool.stop()


def test_what_would_only_wait_here_stays_in_redis(
    connection: Connection, let_go: threading.Event
) -> None:
    read: list[int] = []
    with connection, connection.channel() as channel, connection.Producer(channel) as producer:
        queue = connection.SimpleQueue("shared", channel=channel).queue
        for priority in (3, 3, 9, 0):
            producer.publish(
                [[], {}, {}],
                routing_key="shared",
                exchange=queue.exchange,
                priority=priority,
                headers={"task": "scraper.tasks.plan", "id": str(uuid4())},
            )

        def came(_: object, message: Message) -> None:
            read.append(message.properties["priority"])
            message.ack()

        def read_on(wanted: list[int]) -> list[int]:
            for _ in range(20 if read != wanted else 2):
                with suppress(TimeoutError):
                    connection.drain_events(timeout=0.3)
                if read == wanted:
                    break
            return read

        with Consumer(channel, [queue], callbacks=[came]):
            assert read_on([0]) == [0] and read_on([0]) == [0], "the more urgent one alone"
            assert channel.count_messages("shared") == 3
            let_go.set()
            assert read_on([0, 3, 3, 9]) == [0, 3, 3, 9]


def test_the_consumers_client_is_its_own(connection: Connection) -> None:
    with connection, connection.channel() as channel, channel.conn_or_acquire() as shared:
        assert channel._create_client(asynchronous=True).connection_pool is channel.async_pool
        assert shared.connection_pool is channel.pool is not channel.async_pool
