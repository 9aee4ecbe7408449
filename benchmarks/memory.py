"""Does a worker's memory grow? One worker of ours crawls the benchmark's shop again and again:
`python -m benchmarks.memory`.

After each crawl: what the worker holds (RSS, and PSS where the system tells), and what a page has
cost by then: CPU of the worker, the coordinator, PostgreSQL and Valkey, commands to Valkey,
messages, WAL. Progress goes to stderr, the table to stdout. Flat is: the last quarter of the crawls
holds no more than a few MB above the second quarter (the first fills caches).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
import redis

from benchmarks import ours
from benchmarks.__main__ import INTERRUPTED, say
from benchmarks.cost import cpu_s
from benchmarks.rig import Rig, rig
from benchmarks.sizes import wal_bytes
from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.rules.routing import COORDINATOR
from scraper.sites import loader
from scraper.views import progress

POLL_S = 0.5
GROWN_MB = 10.0


@dataclass(frozen=True)
class Sample:
    """After so many pages: the worker's memory, and what all has cost since the first crawl began."""

    pages: int
    wall_s: float
    rss_mb: float
    pss_mb: float
    worker_s: float
    coordinator_s: float
    postgres_s: float
    valkey_s: float
    valkey_commands: int
    valkey_bytes: int
    messages: int
    wal_bytes: int
    load: float


def measure(place: Rig, pages: int) -> list[Sample]:
    """Crawls until so many pages are read, by one worker and one coordinator."""
    place.fresh()
    with place.admin() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {ours.DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {ours.DATABASE}")
    url = place.database(ours.DATABASE).replace("postgresql://", "postgresql+psycopg://")
    engine = make_engine(url)
    client = redis.Redis.from_url(place.config.valkey_url)
    try:
        migrations.upgrade(engine)
        with engine.begin() as connection:
            text = ours.definition(place.shop_url, place.concurrency)
            sites.sync(connection, [loader.load_text(text, "benchmarks/bench.yaml")])
        with ours.fleet_of(place, url, workers=1, spread=True, events=True) as pids:
            now = lambda done: _sample(place, engine, client, pids, done)  # noqa: E731
            found = [now(0)]
            while found[-1].pages < pages:
                done = found[-1].pages + _crawl(place, engine)
                found.append(now(done))
                last = found[-1]
                say(
                    f"{done:,} of {pages:,} pages, the worker holds {last.rss_mb:.0f} MB, load {last.load:.1f}"
                )
            return found
    finally:
        client.close()
        engine.dispose()


def _crawl(place: Rig, engine: Any) -> int:
    from scraper.runtime.send import send

    opened = plan.open_now(engine, "bench")
    send(opened.messages)
    while (ended := progress.read_one(engine, opened.crawl_id)).active:
        time.sleep(POLL_S)
    if ended.status != "completed":
        raise RuntimeError(f"the crawl {ended.status}: {ended.note}")
    return ended.done


def _sample(
    place: Rig, engine: Any, client: redis.Redis, pids: dict[str, int], pages: int
) -> Sample:
    held = psutil.Process(pids["worker-1"]).memory_full_info()
    servers, stats = place.servers_cpu(), client.info("all")
    pushed = stats.get("cmdstat_lpush", {}).get("calls", 0)
    return Sample(
        pages=pages,
        wall_s=time.monotonic(),
        rss_mb=held.rss / 1e6,
        pss_mb=getattr(held, "pss", 0) / 1e6,
        worker_s=cpu_s(pids["worker-1"]),
        coordinator_s=cpu_s(pids[COORDINATOR]),
        postgres_s=servers.postgres,
        valkey_s=servers.valkey,
        valkey_commands=stats["total_commands_processed"],
        valkey_bytes=stats["used_memory"],
        messages=pushed,
        wal_bytes=wal_bytes(engine),
        load=os.getloadavg()[0],
    )


def grown_mb(found: Sequence[Sample]) -> float:
    """What the worker holds on average in the last quarter of its crawls above that in the second
    quarter."""
    crawled = found[1:]
    quarter = max(1, len(crawled) // 4)
    before = crawled[quarter : 2 * quarter] or crawled[:1]
    return mean(sample.rss_mb for sample in crawled[-quarter:]) - mean(
        sample.rss_mb for sample in before
    )


def table(found: Sequence[Sample]) -> str:
    """Memory after each crawl, costs a page over all of them."""
    lines = [f"{'pages':>10}{'RSS, MB':>10}{'PSS, MB':>10}{'Valkey, KB':>12}{'load':>7}"]
    for sample in found:
        lines.append(
            f"{sample.pages:>10,}{sample.rss_mb:>10.1f}{sample.pss_mb:>10.1f}{sample.valkey_bytes / 1e3:>12,.0f}"
            f"{sample.load:>7.1f}"
        )
    first, last = found[0], found[-1]
    pages = max(1, last.pages - first.pages)
    grown = grown_mb(found)
    lines.append(
        f"From the second quarter to the last: {grown:+.1f} MB, {'grown' if grown > GROWN_MB else 'flat'}."
    )
    lines.append(
        "A page: "
        + ", ".join(
            f"{1e6 * (getattr(last, name) - getattr(first, name)) / pages:.0f} us CPU of {who}"
            for name, who in (
                ("worker_s", "the worker"),
                ("coordinator_s", "the coordinator"),
                ("postgres_s", "PostgreSQL"),
                ("valkey_s", "Valkey"),
            )
        )
    )
    commands, messages = (
        last.valkey_commands - first.valkey_commands,
        last.messages - first.messages,
    )
    lines.append(
        f"        {commands / pages:.2f} commands to Valkey, {messages / pages:.4f} messages, "
        f"{(last.wal_bytes - first.wal_bytes) / pages:,.0f} B of WAL; "
        f"{pages / (last.wall_s - first.wall_s):.0f} pages a second"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--pages", type=int, default=200_000, metavar="N", help="to crawl in all (default: 200000)"
    )
    parser.add_argument(
        "--products", type=int, default=5000, metavar="N", help="in the shop (default: 5000)"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every sample there as well"
    )
    args = parser.parse_args()
    if min(args.pages, args.products) < 1:
        parser.error("--pages and --products are 1 or more")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with rig(args.products, 0.0, 64) as place:
            found = measure(place, args.pages)
    except KeyboardInterrupt:
        say("interrupted: everything that was started has been ended")
        sys.exit(INTERRUPTED)
    print(table(found))
    if args.json:
        args.json.write_text(json.dumps([asdict(sample) for sample in found], indent=2) + "\n")
    sys.exit(int(grown_mb(found) > GROWN_MB))


if __name__ == "__main__":
    main()
