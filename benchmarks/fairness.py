"""What a hanging host costs the others: `python -m benchmarks.fairness`. A whole fleet, crawling 200 small shops.

Each shop is a host of its own (a port of this machine), asked twice a second at the most; an answer takes 50 ms, but one
shop takes the request and never answers. One worker process. Counted in the shops' own log, in a window in the middle of the
crawls: the requests that the other 199 got, with that shop and without it, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from statistics import median

import psutil
import sqlalchemy as sa

from scraper import embedded, migrations, plan, settings
from scraper.commands import fleet
from scraper.policy.routing import COORDINATOR
from scraper.sites import loader
from scraper.stores import sites
from scraper.stores.database import make_engine

HOSTS = 200
PRODUCTS = 60
RATE_PER_S = 2.0
LATENCY_S = 0.05
FROM_S, TO_S = 6.0, 24.0  # after the first request: all are under way, none is done
SITE = """
name: shop-{number}
start: {start}
rate: {rate}/s
concurrency: 2
robots: ignore
allow_private: true
listing: {{products: a}}
product: {{id: {{url: "/p/(\\\\d+)"}}, fields: {{title: {{css: h1, required: true}}}}}}
"""


@dataclass(frozen=True)
class Run:
    """`others_per_s`: requests a second that all but the first host got in the window. `first`: what that one got."""

    hanging: bool
    others_per_s: float
    first: int
    worker_cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--serve", choices=("all", "all-but-one"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(_serve(hanging=args.serve == "all-but-one"))
        return
    spawn = multiprocessing.get_context("spawn")  # a process a run: Celery keeps to one broker
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as one:
        runs = list(one.map(_run, [False, True] * args.rounds))
    without, with_one = (median(run.others_per_s for run in runs if run.hanging is each) for each in (False, True))
    if args.json:
        print(json.dumps({"ratio": with_one / without, "runs": [asdict(run) for run in runs]}, indent=2))
        return
    for run in runs:
        print(
            f"{'one hangs' if run.hanging else 'all answer':<12}{run.others_per_s:>8.1f} requests/s at the other {HOSTS - 1}"
            f"{run.first:>6} at the first{run.worker_cpu_s:>8.1f} s of the worker's CPU"
        )
    print(f"with a host that hangs the others get {with_one / without:.1%}")


def _run(hanging: bool) -> Run:
    with tempfile.TemporaryDirectory(prefix="scraper-bench-") as home, ExitStack() as stack:
        for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL"):
            os.environ.pop(name, None)
        os.environ |= {"SCRAPER_HOME": home, "SCRAPER_SITES": f"{home}/no-sites", "SCRAPER_LOG_LEVEL": "WARNING"}
        config = settings.load()
        shops = stack.enter_context(_shops(hanging=hanging))
        assert shops.stdout is not None and shops.stdin is not None
        ports = json.loads(shops.stdout.readline())
        embedded.up(config)
        stack.callback(embedded.down, config)
        engine = make_engine(config.postgres_url)
        stack.callback(engine.dispose)
        migrations.upgrade(engine)
        _take_over(engine, ports)
        processes = [
            fleet.start(config, "coordinator", fleet.worker_command([COORDINATOR], name="coordinator", beat=True)),
            fleet.start(config, "worker", fleet.worker_command(["datacenter"], name="worker")),
        ]
        stack.callback(fleet.stop, processes)
        from scraper.sending import send

        while not {COORDINATOR, "datacenter"} <= fleet.served_queues():
            time.sleep(0.2)
        worker = psutil.Process(processes[1].pid)
        before = worker.cpu_times()
        for number in range(HOSTS):
            send(plan.open_now(engine, f"shop-{number}").messages)
        time.sleep(TO_S + 4)
        spent = sum(worker.cpu_times()[:2]) - sum(before[:2])
        shops.stdin.write("\n")
        shops.stdin.flush()
        log: list[tuple[float, int]] = json.loads(shops.stdout.readline())
    began = min(at for at, _ in log)
    seen = [host for at, host in log if FROM_S <= at - began < TO_S]
    others = sum(1 for host in seen if host != 0)
    return Run(hanging, others / (TO_S - FROM_S), len(seen) - others, spent)


def _take_over(engine: sa.Engine, ports: list[int]) -> None:
    with engine.begin() as connection:
        texts = [
            SITE.format(number=number, start=f"http://127.0.0.1:{port}/", rate=RATE_PER_S)
            for number, port in enumerate(ports)
        ]
        sites.sync(connection, [loader.load_text(text, f"shop-{number}.yaml") for number, text in enumerate(texts)])


@contextmanager
def _shops(*, hanging: bool) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.fairness", "--serve", "all-but-one" if hanging else "all"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _serve(*, hanging: bool) -> None:
    """Prints the shops' ports; at a line of input, the log: [seconds, shop]."""
    log: list[tuple[float, int]] = []
    listing = "".join(f'<a href="/p/{n}">{n}</a>' for n in range(1, PRODUCTS + 1)).encode()

    async def answer(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
                log.append((time.monotonic(), number))
                if hanging and number == 0 and path != b"/":
                    await asyncio.sleep(3600)
                await asyncio.sleep(LATENCY_S)
                body = listing if path == b"/" else b"<h1>Product %s</h1>" % path
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
                writer.write(head + body)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    servers = []
    for number in range(HOSTS):
        servers.append(
            await asyncio.start_server(lambda r, w, number=number: answer(number, r, w), "127.0.0.1", 0)  # type: ignore[misc]
        )
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps(log), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
