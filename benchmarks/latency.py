"""Work that waits rather than computes: `python -m benchmarks.latency`. Every answer takes 300 ms;
one worker, on a core of its own; shops, servers and coordinator share the others.

paced: 1,000 hosts, each asked at most once a second. Counted in the shops' own log, in a window
in the middle of their crawls: how much of that rate they get, and the part of its core that the
worker spends on it.

unlimited: one host without a rate, 1,000 products, 500 requests at once. From when all links are
stored until the last product is, by PostgreSQL's clock; the first round has a worker that has
fetched nothing before.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from benchmarks.many_shops import Crawling, Shops, apart, crawling

LATENCY_S = 0.3
HOSTS = 1000
SITES = 100
RATE_PER_S = 1
SETTLES_S, WINDOW_S = 10.0, 20.0
PACED = Shops(HOSTS, products=90, latency_s=LATENCY_S)
PRODUCTS = 1000
CONCURRENCY = 500
PATIENCE_S = 60.0

# A transaction that stores pages gives them its own time.
TOOK = sa.text("""
SELECT extract(epoch FROM max(settled_at) FILTER (WHERE kind = 'product')
                        - max(settled_at) FILTER (WHERE kind <> 'product')) AS took_s,
       count(*) FILTER (WHERE kind = 'product' AND status = 'ok') AS products
  FROM pages WHERE crawl_id = :crawl
""")
ENDED = sa.text(
    "SELECT status FROM crawls WHERE id = :crawl AND status NOT IN ('planned', 'running')"
)


@dataclass(frozen=True)
class Paced:
    """`kept`: the part of the rate that the hosts got; `worst`: that the one which got the least
    got. `cpu_share`: of one core, the worker's in the window. `ended`: hosts without pages left
    before the window's end."""

    kept: float
    worst: float
    cpu_share: float
    worker_mb: float
    ended: int
    load: float


@dataclass(frozen=True)
class Unlimited:
    """`took_s`: discovery's end to the last product stored, a round each."""

    took_s: list[float]
    load: float


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=("paced", "unlimited"), help="one of the two")
    parser.add_argument(
        "--rounds", type=int, default=3, help="crawls of the unlimited host (default: 3)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    args = parser.parse_args()
    paced = apart(_paced, [None]) if args.only != "unlimited" else []
    unlimited = apart(_unlimited, [args.rounds]) if args.only != "paced" else []
    if args.json:
        print(json.dumps([asdict(run) for run in (*paced, *unlimited)], indent=2))
        return
    for run in paced:
        print(
            f"paced      {HOSTS:,} hosts get {run.kept:.1%} of {RATE_PER_S} request/s each, the worst {run.worst:.0%}; "
            f"the worker spends {run.cpu_share:.0%} of a core, {run.worker_mb:.0f} MB; load {run.load:.1f}"
            + (f"; {run.ended} hosts had no page left" if run.ended else "")
        )
    for each in unlimited:
        rounds = ", ".join(f"{seconds:.2f} s" for seconds in each.took_s)
        print(
            f"unlimited  {PRODUCTS:,} products in {rounds} after their discovery; load {each.load:.1f}"
        )


def _paced(_: None) -> Paced:
    with crawling(PACED, own_core=True) as crawl:
        for number in range(SITES):
            crawl.define(
                f"shop-{number}", crawl.ports[number::SITES], rate=f"{RATE_PER_S}/s", concurrency=4
            )
        for number in range(SITES):
            crawl.open(f"shop-{number}")
        while len(log := crawl.log()) < 2 * HOSTS or len({host for _, host in log}) < HOSTS:
            time.sleep(0.5)
        time.sleep(SETTLES_S)
        began, cpu_s = time.monotonic(), crawl.worker_cpu_s
        time.sleep(WINDOW_S)
        ended, spent_s, megabytes = time.monotonic(), crawl.worker_cpu_s - cpu_s, crawl.worker_mb
        load = os.getloadavg()[0]
        log = crawl.log()
    seen, before_end = [0] * HOSTS, [0] * HOSTS
    for at, host in log:
        seen[host] += began <= at < ended
        before_end[host] += at < ended
    most = RATE_PER_S * (ended - began)
    over = sum(1 for requests in before_end if requests > PACED.products)
    return Paced(
        sum(seen) / HOSTS / most, min(seen) / most, spent_s / (ended - began), megabytes, over, load
    )


def _unlimited(rounds: int) -> Unlimited:
    with crawling(Shops(rounds, PRODUCTS, LATENCY_S), own_core=True) as crawl:
        took_s = []
        for number in range(rounds):
            crawl.define(
                f"shop-{number}", [crawl.ports[number]], rate="unlimited", concurrency=CONCURRENCY
            )
            took_s.append(_one(crawl, f"shop-{number}"))
            time.sleep(3)
        return Unlimited(took_s, os.getloadavg()[0])


def _one(crawl: Crawling, name: str) -> float:
    crawl_id, give_up_at = crawl.open(name), time.monotonic() + PATIENCE_S
    with crawl.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while connection.execute(ENDED, {"crawl": crawl_id}).scalar() != "completed":
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"{name} is not done after {PATIENCE_S:.0f} s")
            time.sleep(0.2)
        row = connection.execute(TOOK, {"crawl": crawl_id}).one()
    if row.products != PRODUCTS:
        raise RuntimeError(f"{row.products} products, not {PRODUCTS}")
    return float(row.took_s)


if __name__ == "__main__":
    main()
