"""kombu's Redis transport, with one client a channel.

kombu makes a `redis.Redis` for each message that it sends, reads or acknowledges, and for each event: 0.16 to 0.36 ms of CPU
each, three to five times a task. A client is nothing but a pool of connections and a table of parsers, and may be kept.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:  # of the consumer, which keeps it
            return super()._create_client(asynchronous)  # type: ignore[no-untyped-call] # kombu has few types
        if self._kept is None or self._kept.connection_pool is not self.pool:  # a new one after an outage
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept

    def waiting(self, queue: str) -> int:
        """Messages in a queue, of all its priorities; 0 for one that does not exist. (`queue_declare(passive=True)` asks the
        same twice, in transactions: three times the CPU.)"""
        with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
            for priority in self.priority_steps:
                pipe.llen(self._q_for_pri(queue, priority))  # type: ignore[no-untyped-call]
            return sum(pipe.execute())


class Transport(redis.Transport):
    Channel = Channel
