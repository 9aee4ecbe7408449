"""What a page pays for its host's budget: `python -m benchmarks.gate`. A real Valkey, no requests.

CPU time of this process a page, on one host: without a rate, and with one that is never reached.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

import redis.asyncio as aredis

from scraper.plugins.embedded import servers
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.politeness.host_limiters import HostLimiters
from scraper.rules.budget import Budget
from scraper.settings import Settings

PAGES = 50_000
LANES = 64


async def crawl(url: str, budget: Budget, pages: int) -> float:
    """CPU seconds a page."""
    async with aredis.Redis.from_url(url) as client:
        limiters = HostLimiters(RedisFleetLimiter(client, "bench"))
        limiter = limiters.for_host("shop.example")
        left = limiter.pending = pages
        far = asyncio.get_running_loop().time() + 1e6

        async def lane() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                limiter.set_budget(1, budget)
                limiter.set_crawl_delay(1, 0.0)
                async with limiter.permit(far):
                    limiter.good_answers += 1
                limiter.pending -= 1

        began = time.process_time()
        await asyncio.gather(*(lane() for _ in range(LANES)))
        return (time.process_time() - began) / pages


def main() -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="scraper-bench-") as home:
        settings = Settings(home=Path(home))
        servers.up(settings)
        try:
            for name, budget, pages in (
                ("no rate", Budget(0.0, LANES), PAGES),
                ("5,000 a second", Budget(0.0002, LANES), PAGES // 10),
            ):
                cpu_s = min(
                    asyncio.run(crawl(settings.valkey_url, budget, pages)) for _ in range(3)
                )
                print(f"{name:<20}{1e6 * cpu_s:>8.1f} us a page")
        finally:
            servers.down(settings)


if __name__ == "__main__":
    main()
