"""`python -m benchmarks.bloom`: what a site's Bloom filter costs, and how often it is wrong, on a
Valkey of its own.

With `--url` on another server; the filter is deleted again. What else that server does is counted
as Redis's time.

Finished URLs are added, to one generation or to several, as if half of the time that they are
remembered had passed before each; then URLs that were never added are asked for, and some that
were. With three generations two are full at the end and the first is forgotten: the most that a
filter is ever wrong. The arithmetic's figures stand beside what was measured.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from uuid import UUID, uuid4

import redis

from scraper.dedup.bloom import BloomFilter, FilterStore
from scraper.embedded import servers
from scraper.settings import Settings

LIFE_S = 7 * 86_400.0
GROUP = 200
# sites are numbered from 1
NO_SITE = 0
SURE = 1.96  # 95 %


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds a URL: of Redis's and of this process's CPU."""

    redis_us: float
    client_us: float


@dataclass(frozen=True, slots=True)
class Figures:
    urls: int
    asked: int
    generations: int
    keys: int
    memory_bytes: int
    bytes_a_url: float
    wrong: int
    false_positives: float
    at_most: float
    expected: float
    forgotten: int
    add: Cost
    unknown: Cost
    known: Cost


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bloom", description=__doc__)
    parser.add_argument("--urls", type=int, default=10_000_000, metavar="N", help="added in all")
    parser.add_argument(
        "--ask", type=int, default=2_000_000, metavar="N", help="new ones asked for"
    )
    parser.add_argument(
        "--generations", type=int, choices=(1, 2, 3), default=1, help="into which they are added"
    )
    parser.add_argument(
        "--capacity", type=int, metavar="N", help="that the filter is made for (default: --urls)"
    )
    parser.add_argument(
        "--url", metavar="URL", help="of a Redis or Valkey to measure in place of one of its own"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    args = parser.parse_args()
    with _server(args.url) as url, redis.Redis.from_url(url, socket_timeout=120) as client:
        figures = measure(client, args.urls, args.ask, args.generations, args.capacity or args.urls)
    print(told(figures))
    if args.json:
        args.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    home = Path(tempfile.mkdtemp(prefix="scraper-bloom-"))
    settings = Settings(home=home)
    try:
        servers.up(settings)
        yield settings.valkey_url
    finally:
        servers.down(settings)
        shutil.rmtree(home, ignore_errors=True)


def measure(client: redis.Redis, urls: int, ask: int, generations: int, capacity: int) -> Figures:
    one, filters = BloomFilter(NO_SITE, uuid4(), LIFE_S, capacity), FilterStore(client)
    clock, done = Clock(client), 0
    for generation in range(1, generations + 1):
        until = urls * generation // generations
        for some in _groups("old", done, until):
            filters.add(one, some)
            done += len(some)
            if done % 1_000_000 < GROUP:
                _say(f"{done:,} added")
        if generation < generations:
            _age(client, one, LIFE_S / 2)
    add, clock = clock.a_url(urls), Clock(client)
    wrong = sum(sum(filters.lookup(one, some)[0]) for some in _groups("new", 0, ask))
    unknown = clock.a_url(ask)
    first = urls * max(0, generations - 2) // generations
    step = max(1, (urls - first) // min(urls, 500_000))
    again = [fingerprint("old", number) for number in range(first, urls, step)]
    clock = Clock(client)
    found = sum(
        sum(filters.lookup(one, again[at : at + GROUP])[0]) for at in range(0, len(again), GROUP)
    )
    known = clock.a_url(len(again))
    state = filters.read_state(one)
    filters.forget(NO_SITE)
    rate = wrong / ask
    return Figures(
        urls=urls - first,
        asked=ask,
        generations=len(state.generations),
        keys=state.keys,
        memory_bytes=state.memory_bytes,
        bytes_a_url=state.memory_bytes / (urls - first),
        wrong=wrong,
        false_positives=rate,
        at_most=rate + SURE * math.sqrt(rate / ask),
        expected=state.false_positives,
        forgotten=len(again) - found,
        add=add,
        unknown=unknown,
        known=known,
    )


class Clock:
    """CPU seconds of Redis and of this process since it was made."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._redis, self._mine = self._cpu(), time.process_time()

    def _cpu(self) -> float:
        found = self._client.info("cpu")
        return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])

    def a_url(self, urls: int) -> Cost:
        return Cost(
            (self._cpu() - self._redis) / urls * 1e6,
            (time.process_time() - self._mine) / urls * 1e6,
        )


def fingerprint(sort: str, number: int) -> UUID:
    return UUID(bytes=blake2b(f"{sort}/{number}".encode(), digest_size=16).digest())


def _groups(sort: str, start: int, stop: int) -> Iterator[list[UUID]]:
    for first in range(start, stop, GROUP):
        yield [fingerprint(sort, number) for number in range(first, min(stop, first + GROUP))]


def _age(client: redis.Redis, one: BloomFilter, by_s: float) -> None:
    """As if the filter had been made so much earlier."""
    state = json.loads(client.get(one.key) or b"")
    for gen in state["gens"]:
        gen["began"] -= round(by_s * 1000)
        gen["ends"] -= round(by_s * 1000)
    client.set(one.key, json.dumps(state), keepttl=True)


def told(figures: Figures) -> str:
    lines = [
        f"{figures.urls:,} URLs remembered in {figures.generations} generation(s), {figures.keys} keys",
        f"memory            {figures.memory_bytes / 1e6:,.1f} MB, {figures.bytes_a_url:.3f} bytes a URL",
        f"false positives   {figures.wrong:,} of {figures.asked:,}: {figures.false_positives:.4%} "
        f"(95 %: at most {figures.at_most:.4%}; expected {figures.expected:.4%})",
        f"false negatives   {figures.forgotten}",
    ]
    for name, cost in (
        ("add", figures.add),
        ("ask for a new one", figures.unknown),
        ("ask for a known one", figures.known),
    ):
        lines.append(
            f"{name:<22} Redis {cost.redis_us:5.2f} us, client {cost.client_us:5.2f} us a URL"
        )
    return "\n".join(lines)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
