"""kombu's Redis transport, with one client a channel, and reading no more than can soon be begun.

kombu makes a `redis.Redis` for each message that it sends, reads or acknowledges, and for each
event: 0.16 to 0.36 ms of CPU each, three to five times a task. A client is nothing but a pool of
connections and a table of parsers, and may be kept.

kombu reads whatever its prefetch count allows. That has to be large, or what is urgent would be
stuck behind what waits for a slot. But then all batches wait with the worker that is first to read,
while others have nothing to do: of two on one queue the second was idle for a third of the time. So
a worker leaves in Redis what is no more urgent than the batches that wait there already, which its
admission says list by list (`Transport.wants`).
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from kombu.transport import redis

# A worker that did not want all that there might be looks again after so long.
RETRY_S = 0.1


class Channel(redis.Channel):
    _kept_client: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        # The consumer's own, which keeps it.
        if asynchronous:
            return super()._create_client(asynchronous)  # type: ignore[no-untyped-call]
        # After an outage the pool is another one.
        if self._kept_client is None or self._kept_client.connection_pool is not self.pool:
            self._kept_client = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept_client

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Asks for the next message of the lists that are wanted; of one that nobody writes to
        where none is."""
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
        self._brpop_sent_at = monotonic()  # type: ignore[assignment]
        self.client.connection.send_command("BRPOP", *keys, timeout or self.brpop_timeout or 0)

    def waiting(self, queue: str) -> int:
        """Messages in a queue, of all its priorities; 0 for one that does not exist.
        (`queue_declare(passive=True)` asks the same twice, in transactions: three times the CPU.)
        """
        with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
            for priority in self.priority_steps:
                pipe.llen(self._q_for_pri(queue, priority))  # type: ignore[no-untyped-call]
            return sum(pipe.execute())


class Transport(redis.Transport):
    Channel = Channel
    # Whether a message of a queue, with a priority, is to be read; None: all are. A worker's
    # consumer sets it. From the thread that reads messages.
    wants: Callable[[str, int], bool] | None = None
