"""Coordinators and workers as seen from a command: which queues are served, and local ones for as
long as they are needed. With servers of our own on this machine, the workers are ours to start as
well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scraper.rules.routing import COORDINATOR
from scraper.settings import ENDS_WITH, Settings

INSPECT_S = 1.0
STOP_S = 40.0


def served_queues() -> set[str]:
    """The queues that some live worker consumes. Asks all workers and waits a second for their
    answers."""
    from scraper.celery import app

    answers = app.control.inspect(timeout=INSPECT_S).active_queues() or {}
    return {queue["name"] for queues in answers.values() for queue in queues}


@dataclass(frozen=True, slots=True)
class Node:
    """A worker that answered: its queues, and its processes as leases name them (host:pid)."""

    queues: list[str]
    processes: list[str]


def nodes() -> dict[str, Node]:
    """Every live worker by its node's name. Takes a second; raises what the broker does where it is
    away."""
    from scraper.celery import app

    def ask(what: str) -> dict[str, Any]:
        return getattr(app.control.inspect(timeout=INSPECT_S), what)() or {}

    with ThreadPoolExecutor(2) as pool:
        queues, stats = pool.map(ask, ("active_queues", "stats"))
    return {
        name: Node(sorted(each["name"] for each in queues[name]), _processes(name, stats))
        for name in queues
    }


def _processes(name: str, stats: dict[str, Any]) -> list[str]:
    """A node's own process, and the children of a pool that has some. A node is on the host after
    its @."""
    told = stats.get(name, {})
    children = (told.get("pool") or {}).get("processes") or []
    host = name.partition("@")[2]
    return [f"{host}:{pid}" for pid in [told.get("pid"), *children] if pid is not None]


def worker_command(queues: Iterable[str], *, name: str, beat: bool = False) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "scraper",
        "worker",
        "-Q",
        ",".join(queues),
        "-n",
        f"{name}@%h",
    ]
    command += [
        "--without-mingle",
        "--without-gossip",
    ]  # workers here need nothing of each other, and start a second sooner
    return [*command, "-B"] if beat else command


@contextmanager
def local_workers(settings: Settings, queues: set[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Starts a coordinator (if `queues` names it) and one worker for the other queues; stops them
    at the end. Were this process killed, they would end by themselves."""
    ends_with_us = {ENDS_WITH: str(os.getpid())}
    processes = []
    fetching = sorted(queues - {COORDINATOR})
    tag = os.getpid()
    try:
        if COORDINATOR in queues:
            command = worker_command([COORDINATOR], name=f"coordinator-{tag}", beat=True)
            processes.append(
                start(
                    settings, "coordinator", command, {"SCRAPER_SCHEDULES": "false", **ends_with_us}
                )
            )
        if fetching:
            processes.append(
                start(
                    settings,
                    "worker",
                    worker_command(fetching, name=f"worker-{tag}"),
                    ends_with_us,
                )
            )
        yield processes
    finally:
        stop(processes)


def start(
    settings: Settings, name: str, command: list[str], env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a command with its output in `SCRAPER_HOME/log/NAME.log`, out of the reach of the
    terminal's Ctrl-C."""
    log = log_path(settings, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )


def log_path(settings: Settings, name: str) -> Path:
    return settings.home_dir / "log" / f"{name}.log"


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM to all, a bounded wait, then SIGKILL to whole process groups."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
