"""This application as a contender: coordinator with beat, and workers, as its own commands start
them, with every guarantee and with Flower's task events on. The first crawl finds everything new,
the second everything unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from benchmarks import truth
from benchmarks.cost import PeakMemory, cpu_s, pin
from benchmarks.results import Run
from benchmarks.rig import Rig
from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.rules.routing import COORDINATOR
from scraper.runtime import fleet
from scraper.sites import loader
from scraper.views import crawl_progress as progress

DATABASE = "ours"
QUEUE = "datacenter"
READY_S = 60.0
POLL_S = 0.2
# A process that uses no more CPU-seconds in so long has nothing to do.
IDLE_S, IDLE_CPU_S = 0.5, 0.03
# longer than a lease: what a killed worker held is taken up again
STALLED_S = 90.0


def crawl(
    rig: Rig,
    names: Sequence[str] = ("first", "second"),
    *,
    workers: int = 1,
    spread: bool = False,
    events: bool = True,
    profile: Path | None = None,
) -> list[Run]:
    """One crawl after the other, by processes started for them on an empty database. Everything of
    this project is on the contenders' core; `spread`: each worker has a core of its own, and the
    coordinator is where there is room."""
    rig.fresh()
    with rig.admin() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    url = rig.database(DATABASE).replace("postgresql://", "postgresql+psycopg://")
    engine = make_engine(url)
    try:
        migrations.upgrade(engine)
        with engine.begin() as connection:
            sites.store_definitions(
                connection, [loader.load_text(rig.definition(), "benchmarks/bench.yaml")]
            )
        with fleet_of(rig, url, workers, spread, events) as pids:
            runs = []
            for name in names:
                rig.ask("reset")
                with _profiled(profile, pids["worker-1"], name):
                    runs.append(_one(rig, engine, pids))
            return runs
    finally:
        engine.dispose()


@contextmanager
def fleet_of(
    rig: Rig, database_url: str, workers: int, spread: bool, events: bool
) -> Iterator[dict[str, int]]:
    """Process ids by name, once all of them serve their queues."""
    every, first = set(rig.contender_cores), {rig.contender_cores[0]}
    commands = {"coordinator": fleet.worker_command([COORDINATOR], name="coordinator", beat=True)}
    places = {"coordinator": every if spread else first}
    for number in range(workers):
        name = f"worker-{number + 1}"
        commands[name] = fleet.worker_command([QUEUE], name=name)
        places[name] = {rig.contender_cores[number % len(every)]} if spread else first
    processes = {}
    try:
        for name, command in commands.items():
            processes[name] = fleet.start_process(
                rig.config, name, command, {"DATABASE_URL": database_url}
            )
            pin(processes[name].pid, places[name])
        _wait_until_served(processes)
        _wait_until_idle(processes.values())
        if events:
            from scraper.celery import app

            # what Flower does when it starts
            app.control.enable_events()
        yield {name: process.pid for name, process in processes.items()}
    finally:
        fleet.stop_processes(list(processes.values()))


def _wait_until_served(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    from scraper.celery import app

    deadline = time.monotonic() + READY_S
    while len(app.control.inspect(timeout=1.0).active_queues() or {}) < len(processes):
        ended = [name for name, process in processes.items() if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError(
                f"{ended[0]} ended" if ended else f"not ready within {READY_S:.0f} s"
            )
        time.sleep(0.1)


def _wait_until_idle(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Waits until what the first crawl needs is imported: the peers say `ready` after that, too."""
    used, deadline = -1.0, time.monotonic() + READY_S
    while (now := sum(cpu_s(process.pid) for process in processes)) > used + IDLE_CPU_S:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not idle within {READY_S:.0f} s")
        used = now
        time.sleep(IDLE_S)


def _one(rig: Rig, engine: sa.Engine, pids: dict[str, int]) -> Run:
    from scraper.runtime.send import send

    load = os.getloadavg()[0]
    servers = rig.servers_cpu()
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    workers = [pid for name, pid in pids.items() if name.startswith("worker")]
    with PeakMemory(pids.values()) as memory, PeakMemory(workers) as of_workers:
        opened = plan.open_now(engine, "bench")
        send(opened.messages)
        done, moved = -1, time.monotonic()
        while (ended := progress.read_one(engine, opened.crawl_id)).active:
            if ended.done != done:
                done, moved = ended.done, time.monotonic()
            elif time.monotonic() - moved > STALLED_S:
                raise RuntimeError(f"no page settled for {STALLED_S:.0f} s, after {done:,}")
            time.sleep(POLL_S)
        spent = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
        servers_spent = rig.servers_cpu().since(servers)
    counts = rig.ask("counts")
    problem = truth.missing(_rows(engine), rig.truth, rig.fields)
    if ended.status != "completed":
        problem = f"the crawl {ended.status}: {ended.note}"
    return Run(
        pages=rig.pages,
        wall_s=(ended.finished_at - ended.created_at).total_seconds() if ended.finished_at else 0.0,
        cpu_s=sum(spent.values()),
        worker_cpu_s=sum(seconds for name, seconds in spent.items() if name.startswith("worker")),
        peak_mb=memory.bytes / 1e6,
        worker_mb=of_workers.bytes / 1e6,
        requests=sum(counts.values()),
        load_before=load,
        problem=problem,
        note=truth.asked_amiss(counts, rig.expected),
        **servers_spent,
    )


def _rows(engine: sa.Engine) -> dict[str, dict[str, object]]:
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT external_id, data FROM products"))
        return {row.external_id: row.data for row in found}


@contextmanager
def _profiled(folder: Path | None, pid: int, name: str) -> Iterator[None]:
    """py-spy's raw stacks of one worker, one line a stack."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    spy = Path(sys.executable).with_name("py-spy")
    command = [
        spy,
        "record",
        "--pid",
        str(pid),
        "-o",
        folder / f"{name}-crawl.txt",
        "--format",
        "raw",
        "--gil",
    ]
    process = subprocess.Popen([*command, "--rate", "200"], stdout=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
