"""Publishes the messages that steps return, and reads how many messages wait in a queue. No other
module publishes.

Nothing here waits for a broker that is away: a refused connection fails within a second, a hanging
one within the timeouts of `celeryconfig`. Leases, `reap` and the next tick make up for a message
that was not sent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog
from kombu.exceptions import ChannelError

from scraper.celery import app
from scraper.domain import Message
from scraper.infra import outages
from scraper.rules.routing import COORDINATOR, URGENT, message_priority

log = structlog.get_logger()

# The longest wait for a connection of the pool. Other threads hold one longer only while the broker
# hangs.
POOL_WAIT_S = 3.0
# After a failure, `send_best_effort` tries nothing for this long.
BEST_EFFORT_PAUSE_S = 2.0

_best_effort_paused_until = 0.0


def send(messages: Sequence[Message]) -> None:
    """Publishes messages over one pooled connection. Called after the commit that makes them true.
    Raises if the broker is away (see `outages.is_broker_away`)."""
    if not messages:
        return
    with app.producer_pool.acquire(block=True, timeout=POOL_WAIT_S) as producer:
        zero_is_first = producer.connection.transport.driver_type == "redis"
        for message in messages:
            # The coordinator's messages unblock everything else.
            urgency = URGENT if message.queue == COORDINATOR else message.priority
            app.send_task(
                f"scraper.tasks.{message.task}",
                kwargs=dict(message.kwargs),
                queue=message.queue,
                priority=message_priority(urgency, zero_is_first=zero_is_first),
                expires=message.expires_s,
                producer=producer,
            )


def send_best_effort(messages: Sequence[Message]) -> None:
    """Sends messages that only save a wait for the next tick. Never raises. While the broker is
    away, one caller loses a moment every two seconds and the others return at once."""
    global _best_effort_paused_until
    began = time.monotonic()
    if began < _best_effort_paused_until:
        return
    try:
        send(messages)
    except Exception as error:
        # The caller's own work is worth more than its messages.
        _best_effort_paused_until = time.monotonic() + BEST_EFFORT_PAUSE_S
        if outages.is_broker_away(error):
            outages.broker().record_failure(error)
        else:
            log.exception(
                "best-effort messages not sent", tasks=[message.task for message in messages]
            )
    else:
        outages.broker().record_answer(began)


def queue_depth(queue: str) -> int:
    """Returns the number of messages in a queue; 0 if the queue does not exist yet."""
    with app.pool.acquire(block=True, timeout=POOL_WAIT_S) as connection:
        # A connection that went through an outage is closed, and kombu would open channels on it
        # that lead nowhere.
        connection.ensure_connection(max_retries=1, interval_start=0.2, interval_max=0.2)
        try:
            if connection.transport.driver_type == "redis":
                # A channel of its own would open another connection: 3 ms of CPU.
                return int(connection.default_channel.count_messages(queue))
            with connection.channel() as channel:
                return int(channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:
            # RabbitMQ closes a channel that asks about a queue that does not exist.
            return 0
        except connection.connection_errors:
            # A late answer must not be read as the answer to a later question.
            connection.collect(socket_timeout=0.1)
            raise
