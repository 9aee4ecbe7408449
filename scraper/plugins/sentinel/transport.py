"""kombu's transport for Sentinel, with our changes to that for Redis."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis

from scraper import settings
from scraper.plugins.sentinel.address import PORT, parse_address
from scraper.plugins.sentinel.clients import sentinel_options
from scraper.runtime.redis_transport import RedisChannel, RedisTransport


class SentinelChannel(RedisChannel, redis.SentinelChannel):
    """Finds the primary as kombu's channel does, and reads messages as `RedisChannel` does."""

    @property
    def sentinel_kwargs(self) -> dict[str, Any]:
        """The options for sentinels, which kombu reads. As options of the transport, `celery
        inspect stats` would show their password."""
        return sentinel_options(parse_address(settings.load().own_broker_url))


class SentinelTransport(RedisTransport):
    default_port = PORT  # type: ignore[assignment]
    Channel = SentinelChannel
