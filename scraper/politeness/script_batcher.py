"""One script, asked by many at once: what comes up while Redis answers goes there together, in one
pipeline.

A thousand hosts are a thousand questions a second. Each on its own would take a connection while it
waits, and a multiple of the time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import redis.asyncio as aredis
from redis.exceptions import NoScriptError

# This many take a few milliseconds: the last answer is not to be late for its slot.
AT_ONCE = 64


class ScriptBatcher:
    """Belongs to one event loop. Raises what Redis does, to each who asked."""

    def __init__(self, redis: aredis.Redis, script: str) -> None:
        self._redis, self._script = redis, script
        self._sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._waiting: list[tuple[list[str | int], asyncio.Future[tuple[float, Any]]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def ask(self, keys: Sequence[str], args: Sequence[str | int]) -> tuple[float, Any]:
        """The answer, and when it was asked for (loop time): the wait before that says nothing of
        Redis."""
        answer: asyncio.Future[tuple[float, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append(([len(keys), *keys, *args], answer))
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask_all())
        return await answer

    async def _ask_all(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                try:
                    asked = asyncio.get_running_loop().time()
                    answers = await self._answers([question for question, _ in group])
                except Exception as error:  # noqa: BLE001 - whoever asked gets it
                    answers = [error] * len(group)
                except BaseException:
                    for _, future in group:
                        future.cancel()
                    raise
                for (_, future), answer in zip(group, answers, strict=True):
                    if future.done():
                        continue
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result((asked, answer))
        finally:
            self._asking = None

    async def _answers(self, questions: list[list[str | int]]) -> list[Any]:
        answers = await self._run(questions)
        # Redis has answered none of them then.
        if any(isinstance(answer, NoScriptError) for answer in answers):
            await self._redis.script_load(self._script)
            answers = await self._run(questions)
        return answers

    async def _run(self, questions: list[list[str | int]]) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for question in questions:
                pipeline.execute_command("EVALSHA", self._sha, *question)
            return list(await pipeline.execute(raise_on_error=False))
