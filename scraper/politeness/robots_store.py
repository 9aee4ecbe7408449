"""Shares robots.txt texts in Redis: the fleet requests each host's once a day."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import orjson
import pydantic
import redis.asyncio as aredis
from redis.exceptions import RedisError, ResponseError

from scraper.infra.redis_clients import report_foreign

# RFC 9309 2.4 allows at most 24 hours.
GOOD_FOR_S = 24 * 3600
# A robots.txt that failed is requested again soon.
UNAVAILABLE_FOR_S = 20
# RFC 9309 2.5 requires at least 500 KiB.
TEXT_MAX_BYTES = 512 * 1024
# JSON escapes some bytes with six.
STORED_MAX_BYTES = 6 * TEXT_MAX_BYTES + 100
STORED = pydantic.TypeAdapter(tuple[Annotated[int, pydantic.Field(ge=0, le=999)], str])


class RobotsTexts:
    """Key `scraper:robots:ORIGIN` holds `[status, text]`; status 0 means that no response came."""

    def __init__(self, redis: aredis.Redis) -> None:
        self._redis = redis

    async def get(self, origin: str) -> tuple[int, bytes] | None:
        """Returns status and text. A cache that is away, or holds something else, counts as
        empty."""
        key = f"scraper:robots:{origin}"
        try:
            if raw := await self._redis.getrange(key, 0, STORED_MAX_BYTES):
                status, text = STORED.validate_json(raw)
                return status, text.encode("latin-1")
        except (ResponseError, ValueError):
            report_foreign(key.encode())
        except RedisError:
            pass
        return None

    async def put(self, origin: str, status: int, body: bytes) -> None:
        failed = status == 0 or status >= 500 or status == 429
        lasts_s = UNAVAILABLE_FOR_S if failed else GOOD_FOR_S
        value = orjson.dumps([status, body[:TEXT_MAX_BYTES].decode("latin-1")])
        with suppress(RedisError):
            await self._redis.set(f"scraper:robots:{origin}", value, ex=lasts_s)
