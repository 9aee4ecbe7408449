"""kombu's Redis transport, with one client per channel, and reading only what can begin soon.

kombu makes a `redis.Redis` for each message that it sends, reads or acknowledges, and for each
event: 0.16 to 0.36 ms of CPU each, three to five times a task. A client is only a pool of
connections and a table of parsers, and can be kept.

kombu reads as much as its prefetch count allows, which has to be large, or urgent messages would be
stuck behind those that wait for a slot. But then all batches wait in the worker that reads first,
while others are idle: of two on one queue the second was idle for a third of the time. So a worker
leaves a message in Redis if enough batches of its urgency wait in the worker already, which its
admission says for each list (`Transport.wants`).

kombu also trusts what it reads, and the process ends over a message that is not JSON. This
transport drops foreign messages (`scraper.runtime.envelopes`) as it reads them: from a queue, from
a channel of all workers, or from those that were never acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty
from time import monotonic
from typing import Any

from kombu.transport import redis

from scraper.process import dropped_messages
from scraper.runtime import broker_client, envelopes

# A worker that left lists out looks again after this time.
RETRY_S = 0.1


class QoS(redis.QoS):
    def restore_visible(self, *args: Any, **options: Any) -> None:
        # Anything else than the lock would count as a lock that never ends.
        broker_client.move_aside(self.channel.pool, [self.unacked_mutex_key])
        super().restore_visible(*args, **options)  # type: ignore[no-untyped-call]

    def restore_by_tag(self, tag: str | bytes, client: Any = None, leftmost: bool = False) -> None:
        """Puts a message that was read and never acknowledged back into its queue."""

        def restore(pipe: Any) -> None:
            stored = pipe.hget(self.unacked_key, tag)
            pipe.multi()
            self._remove_from_indices(tag, pipe)  # type: ignore[no-untyped-call]
            if stored is None:
                return
            try:
                message, queue = envelopes.check_unacked_message(stored)
            except envelopes.ForeignMessageError as reason:
                dropped_messages.record(self.unacked_key, str(reason), stored)
                return
            self.channel.restore(message, queue, pipe, leftmost)

        with self.channel.conn_or_acquire(client) as connection:
            connection.transaction(restore, self.unacked_key)


class RedisChannel(redis.Channel):
    QoS = QoS
    _kept_client: Any = None
    _polled_keys: Sequence[str] = ()

    def _create_client(self, asynchronous: bool = False) -> Any:
        # The consumer keeps this client itself.
        if asynchronous:
            return broker_client.BrokerClient(connection_pool=self.async_pool)
        if self.connection is None:
            # An outage has closed the channel; kombu sends the message over another one.
            raise ConnectionResetError("the channel to the broker was closed")
        # An outage replaces the pool.
        if self._kept_client is None or self._kept_client.connection_pool is not self.pool:
            self._kept_client = broker_client.BrokerClient(connection_pool=self.pool)
        return self._kept_client

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Asks for the next message of the wanted lists, or of a list that stays empty if none is
        wanted."""
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        lists = [(queue, priority) for priority in self.priority_steps for queue in queues]
        wants = self.connection.wants
        keys = [
            self._q_for_pri(queue, priority)  # type: ignore[no-untyped-call]
            for queue, priority in lists
            if wants is None or wants(queue, priority)
        ]
        if len(keys) < len(lists):
            timeout = RETRY_S
            keys = keys or [f"{queues[0]}{self.sep}none"]
        self._in_poll = self.client.connection
        self._polled_keys = keys
        self._brpop_sent_at = monotonic()  # type: ignore[assignment]
        self.client.connection.send_command("BRPOP", *keys, timeout or self.brpop_timeout or 0)

    def _brpop_read(self, **options: Any) -> bool:
        connection = self.client.connection
        try:
            answer = self.client.parse_response(connection, "BRPOP", **options)
        except self.connection_errors:
            # The next request reconnects.
            connection.disconnect()
            raise
        except self.ResponseError as error:
            broker_client.move_aside(self.pool, self._polled_keys, error)
            raise Empty from error
        finally:
            self._in_poll = False
        if not answer:
            raise Empty
        queue = answer[0].decode().rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        return self._deliver_message(answer[1], queue)

    def _receive_one(self, c: Any) -> bool:
        """Reads a message to all workers, or Redis's reply about their channel."""
        try:
            answer = c.parse_response()
        except self.connection_errors:
            self._in_listen = False
            raise
        if not isinstance(answer, list):
            return False
        payload = self._handle_message(c, answer)  # type: ignore[no-untyped-call]
        if not payload["type"].endswith(b"message"):
            return False
        exchange = payload["channel"].decode(errors="replace").partition(".")[2].split("/", 1)[0]
        queue = self._fanout_to_queue.get(exchange)
        return queue is not None and self._deliver_message(payload["data"], queue)

    def _deliver_message(self, raw: bytes, queue: str) -> bool:
        try:
            message = envelopes.check_redis_message(raw, queue)
        except envelopes.ForeignMessageError as reason:
            dropped_messages.record(queue, str(reason), raw)
            return False
        self.connection.deliver(message, queue)
        return True

    def restore(self, message: dict[str, Any], queue: str, pipe: Any, leftmost: bool) -> None:
        self._do_restore_message(message, "", queue, pipe, leftmost)  # type: ignore[no-untyped-call]

    def get_table(self, exchange: str) -> list[tuple[str, ...]]:
        """Returns the bindings of an exchange, without what kombu has not written there."""
        return [row for row in super().get_table(exchange) if len(row) == 3]  # type: ignore[no-untyped-call]

    def count_messages(self, queue: str) -> int:
        """Returns the number of messages in a queue, of all priorities; 0 if it does not exist.
        (`queue_declare(passive=True)` asks twice, in transactions, for three times the CPU.)"""
        with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
            for priority in self.priority_steps:
                pipe.llen(self._q_for_pri(queue, priority))  # type: ignore[no-untyped-call]
            return sum(pipe.execute())


class RedisTransport(redis.Transport):
    Channel = RedisChannel
    # Says whether to read a message of a queue and priority; None reads all. A worker's consumer
    # sets it, and the thread that reads messages calls it.
    wants: Callable[[str, int], bool] | None = None

    def deliver(self, message: dict[str, Any], queue: str) -> None:
        self._deliver(message, queue)  # type: ignore[no-untyped-call]
