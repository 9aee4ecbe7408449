"""From a step's messages to the broker: the one place that publishes, and that looks how full a queue is."""

from __future__ import annotations

from collections.abc import Sequence

from kombu.exceptions import ChannelError

from scraper.celery import app
from scraper.domain import Message
from scraper.policy.routing import COORDINATOR, URGENT, message_priority


def send(messages: Sequence[Message]) -> None:
    """Publishes messages over one pooled connection. Called after the commit that makes them true."""
    if not messages:
        return
    with app.producer_pool.acquire(block=True) as producer:
        zero_is_first = producer.connection.transport.driver_type == "redis"
        for message in messages:
            urgency = URGENT if message.queue == COORDINATOR else message.priority  # a late finish helps nobody
            app.send_task(
                f"scraper.tasks.{message.task}",
                kwargs=dict(message.kwargs),
                queue=message.queue,
                priority=message_priority(urgency, zero_is_first=zero_is_first),
                expires=message.expires_s,
                producer=producer,
            )


def depth(queue: str) -> int:
    """Messages in a queue of the broker; 0 for one that does not exist yet."""
    with app.pool.acquire(block=True) as connection, connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:
            return 0
