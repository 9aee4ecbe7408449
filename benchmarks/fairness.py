"""What a hanging host costs the others: `python -m benchmarks.fairness`. A whole fleet, crawling
200 small shops.

Each shop is a host of its own (a port of this machine), asked twice a second at the most; an answer
takes 50 ms, but one shop takes the request and never answers. One worker process. Counted in the
shops' own log, in a window in the middle of the crawls: the requests that the other 199 got, with
that shop and without it, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from statistics import median

from benchmarks.many_shops import Shops, apart, crawling

HOSTS = 200
RATE_PER_S = 2
# after the first request: all are under way, none is done
FROM_S, TO_S = 6.0, 24.0
SHOPS = Shops(HOSTS, products=60, latency_s=0.05)


@dataclass(frozen=True)
class Run:
    """`others_per_s`: requests a second that all but the first host got in the window; `kept`: that
    as a part of what their rate allows. `first`: what the first one got."""

    hanging: bool
    others_per_s: float
    kept: float
    first: int
    worker_cpu_s: float
    load: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    args = parser.parse_args()
    runs = apart(_run, [False, True] * args.rounds)
    without, with_one = (
        median(run.others_per_s for run in runs if run.hanging is each) for each in (False, True)
    )
    if args.json:
        print(
            json.dumps(
                {"ratio": with_one / without, "runs": [asdict(run) for run in runs]}, indent=2
            )
        )
        return
    for run in runs:
        print(
            f"{'one hangs' if run.hanging else 'all answer':<12}{run.others_per_s:>8.1f} requests/s at the other "
            f"{HOSTS - 1}, {run.kept:.1%} of their rate{run.first:>6} at the first"
            f"{run.worker_cpu_s:>8.1f} s of the worker's CPU; load {run.load:.1f}"
        )
    print(f"with a host that hangs the others get {with_one / without:.1%}")


def _run(hanging: bool) -> Run:
    with crawling(replace(SHOPS, hangs=0 if hanging else None)) as crawl:
        names = [f"shop-{number}" for number in range(HOSTS)]
        for name, port in zip(names, crawl.ports, strict=True):
            crawl.define(name, [port], rate=f"{RATE_PER_S}/s", concurrency=2)
        before = crawl.worker_cpu_s
        for name in names:
            crawl.open(name)
        time.sleep(TO_S + 4)
        spent = crawl.worker_cpu_s - before
        load = os.getloadavg()[0]
        log = crawl.log()
    began = min(at for at, _ in log)
    seen = [host for at, host in log if FROM_S <= at - began < TO_S]
    others = sum(1 for host in seen if host != 0) / (TO_S - FROM_S)
    return Run(
        hanging,
        others,
        others / RATE_PER_S / (HOSTS - 1),
        len(seen) - round(others * (TO_S - FROM_S)),
        spent,
        load,
    )


if __name__ == "__main__":
    main()
