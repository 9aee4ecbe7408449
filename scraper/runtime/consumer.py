"""Which queues a worker reads, how, and how it finds back to a broker that was away. All else is
Celery's own consumer.

A worker started for a region's queue (`-Q residential.eu`) also reads that of any region
(`residential`), wherever Celery selects queues: `-Q`, and `celery control add_consumer`. `-X
residential` excludes it again.

Celery waits up to 30 s between two tries to reconnect, and logs each; here it is 5 s, and one line
an outage. Celery's workers also ask each other for news when they start (mingle) and follow each
other's heartbeats (gossip): n² messages for things that nothing here uses, and one more place to
wait after an outage. Its heartbeats to Flower are repeated for as long as it takes, in the very
thread that reads the queues and hears that the worker is to stop; here they are tried once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from celery.app import amqp, events
from celery.events import dispatcher
from celery.worker import consumer, state
from kombu import Connection  # type: ignore[attr-defined]

from scraper.infra import outages
from scraper.process import watchdog
from scraper.rules.routing import queues_served_with
from scraper.runtime.pool import TaskPool

log = structlog.get_logger()

RETRY_START_S = 0.5
RETRY_STEP_S = 0.5
RETRY_MAX_S = 5.0
# RabbitMQ's heartbeats go both ways: after two missed in a row the connection is given up. (Redis
# has its health_check_interval.)
HEARTBEAT_S = 10
# Task events are sent together, once in so long: a message costs a millisecond, and there would be
# three a task.
EVENTS_S = 0.25
# Celery's lines begin so.
UNACKNOWLEDGED = ("Couldn't ack", "Couldn't reject", "Error cleaning up after event loop")


class Queues(amqp.Queues):  # type: ignore[misc] # Celery has no types
    def select(self, include: str | Iterable[str]) -> None:
        chosen = [include] if isinstance(include, str) else list(include or ())
        wider = [name for queue in chosen for name in queues_served_with(queue)[1:]]
        super().select(chosen + [name for name in wider if name not in chosen])


class AMQP(amqp.AMQP):  # type: ignore[misc]
    queues_cls = Queues


class Consumer(consumer.Consumer):  # type: ignore[misc] # Celery has no types
    _events_due = False

    def __init__(
        self, *args: Any, worker_options: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        options = {**(worker_options or {}), "without_mingle": True, "without_gossip": True}
        super().__init__(*args, worker_options=options, **kwargs)
        # A consumer without a loop (`-P solo`) cannot send any.
        if self.hub is not None:
            self.amqheartbeat = HEARTBEAT_S

    def add_task_queue(self, queue: str, *args: Any, **options: Any) -> None:
        """A queue that is not one that workers can read costs the channel of all queues: everything
        is connected anew then, without it."""
        queues = self.app.amqp.queues
        before = set(queues.consume_from)
        try:
            super().add_task_queue(queue, *args, **options)
            for wider in queues_served_with(queue)[1:]:
                super().add_task_queue(wider)
        except self.channel_errors as error:
            for added in set(queues.consume_from) - before:
                queues.deselect(added)
            raise ConnectionError(f"the queue {queue} cannot be read") from error

    def connect(self) -> Connection:
        """Redis: the pool's admission says what is read. RabbitMQ: what is read ahead is counted
        for each queue. Celery would have it counted for all of them together, which RabbitMQ has
        switched off since 4.3 (`global_qos`)."""
        connection: Connection = super().connect()
        connection.transport.qos_semantics_matches_spec = lambda _: True
        if isinstance(self.pool, TaskPool):
            connection.transport.wants = self.pool.admission.wants
        return connection

    def ensure_connected(self, conn: Connection) -> Connection:
        """Tries until the broker answers or the worker is told to stop."""
        conn.ensure_connection(  # type: ignore[no-untyped-call]
            lambda error, _interval: outages.broker().failed(error),
            None,
            interval_start=RETRY_START_S,
            interval_step=RETRY_STEP_S,
            interval_max=RETRY_MAX_S,
            callback=self._between_tries,
        )
        self.first_connection_attempt = False
        outages.broker().answered()
        return conn

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        """Messages that were read and not yet begun are a trap: kombu puts them back over the
        broken connection, and acknowledges those that begin later over a closed channel. Either
        would end the worker. Their tasks are done all the same, or their leases run out."""
        outages.broker().failed(exc)
        if self.task_consumer is not None:
            channel = self.task_consumer.channel
            channel.do_restore = False
            channel.basic_ack = channel.basic_reject = _do_nothing
        try:
            super().on_connection_error_after_connected(exc)
        except Exception:
            log.warning("the broken connection could not be closed", exc_info=True)

    def on_send_event_buffered(self) -> None:
        """Called by the threads of tasks, too. The timer takes entries from any thread; it wakes
        once a second at the least."""
        if self.hub is not None and not self._events_due:
            self._events_due = True
            self.timer.call_after(EVENTS_S, self._send_events)

    def _send_events(self) -> None:
        self._events_due = False
        self._flush_events()

    @staticmethod
    def _between_tries() -> None:
        watchdog.consumer_turned()
        state.maybe_shutdown()


def _do_nothing(*_: object, **__: object) -> None:
    pass


def worth_a_line(record: logging.LogRecord) -> bool:
    """False where a message could not be acknowledged since the broker went away that moment:
    `scraper.infra.outages` logs that, once, and the consumer notices by itself. Celery logs it for
    each message, as critical and with a traceback, and once more where it acknowledges what is left
    on its way out of the loop."""
    error = record.exc_info[1] if record.exc_info else None
    return not (str(record.msg).startswith(UNACKNOWLEDGED) and outages.broker_away(error))


for _name in ("celery.worker.request", "celery.worker.loops"):
    logging.getLogger(_name).addFilter(worth_a_line)


class Dispatcher(dispatcher.EventDispatcher):  # type: ignore[misc]
    """A heartbeat that cannot be sent is how the consumer learns of a broker that hangs: the error
    reaches it, and it reconnects. Other events wait for the connection."""

    def _publish(
        self, event: object, producer: object, routing_key: str, *_: object, **__: object
    ) -> None:
        self.buffer_while_offline = routing_key != "worker.heartbeat"
        super()._publish(event, producer, routing_key)


class Events(events.Events):  # type: ignore[misc]
    dispatcher_cls = "scraper.runtime.consumer:Dispatcher"
