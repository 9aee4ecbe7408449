"""A Redis client for the broker that survives keys of a wrong type.

After `SET residential x`, each command on that queue fails, which would end every worker that reads
it. This client moves such a key aside, to `scraper:aside:KEY`, and runs its command again. Later
values of the same key replace the earlier ones there, so that they cannot fill Redis. A command may
run twice: a doubled message changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis
from redis.client import Pipeline

from scraper.infra.statements import lua
from scraper.process import dropped_messages

T = TypeVar("T")

TRIES = 3
MOVE_ASIDE = lua("runtime/move_aside.lua")


def move_aside(
    pool: redis.ConnectionPool, keys: Sequence[str], failure: redis.ResponseError | None = None
) -> None:
    """Renames those keys whose values have a type that the broker never stores there. With a
    `failure` that no wrong type has caused, raises that failure instead."""
    if failure is not None and "WRONGTYPE" not in str(failure):
        raise failure
    moved: Any = redis.Redis(connection_pool=pool).eval(MOVE_ASIDE, len(keys), *keys)
    for key in moved:
        dropped_messages.record(key.decode(), "wrong type, moved to scraper:aside:…", b"")


class BrokerClient(redis.Redis):
    def execute_command(self, *args: Any, **options: Any) -> Any:
        execute: Callable[..., Any] = super().execute_command
        return _run_again(self, [args], lambda: execute(*args, **options))

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _Pipeline(BrokerClient, Pipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        # Each run empties the pipeline, so a second run needs its commands again.
        stack = self.command_stack
        scripts = self.scripts
        explicit = self.explicit_transaction

        def run() -> list[Any]:
            self.command_stack = stack
            self.scripts = scripts
            self.explicit_transaction = explicit
            return Pipeline.execute(self, raise_on_error)

        return _run_again(self, [args for args, _ in stack], run)


def _run_again(client: redis.Redis, commands: Sequence[Sequence[Any]], run: Callable[[], T]) -> T:
    """Runs commands until none of their keys has a wrong type. Raises a connection error where
    a key is overwritten without end: the consumer then restarts."""
    for _ in range(TRIES):
        try:
            return run()
        except redis.ResponseError as error:
            keys: list[str] = []
            for name, *args in commands:
                keys += args[2 : 2 + args[1]] if name.startswith("EVAL") else args[:1]
            move_aside(client.connection_pool, keys, error)
    raise redis.ConnectionError("the broker's keys are overwritten without end")
