"""robots.txt texts in Redis, shared by the fleet: one fetch a host and day, not one a worker."""

from __future__ import annotations

from contextlib import suppress

import orjson
import redis.asyncio as aredis
from redis.exceptions import RedisError

# RFC 9309 2.4 allows 24 hours at the most.
GOOD_FOR_S = 24 * 3600
# A host whose robots.txt fails is asked again soon.
UNAVAILABLE_FOR_S = 20
# RFC 9309 2.5 asks that at least 500 KiB are read.
TEXT_MAX_BYTES = 512 * 1024


class RobotsTexts:
    """Key `scraper:robots:ORIGIN` holds `[status, text]`; status 0 stands for no answer at all."""

    def __init__(self, redis: aredis.Redis) -> None:
        self._redis = redis

    async def get(self, origin: str) -> tuple[int, bytes] | None:
        try:
            raw = await self._redis.get(f"scraper:robots:{origin}")
        except RedisError:
            # A cache that is away is an empty one.
            return None
        if raw is None:
            return None
        status, text = orjson.loads(raw)
        return int(status), text.encode("latin-1")

    async def put(self, origin: str, status: int, body: bytes) -> None:
        lasts = UNAVAILABLE_FOR_S if status == 0 or status >= 500 or status == 429 else GOOD_FOR_S
        value = orjson.dumps([status, body[:TEXT_MAX_BYTES].decode("latin-1")])
        with suppress(RedisError):
            await self._redis.set(f"scraper:robots:{origin}", value, ex=lasts)
