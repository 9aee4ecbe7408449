"""Makes the clients of Redis, whether its URL names a server or sentinels. They open connections
when they are first used."""

from __future__ import annotations

import redis
import redis.asyncio as aredis
import structlog
from redis.exceptions import NoPermissionError as NoPermissionError
from redis.exceptions import RedisError as RedisError

from scraper.infra.services import find_sentinels

CONNECT_MAX_S = 5.0
TIMEOUT_S = 10.0
# Of a client on an event loop. Its callers wait while all connections are in use; redis-py's
# default pool raises ConnectionError then, as if Redis were away.
POOL = {"max_connections": 32, "timeout": TIMEOUT_S}

log = structlog.get_logger()
# Up to 100 names: another program may write any number of keys.
_foreign: set[bytes] = set()


def report_foreign(key: bytes) -> None:
    """Logs once that a key's value, which this program never wrote, is dropped or not read. An
    empty `key`: there is none."""
    if key and key not in _foreign and len(_foreign) < 100:
        _foreign.add(key)
        log.warning("ignored a foreign value in Redis", key=repr(key[:200])[2:-1])


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
