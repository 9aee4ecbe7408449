"""Makes the clients of Redis, whether its URL names a server or sentinels. They open connections
when they are first used."""

from __future__ import annotations

import redis
import redis.asyncio as aredis
from redis.exceptions import NoPermissionError as NoPermissionError
from redis.exceptions import RedisError as RedisError

from scraper.infra.services import find_sentinels

CONNECT_MAX_S = 5.0
TIMEOUT_S = 10.0
# Of a client on an event loop. Its callers wait while all connections are in use; redis-py's
# default pool raises ConnectionError then, as if Redis were away.
POOL = {"max_connections": 32, "timeout": TIMEOUT_S}


def connect(url: str, timeout_s: float = TIMEOUT_S) -> redis.Redis:
    options = _limit_waits(timeout_s)
    if url.startswith("sentinel:"):
        return find_sentinels().connect(url, **options)
    return redis.Redis.from_url(url, **options)


def connect_async(url: str) -> aredis.Redis:
    options = POOL | _limit_waits(TIMEOUT_S)
    if url.startswith("sentinel:"):
        return find_sentinels().connect_async(url, **options)
    return aredis.Redis.from_pool(aredis.BlockingConnectionPool.from_url(url, **options))


def _limit_waits(timeout_s: float) -> dict[str, float]:
    return {"socket_connect_timeout": min(timeout_s, CONNECT_MAX_S), "socket_timeout": timeout_s}
