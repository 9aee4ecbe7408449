"""Coordinators and workers as seen from a command: lists those that serve queues, and runs local
ones for as long as the command needs them."""

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
from scraper.infra import redis_clients
from scraper.rules.routing import COORDINATOR
from scraper.settings import ENDS_WITH, Settings

INSPECT_S = 1.0
# A busy worker replies within this time.
LATE_S = 5.0
STOP_S = 40.0


def served_queues(timeout_s: float = INSPECT_S) -> set[str]:
    """Returns the queues that live workers consume. Asks all workers and waits `timeout_s`
    for answers."""
    answers = _inspect_workers("active_queues", timeout_s)
    return {queue["name"] for queues in answers.values() for queue in queues}


def find_unserved(settings: Settings, queues: set[str]) -> set[str]:
    """Returns those of the queues that no live worker consumes. If the broker knows of workers that
    have not replied within a second, asks again for longer: busy ones reply late."""
    unserved = queues - served_queues()
    if unserved and _may_reply_late(settings, unserved):
        unserved -= served_queues(LATE_S)
    return unserved


def _may_reply_late(settings: Settings, queues: Iterable[str]) -> bool:
    """Returns whether the broker knows of workers: RabbitMQ of some for these queues, Redis of any,
    since all subscribe to commands."""
    if settings.broker_is_amqp:
        return any(map(_has_consumer, queues))
    try:
        with redis_clients.connect(settings.own_broker_url) as client:
            patterns: Any = client.pubsub_numpat()
    except redis_clients.RedisError:
        # The user may not have the right to count.
        return True
    return bool(patterns)


def _has_consumer(queue: str) -> bool:
    with _load_app().connection_for_read() as connection:
        try:
            with connection.channel() as channel:
                return bool(channel.queue_declare(queue, passive=True).consumer_count)
        except connection.channel_errors:
            # The queue does not exist.
            return False


@dataclass(frozen=True, slots=True)
class WorkerNode:
    """A worker that answered: its queues, and its processes as leases name them (host:pid)."""

    queues: list[str]
    processes: list[str]


def list_nodes() -> dict[str, WorkerNode]:
    """Returns every live worker by its node's name. Takes a second; raises the broker's error if it
    is away."""
    with ThreadPoolExecutor(2) as pool:
        queues, stats = pool.map(_inspect_workers, ("active_queues", "stats"))
    return {
        name: WorkerNode(
            sorted(queue["name"] for queue in queues[name]), _list_processes(name, stats)
        )
        for name in queues
    }


def _inspect_workers(command: str, timeout_s: float = INSPECT_S) -> dict[str, Any]:
    return getattr(_load_app().control.inspect(timeout=timeout_s), command)() or {}


def _load_app() -> Any:
    # Celery's app reads settings when it is imported.
    from scraper.celery import app

    return app


def _list_processes(name: str, stats: dict[str, Any]) -> list[str]:
    """Returns a node's own process and its pool's children. The node's host follows its @."""
    node = stats.get(name, {})
    children = (node.get("pool") or {}).get("processes") or []
    host = name.partition("@")[2]
    return [f"{host}:{pid}" for pid in [node.get("pid"), *children] if pid is not None]


def worker_command(queues: Iterable[str], *, name: str, beat: bool = False) -> list[str]:
    command = [sys.executable, "-m", "celery", "-A", "scraper", "worker", "-Q", ",".join(queues)]
    # Workers do not need each other, and start a second sooner without these.
    command += ["-n", f"{name}@%h", "--without-mingle", "--without-gossip"]
    return [*command, "-B"] if beat else command


class LocalWorker:
    """A worker that a command started and supervises."""

    def __init__(
        self, settings: Settings, name: str, command: list[str], env: dict[str, str] | None = None
    ) -> None:
        self._settings = settings
        self._name = name
        self._command = command
        self._env = env
        self.process = start_process(settings, name, command, env)

    def keep_running(self) -> None:
        """Restarts the worker if its exit code asks for that: it had grown too large, or its beat
        had died. Raises `ServerUnavailableError` if it ended otherwise."""
        code = self.process.poll()
        if code == RESTART_CODE:
            self.process = start_process(self._settings, self._name, self._command, self._env)
        elif code is not None:
            log = log_path(self._settings, self._name)
            raise ServerUnavailableError(
                f"the {self._name} that was started here ended with exit code {code}; "
                f"its log is {log}"
            )


@contextmanager
def local_workers(settings: Settings, queues: set[str]) -> Iterator[list[LocalWorker]]:
    """Starts one worker for these queues, with beat in it if the coordinator's is among them: a
    second process would cost more memory than a crawl gains. Stops it at the end of the block.

    The caller calls `keep_running` now and then. The worker ends by itself if this process is
    killed."""
    pid = os.getpid()
    env = {ENDS_WITH: str(pid)}
    coordinates = COORDINATOR in queues
    if coordinates:
        env["SCRAPER_SCHEDULES"] = "false"
    name = f"{min(queues)}-{pid}"
    command = worker_command(sorted(queues), name=name, beat=coordinates)
    worker = LocalWorker(settings, "worker", command, env)
    try:
        yield [worker]
    finally:
        stop_processes([worker.process])


def start_process(
    settings: Settings, name: str, command: list[str], env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a command with its output in `SCRAPER_HOME/log/NAME.log`, where the terminal's Ctrl-C
    does not reach it."""
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


def stop_processes(processes: list[subprocess.Popen[bytes]]) -> None:
    """Sends SIGTERM to all, waits for a bounded time, then sends SIGKILL to their groups."""
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
