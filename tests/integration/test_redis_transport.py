"""One Redis client a channel, and never one of a connection that is gone."""

from __future__ import annotations

import pytest
from kombu import Connection

from scraper import celery
from scraper.redis_transport import Channel, Transport
from scraper.settings import Settings


@pytest.fixture
def connection(valkey_url: str) -> Connection:
    assert celery.app  # naming it is what makes `redis://` mean our transport
    return Connection(Settings(redis_url=valkey_url).celery_broker_url)


def test_redis_urls_mean_our_transport(connection: Connection) -> None:
    with connection:
        assert type(connection.transport) is Transport and type(connection.default_channel) is Channel


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
        assert channel.waiting("counted") == 0 == channel.waiting("never heard of")
        for priority in (0, 3, 9, 9):
            producer.publish({}, routing_key="counted", exchange=queue.queue.exchange, priority=priority)
        assert channel.waiting("counted") == 4 == channel.queue_declare("counted", passive=True).message_count


def test_the_consumers_client_is_its_own(connection: Connection) -> None:
    with connection, connection.channel() as channel, channel.conn_or_acquire() as shared:
        assert channel._create_client(asynchronous=True).connection_pool is channel.async_pool
        assert shared.connection_pool is channel.pool is not channel.async_pool
