"""Calls of a script that leave together, on a real Valkey that may not have the script."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio as aredis

from scraper.politeness.script_batcher import ScriptBatcher
from tests.support.servers import valkey

COUNT = "return {ARGV[1], redis.call('INCR', KEYS[1])}"


async def call_together(batcher: ScriptBatcher, names: str) -> list[Any]:
    replies = await asyncio.gather(*(batcher.call(["calls"], [name]) for name in names))
    return [reply for _, reply in replies]


@pytest.mark.parametrize("change", ["SCRIPT LOAD", "SCRIPT FLUSH"])
def test_each_call_runs_once_while_another_process_loads_or_drops_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Redis runs the other process's command between two calls of the pipeline."""

    async def case(url: str) -> list[Any]:
        async with aredis.Redis.from_url(url, decode_responses=True) as client:
            batcher = ScriptBatcher(client, COUNT)
            if change == "SCRIPT FLUSH":
                await client.script_load(COUNT)
            run_pipeline = batcher._run_pipeline

            async def run_interrupted(calls: list[list[str | int]]) -> list[Any]:
                monkeypatch.setattr(batcher, "_run_pipeline", run_pipeline)
                before = await run_pipeline(calls[:2])
                await client.execute_command(change, *[COUNT] * (change == "SCRIPT LOAD"))
                return [*before, *await run_pipeline(calls[2:])]

            monkeypatch.setattr(batcher, "_run_pipeline", run_interrupted)
            return await call_together(batcher, "abcd")

    # Scripts are the whole server's.
    with valkey.Server(tmp_path) as server:
        replies = asyncio.run(case(server.url))
        with redis.Redis.from_url(server.url) as client:
            assert client.get("calls") == b"4"
    assert [name for name, _ in replies] == list("abcd")
    assert sorted(number for _, number in replies) == [1, 2, 3, 4]
