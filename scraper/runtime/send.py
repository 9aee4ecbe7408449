"""From a step's messages to the broker: the one module that publishes, and that reads how full a
queue is.

Nothing here waits for a broker that is away: a refused connection is known within a second, one
that hangs within the timeouts of `celeryconfig`. What could not be sent is repaired by leases, by
`reap`, and by the next tick.
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

# A connection that others hold is waited for so long; they hold it longer only where the broker
# hangs.
POOL_WAIT_S = 3.0
# After a hint that could not be sent, no other one is tried for so long.
HINT_PAUSE_S = 2.0

_no_hints_until = 0.0


def send(messages: Sequence[Message]) -> None:
    """Publishes messages over one pooled connection. Called after the commit that makes them true.
    Raises where the broker is away (see `outages.broker_away`)."""
    if not messages:
        return
    with app.producer_pool.acquire(block=True, timeout=POOL_WAIT_S) as producer:
        zero_is_first = producer.connection.transport.driver_type == "redis"
        for message in messages:
            # A late finish helps nobody.
            urgency = URGENT if message.queue == COORDINATOR else message.priority
            app.send_task(
                f"scraper.tasks.{message.task}",
                kwargs=dict(message.kwargs),
                queue=message.queue,
                priority=message_priority(urgency, zero_is_first=zero_is_first),
                expires=message.expires_s,
                producer=producer,
            )


def hint(messages: Sequence[Message]) -> None:
    """Sends what merely spares somebody a wait, from the midst of other work: never raises, and
    while the broker is away costs one caller a moment every two seconds and the others nothing."""
    global _no_hints_until
    began = time.monotonic()
    if began < _no_hints_until:
        return
    try:
        send(messages)
    except Exception as error:
        # The work that is under way is worth more than its hint.
        _no_hints_until = time.monotonic() + HINT_PAUSE_S
        if outages.broker_away(error):
            outages.broker().failed(error)
        else:
            log.exception("hint not sent", tasks=[message.task for message in messages])
    else:
        outages.broker().answered(began)


def depth(queue: str) -> int:
    """Messages in a queue of the broker; 0 for one that does not exist yet."""
    with app.pool.acquire(block=True, timeout=POOL_WAIT_S) as connection:
        # One that went through an outage is closed, and kombu makes channels of it that are not
        # connected to anything.
        connection.ensure_connection(max_retries=1, interval_start=0.2, interval_max=0.2)
        try:
            if connection.transport.driver_type == "redis":
                # Over the connection's own channel: a new one would connect anew, 3 ms of CPU.
                return int(connection.default_channel.waiting(queue))
            with connection.channel() as channel:
                return int(channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:
            # RabbitMQ closes the channel of a question about a queue that does not exist.
            return 0
        except connection.connection_errors:
            # An answer that comes late must not be taken for that of a later question.
            connection.collect(socket_timeout=0.1)
            raise
