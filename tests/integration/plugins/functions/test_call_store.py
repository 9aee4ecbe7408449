"""Results of calls in a real Redis, in which others write too."""

from __future__ import annotations

import asyncio

import pytest
import redis
import redis.asyncio as aredis

from scraper.plugins.functions.store import DONE, GroupLeases, redis_keys


@pytest.mark.parametrize("pending", ["9" * 15, "9" * 400, "-1", "nan", ""])
def test_a_forged_count_of_unread_bytes_stops_no_results(valkey_url: str, pending: str) -> None:
    call, results = redis_keys("c")
    with redis.Redis.from_url(valkey_url) as client:
        client.hset(call, mapping={"state": "open", "pending": pending})
        client.set(results, "x")

    async def push() -> list[int]:
        async with aredis.Redis.from_url(valkey_url) as client:
            leases = GroupLeases(client, 10.0)
            return [await leases.push("c", {"g": 1}) for _ in range(2)]

    assert asyncio.run(push()) == [DONE, DONE]
