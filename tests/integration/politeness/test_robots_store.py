"""The shared cache of robots.txt on a real Valkey."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio as aredis

from scraper.politeness.robots_store import RobotsTexts

ORIGIN = "https://shop.example"
KEY = f"scraper:robots:{ORIGIN}"


@pytest.mark.parametrize(
    "stored",
    [b"", b"x", b"{}", b"[200]", b"[200, 5]", b'["x", "y"]', b'[99999, "y"]', b"\xff\x00", b"null",
     '[200, "\u20ac"]'.encode(), None],
)  # fmt: skip
def test_a_foreign_value_counts_as_none_and_is_replaced(
    valkey_url: str, stored: bytes | None
) -> None:
    async def work() -> None:
        async with aredis.Redis.from_url(valkey_url) as client:
            if stored is None:
                await client.rpush(KEY, "x")  # type: ignore[misc]
            else:
                await client.set(KEY, stored)
            texts = RobotsTexts(client)
            assert await texts.get(ORIGIN) is None
            await texts.put(ORIGIN, 200, b"User-agent: *\nDisallow: /caf\xe9")
            assert await texts.get(ORIGIN) == (200, b"User-agent: *\nDisallow: /caf\xe9")
            await texts.put(ORIGIN, 999, b"")
            assert await texts.get(ORIGIN) == (999, b"")

    asyncio.run(work())


def test_a_huge_value_does_not_come_whole(valkey_url: str) -> None:
    async def work() -> None:
        async with aredis.Redis.from_url(valkey_url) as client:
            await client.set(KEY, b"x" * 100_000_000)
            before = await client.client_info()  # type: ignore[misc]
            assert await RobotsTexts(client).get(ORIGIN) is None
            after = await client.client_info()  # type: ignore[misc]
            assert after["id"] == before["id"], "it is the same connection"
            assert int(after["tot-net-out"]) - int(before["tot-net-out"]) < 5_000_000

    asyncio.run(work())
