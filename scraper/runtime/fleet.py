"""Coordinators and workers as seen from a command: which queues are served, and local processes for
as long as they are needed. With servers of our own on this machine, the workers are ours to start
as well."""

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

from scraper.errors import RESTART_CODE, ServerUnavailableError
from scraper.rules.routing import COORDINATOR
from scraper.settings import ENDS_WITH, Settings

INSPECT_S = 1.0
STOP_S = 40.0


def served_queues() -> set[str]:
    """The queues that some live worker consumes. Asks all workers and waits a second for their
    answers."""
    answers = _inspect("active_queues")
    return {queue["name"] for queues in answers.values() for queue in queues}


@dataclass(frozen=True, slots=True)
class Node:
    """A worker that answered: its queues, and its processes as leases name them (host:pid)."""

    queues: list[str]
    processes: list[str]


def nodes() -> dict[str, Node]:
    """Every live worker by its node's name. Takes a second; raises what the broker does where it is
    away."""
    with ThreadPoolExecutor(2) as pool:
        queues, stats = pool.map(_inspect, ("active_queues", "stats"))
    return {
        name: Node(sorted(queue["name"] for queue in queues[name]), _processes(name, stats))
        for name in queues
    }


def _inspect(question: str) -> dict[str, Any]:
    # Celery's app reads settings when it is imported.
    from scraper.celery import app

    return getattr(app.control.inspect(timeout=INSPECT_S), question)() or {}


def _processes(name: str, stats: dict[str, Any]) -> list[str]:
    """A node's own process, and the children of a pool that has some. A node is on the host after
    its @."""
    node = stats.get(name, {})
    children = (node.get("pool") or {}).get("processes") or []
    host = name.partition("@")[2]
    return [f"{host}:{pid}" for pid in [node.get("pid"), *children] if pid is not None]


def worker_command(queues: Iterable[str], *, name: str, beat: bool = False) -> list[str]:
    command = [sys.executable, "-m", "celery", "-A", "scraper", "worker", "-Q", ",".join(queues)]
    # Workers here need nothing of each other, and start a second sooner.
    command += ["-n", f"{name}@%h", "--without-mingle", "--without-gossip"]
    return [*command, "-B"] if beat else command


class LocalWorker:
    """A worker of a command's own, which is its supervisor."""

    def __init__(
        self, settings: Settings, name: str, command: list[str], env: dict[str, str] | None = None
    ) -> None:
        self._settings, self._name, self._command, self._env = settings, name, command, env
        self.process = start(settings, name, command, env)

    def keep_running(self) -> None:
        """Starts it again where it ended with the code that asks for it: it had grown too large, or
        its beat had died. Raises `ServerUnavailableError` where it ended otherwise."""
        code = self.process.poll()
        if code == RESTART_CODE:
            self.process = start(self._settings, self._name, self._command, self._env)
        elif code is not None:
            log = log_path(self._settings, self._name)
            raise ServerUnavailableError(
                f"the {self._name} that was started here ended with exit code {code}; "
                f"its log is {log}"
            )


@contextmanager
def local_workers(settings: Settings, queues: set[str]) -> Iterator[list[LocalWorker]]:
    """Starts one worker for these queues, and beat in it if the coordinator's is among them: what
    two processes would need of memory is more than what a crawl gains. Stops it at the end.
    Meanwhile `keep_running` is the caller's to call now and then. Were this process killed, it
    would end by itself."""
    pid = os.getpid()
    env = {ENDS_WITH: str(pid)}
    coordinates = COORDINATOR in queues
    if coordinates:
        env["SCRAPER_SCHEDULES"] = "false"
    command = worker_command(sorted(queues), name=f"worker-{pid}", beat=coordinates)
    worker = LocalWorker(settings, "worker", command, env)
    try:
        yield [worker]
    finally:
        stop([worker.process])


def start(
    settings: Settings, name: str, command: list[str], env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a command with its output in `SCRAPER_HOME/log/NAME.log`, out of the reach of the
    terminal's Ctrl-C."""
    path = log_path(settings, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
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
    deadline_at = time.monotonic() + STOP_S
    for process in processes:
        try:
            process.wait(max(0.1, deadline_at - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
