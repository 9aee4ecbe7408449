"""`make bench`: pages a CPU-second of one worker, over a whole crawl with every guarantee on.

The sample shop, the servers and the coordinator share one core, the worker has the other (where the machine lets us
choose). CPU time is the worker process's own, user and system, from before the crawl until after it; wall time is the
crawl's. A run whose rows are not the shop's truth has no result.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psutil
import sqlalchemy as sa

from benchmarks.definition import definition
from scraper import embedded, migrations, plan, progress, settings
from scraper.commands import fleet
from scraper.policy.routing import COORDINATOR
from scraper.sites import loader
from scraper.stores import sites
from scraper.stores.database import make_engine

WORKER_CORE, OTHER_CORE = 0, 1


@dataclass(frozen=True)
class Result:
    """One crawl. Times in seconds; `per_cpu_s` counts every page, listings included."""

    name: str
    pages: int
    products: int
    wall_s: float
    worker_cpu_s: float
    coordinator_cpu_s: float
    postgres_cpu_s: float
    valkey_cpu_s: float
    worker_peak_mb: float

    @property
    def per_cpu_s(self) -> float:
        return self.pages / self.worker_cpu_s


def main() -> None:
    args = _arguments()
    results = []
    with tempfile.TemporaryDirectory(prefix="scraper-bench-") as home, ExitStack() as stack:
        for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL"):
            os.environ.pop(name, None)
        os.environ |= {"SCRAPER_HOME": home, "SCRAPER_SITES": f"{home}/no-sites", "SCRAPER_LOG_LEVEL": "WARNING"}
        pin(os.getpid(), OTHER_CORE)
        config = settings.load()
        shop = stack.enter_context(sample_shop(config, args.products, args.latency_ms))
        embedded.up(config)
        stack.callback(embedded.down, config)
        engine = make_engine(config.postgres_url)
        migrations.upgrade(engine)
        commands = {
            "coordinator": fleet.worker_command([COORDINATOR], name="coordinator", beat=True),
            "worker": fleet.worker_command(["datacenter"], name="worker"),
        }
        processes = {name: fleet.start(config, name, command) for name, command in commands.items()}
        stack.callback(fleet.stop, list(processes.values()))
        pin(processes["worker"].pid, WORKER_CORE)
        while not {COORDINATOR, "datacenter"} <= fleet.served_queues():
            time.sleep(0.2)
        if args.events:
            from scraper.celery import app

            app.control.enable_events()  # what Flower does when it starts
        take_over(engine, shop)
        for name in ("first crawl, all new", "second crawl, all unchanged"):
            with profiled(args.profile, processes["worker"].pid, name):
                results.append(measure(name, engine, processes))
            check(engine, shop, args.products)
    report(results, args.json)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--products", type=int, default=10_000)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--no-events", dest="events", action="store_false", help="without Flower's task events")
    parser.add_argument("--profile", type=Path, help="a folder for py-spy profiles of the worker")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def pin(pid: int, core: int) -> None:
    """Keeps a process and all its threads on one core, where there are two and the system allows it."""
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) >= 1 and (os.cpu_count() or 1) > 1:
        for thread in psutil.Process(pid).threads():
            os.sched_setaffinity(thread.id, {core})


@contextmanager
def sample_shop(config: settings.Settings, products: int, latency_ms: float) -> Iterator[str]:
    command = [sys.executable, "-m", "scraper.demo", "--port", "0", "--products", str(products)]
    process = subprocess.Popen([*command, "--latency-ms", str(latency_ms)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").strip()
    finally:
        fleet.stop([process])


@contextmanager
def profiled(folder: Path | None, pid: int, name: str) -> Iterator[None]:
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{name.split(',')[0].replace(' ', '-')}.txt"
    spy = Path(sys.executable).with_name("py-spy")
    options = ["--format", "raw", "--rate", "200", "--gil"]
    process = subprocess.Popen([spy, "record", "--pid", str(pid), "-o", out, *options], stdout=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield
    finally:
        process.send_signal(2)
        process.wait(30)


def take_over(engine: sa.Engine, shop: str) -> None:
    with engine.begin() as connection:
        sites.sync(connection, [loader.load_text(definition(shop), "benchmarks/bench.yaml")])


def measure(name: str, engine: sa.Engine, processes: dict[str, subprocess.Popen[bytes]]) -> Result:
    from scraper.sending import send

    before = {key: cpu_s(process.pid) for key, process in processes.items()}
    servers_before = server_cpu_s()
    opened = plan.open_now(engine, "bench")
    send(opened.messages)
    while (ended := progress.read_one(engine, opened.crawl_id)).active:
        time.sleep(0.1)
    servers = server_cpu_s()
    assert ended.status == "completed", (ended.status, ended.note)
    return Result(
        name=name,
        pages=ended.done,
        products=ended.counts.product_done,
        wall_s=ended.elapsed_s,
        worker_cpu_s=cpu_s(processes["worker"].pid) - before["worker"],
        coordinator_cpu_s=cpu_s(processes["coordinator"].pid) - before["coordinator"],
        postgres_cpu_s=servers["postgres"] - servers_before["postgres"],
        valkey_cpu_s=servers["valkey-server"] - servers_before["valkey-server"],
        worker_peak_mb=psutil.Process(processes["worker"].pid).memory_info().rss / 1e6,
    )


def cpu_s(pid: int) -> float:
    """User and system time of a process and the children it has now, all threads."""
    process = psutil.Process(pid)
    times = [p.cpu_times() for p in (process, *process.children(recursive=True))]
    return sum(t.user + t.system for t in times)


def server_cpu_s() -> dict[str, float]:
    """CPU so far of the servers under our own home; ended PostgreSQL children are in their parent's account."""
    found = {"postgres": 0.0, "valkey-server": 0.0}
    home = os.environ["SCRAPER_HOME"]
    for process in psutil.process_iter(["name", "cmdline", "pid"]):
        name = process.info["name"]
        if name in found and any(home in word for word in process.info["cmdline"] or []):
            for one in (process, *process.children(recursive=True)):
                t = one.cpu_times()
                found[name] += t.user + t.system + (t.children_user + t.children_system if one == process else 0)
    return found


def check(engine: sa.Engine, shop: str, products: int) -> None:
    """Every row against the shop's truth."""
    truth = {row["id"]: row for row in httpx.get(f"{shop}/_control/truth", timeout=60).json()}
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT external_id, data FROM products"))
        stored = {row.external_id: row.data for row in rows}
    assert stored.keys() == truth.keys(), f"{len(stored)} products stored, {len(truth)} in the shop"
    for key, data in stored.items():
        for field in ("name", "brand", "sku", "stock", "available", "category", "description"):
            assert data[field] == truth[key][field], (key, field, data[field], truth[key][field])
        assert f"{data['price']:.2f}" == truth[key]["price"], (key, data["price"], truth[key]["price"])
    assert len(stored) >= products


def report(results: list[Result], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(r) | {"pages_per_cpu_s": round(r.per_cpu_s)} for r in results], indent=2))
        return
    print(f"{'':<30}{'pages':>8}{'wall s':>8}{'worker cpu s':>14}{'pages/cpu-s':>13}{'us/page':>9}", end="")
    print(f"{'postgres':>10}{'coord.':>8}{'valkey':>8}{'MB':>6}")
    for r in results:
        print(f"{r.name:<30}{r.pages:>8,}{r.wall_s:>8.1f}{r.worker_cpu_s:>14.2f}{r.per_cpu_s:>13.0f}", end="")
        print(f"{1e6 / r.per_cpu_s:>9.0f}{r.postgres_cpu_s:>10.2f}{r.coordinator_cpu_s:>8.2f}", end="")
        print(f"{r.valkey_cpu_s:>8.2f}{r.worker_peak_mb:>6.0f}")


if __name__ == "__main__":
    main()
