"""What a hanging host costs the others: `python -m benchmarks.fairness`. Real gates and a real Valkey, no requests.

200 hosts in batches of 100 pages, 16 batches at a time, as a worker process has them; an answer takes 20 ms, that of the
hanging host 20 s. Pages that are sent back come again when they said. Prints the others' pages a second, with and without.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections import defaultdict, deque
from pathlib import Path

import redis.asyncio as aredis

from scraper import embedded
from scraper.errors import DeferredError
from scraper.fetch.gates import Gates
from scraper.policy.budget import Budget
from scraper.settings import Settings
from scraper.stores.throttle import Throttle

HOSTS, PLACES, BATCH, LASTS_S = 200, 16, 100, 12.0
HELD_MAX = 40  # pages of a host that dispatch lets out at a time: its rate within the horizon
BUDGET = Budget(0.25, 4)


async def crawl(url: str, *, hanging: bool) -> float:
    """Pages a second of the hosts that answer."""
    async with aredis.Redis.from_url(url) as client:
        await client.flushdb()
        gates = Gates(Throttle(client, "bench"))
        loop = asyncio.get_running_loop()
        end, done = loop.time() + LASTS_S, 0
        out: defaultdict[int, int] = defaultdict(int)
        not_before: defaultdict[int, float] = defaultdict(float)

        async def lane(host: int, pages: deque[int], latest: float) -> None:
            nonlocal done
            gate = gates.of(f"{host}.example")
            gate.budget(1, BUDGET)
            while pages:
                pages.popleft()
                try:
                    async with gate.turn(latest):
                        await asyncio.sleep(20.0 if hanging and host == 0 else 0.02)
                    done += not (hanging and host == 0) and loop.time() < end
                except DeferredError as error:
                    not_before[host] = max(not_before[host], loop.time() + error.delay_s)
                finally:
                    gate.pending -= 1
                    out[host] -= 1

        async def place() -> None:
            while (now := loop.time()) < end:
                free = [host for host in range(HOSTS) if out[host] <= HELD_MAX // 2 and not_before[host] <= now]
                chosen = random.sample(free, min(len(free), 10))
                if not chosen:
                    await asyncio.sleep(0.05)
                    continue
                lanes = []
                for host in chosen:
                    pages = deque(range(BATCH // 10))
                    out[host] += len(pages)
                    gates.of(f"{host}.example").pending += len(pages)
                    lanes += [lane(host, pages, now + 10) for _ in range(BUDGET.concurrency)]
                await asyncio.gather(*lanes)

        places = [asyncio.ensure_future(place()) for _ in range(PLACES)]
        await asyncio.sleep(LASTS_S)
        for each in places:
            each.cancel()
        await asyncio.gather(*places, return_exceptions=True)
        return done / LASTS_S


def main() -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="scraper-bench-") as home:
        settings = Settings(home=Path(home))
        embedded.up(settings)
        try:
            began = time.monotonic()
            without = asyncio.run(crawl(settings.valkey_url, hanging=False))
            with_one = asyncio.run(crawl(settings.valkey_url, hanging=True))
            print(
                f"{without:.0f} pages a second without, {with_one:.0f} with a host that hangs: {with_one / without:.1%}"
            )
            print(f"took {time.monotonic() - began:.0f} s")
        finally:
            embedded.down(settings)


if __name__ == "__main__":
    main()
