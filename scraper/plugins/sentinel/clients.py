"""Clients of a Redis that Sentinel watches: each new connection asks the sentinels for the primary.

A failover breaks the connections to the old primary. Until the sentinels agree on the new one, no
primary is found, which counts as an outage of Redis.
"""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio as aredis
from kombu.transport import TRANSPORT_ALIASES
from redis.asyncio import sentinel as async_sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from scraper.plugins.sentinel.address import SentinelAddress, parse_address

# A sentinel that does not answer is followed by the next one.
SENTINEL_TIMEOUT_S = 2.0


class SentinelService:
    """Fills `scraper.infra.services.Sentinels`."""

    def broker_url(self, url: str) -> str:
        return parse_address(url).broker_url

    def broker_options(self, url: str) -> dict[str, Any]:
        return {"master_name": parse_address(url).master_name}

    def connect(self, url: str, **options: Any) -> redis.Redis:
        address = parse_address(url)
        sentinels: Any = Sentinel(  # type: ignore[no-untyped-call]
            address.hosts, sentinel_kwargs=sentinel_options(address)
        )
        client: redis.Redis = sentinels.master_for(
            address.master_name, **address.primary, **options
        )
        return client

    def connect_async(self, url: str, **options: Any) -> aredis.Redis:
        address = parse_address(url)
        own = {**sentinel_options(address), "retry": AsyncRetry(NoBackoff(), 0)}
        sentinels = async_sentinel.Sentinel(  # type: ignore[no-untyped-call]
            address.hosts, sentinel_kwargs=own
        )
        client: aredis.Redis = sentinels.master_for(
            address.master_name, connection_pool_class=WaitingPool, **address.primary, **options
        )
        return client


class WaitingPool(async_sentinel.SentinelConnectionPool, aredis.BlockingConnectionPool):
    """Makes a caller wait while all connections are in use, and closes those to sentinels too."""

    async def aclose(self) -> None:
        await super().aclose()
        for client in self.sentinel_manager.sentinels:
            await client.aclose()


def sentinel_options(address: SentinelAddress) -> dict[str, Any]:
    """Returns the options of redis-py for connections to the sentinels."""
    return {
        "socket_connect_timeout": SENTINEL_TIMEOUT_S,
        "socket_timeout": SENTINEL_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
        **address.sentinel,
    }


def load_app(arguments: list[str]) -> None:
    """Names the transport of kombu for `sentinel://`, which kombu imports when it connects."""
    TRANSPORT_ALIASES["sentinel"] = "scraper.plugins.sentinel.transport:SentinelTransport"


SENTINELS = SentinelService()
