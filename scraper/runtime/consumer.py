"""A worker's consumer: which queues it reads, and how it reconnects to a broker that was away. The
rest is Celery's own consumer.

A worker started for a region's queue (`-Q residential.eu`) also reads the region-less one
(`residential`), wherever Celery selects queues: `-Q`, and `celery control add_consumer`. `-X
residential` excludes it again.

Celery waits up to 30 s between two tries to reconnect and logs each; this consumer waits 5 s and
logs one line per outage. Celery's workers also ask each other for news when they start (mingle) and
follow each other's heartbeats (gossip): n² messages that nothing here uses, and one more wait after
an outage. Celery repeats its heartbeats to Flower until they are sent, in the thread that reads the
queues and the request to stop; this consumer tries once.
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

log = structlog.get_logger()

RETRY_START_S = 0.5
RETRY_STEP_S = 0.5
RETRY_MAX_S = 5.0
# RabbitMQ's heartbeats go both ways: two missed in a row end the connection. (Redis has its
# health_check_interval.)
HEARTBEAT_S = 10
# Task events are sent together at this interval: a message costs a millisecond, and each task has
# three.
EVENTS_S = 0.25
# The beginnings of Celery's log lines.
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
        # A consumer without a loop (`-P solo`) cannot send heartbeats.
        if self.hub is not None:
            self.amqheartbeat = HEARTBEAT_S

    def add_task_queue(self, queue: str, *args: Any, **options: Any) -> None:
        """Adds a queue. A queue that workers cannot read costs the channel of all queues:
        everything then reconnects without it."""
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
        """Connects so that the pool's admission decides what is read (Redis), and prefetched
        messages are counted per queue (RabbitMQ). Celery would count them for all queues together,
        which RabbitMQ has switched off since 4.3 (`global_qos`)."""
        connection: Connection = super().connect()
        connection.transport.qos_semantics_matches_spec = lambda _: True
        # The pool of `-P solo` has none. To import `TaskPool` would slow commands that ask workers.
        if (admission := getattr(self.pool, "admission", None)) is not None:
            connection.transport.wants = admission.wants
        return connection

    def ensure_connected(self, conn: Connection) -> Connection:
        """Tries until the broker answers or the worker is asked to stop."""
        conn.ensure_connection(  # type: ignore[no-untyped-call]
            lambda error, _interval: outages.broker().record_failure(error),
            None,
            interval_start=RETRY_START_S,
            interval_step=RETRY_STEP_S,
            interval_max=RETRY_MAX_S,
            callback=self._check_between_tries,
        )
        self.first_connection_attempt = False
        outages.broker().record_answer()
        return conn

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        """Disarms messages that were read and not yet begun. kombu would put them back over the
        broken connection, or acknowledge them over a closed channel when they begin, and either
        would end the worker. Their tasks run all the same, or their leases expire."""
        outages.broker().record_failure(exc)
        if self.task_consumer is not None:
            channel = self.task_consumer.channel
            channel.do_restore = False
            channel.basic_ack = channel.basic_reject = _do_nothing
        try:
            super().on_connection_error_after_connected(exc)
        except Exception:
            log.warning("could not close the broken connection", exc_info=True)

    def on_send_event_buffered(self) -> None:
        """Schedules the sending of events. Tasks' threads call this, too: the timer takes entries
        from any thread, and wakes at least once a second."""
        if self.hub is not None and not self._events_due:
            self._events_due = True
            self.timer.call_after(EVENTS_S, self._send_events)

    def _send_events(self) -> None:
        self._events_due = False
        self._flush_events()

    @staticmethod
    def _check_between_tries() -> None:
        watchdog.record_consumer_turn()
        state.maybe_shutdown()


def _do_nothing(*_: object, **__: object) -> None:
    pass


def is_worth_logging(record: logging.LogRecord) -> bool:
    """Returns False for messages that were not acknowledged because the broker was just lost.

    `scraper.infra.outages` logs the outage once, and the consumer notices it by itself. Celery logs
    each such message as critical, with a traceback, and again when it leaves its loop. It then
    reads the broken connection on, where anything can fail: such an error's context is the
    outage."""
    if not str(record.msg).startswith(UNACKNOWLEDGED):
        return True
    error = record.exc_info[1] if record.exc_info else None
    context = error.__context__ if error is not None else None
    return not (outages.is_broker_away(error) or outages.is_broker_away(context))


for _name in ("celery.worker.request", "celery.worker.loops"):
    logging.getLogger(_name).addFilter(is_worth_logging)


class Dispatcher(dispatcher.EventDispatcher):  # type: ignore[misc]
    """Raises the error of a heartbeat that cannot be sent, so that the consumer notices a broker
    that hangs and reconnects. Other events wait for the connection."""

    def _publish(
        self, event: object, producer: object, routing_key: str, *_: object, **__: object
    ) -> None:
        self.buffer_while_offline = routing_key != "worker.heartbeat"
        super()._publish(event, producer, routing_key)


class Events(events.Events):  # type: ignore[misc]
    dispatcher_cls = "scraper.runtime.consumer:Dispatcher"
