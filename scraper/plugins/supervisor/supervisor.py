"""Runs everything until a signal comes: servers, coordinator, workers and Flower.

SIGTERM, Ctrl-C and SIGHUP end all processes gently, a second one at once. Pages of processes that
were killed come back when their leases expire.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from scraper.errors import ScraperError
from scraper.infra.services import LocalServers
from scraper.plugins.supervisor.definitions import NamedQueues
from scraper.plugins.supervisor.joint_log import JointLog
from scraper.plugins.supervisor.lock import StartLock, lock_path
from scraper.plugins.supervisor.orphans import Survivors
from scraper.plugins.supervisor.policy import group_queues, list_served
from scraper.plugins.supervisor.servers import ServersKeeper
from scraper.plugins.supervisor.supervised import SupervisedProcess
from scraper.process import heartbeat
from scraper.registry import find_service
from scraper.rules.routing import COORDINATOR, is_browser_queue
from scraper.runtime import fleet
from scraper.settings import ENDS_WITH, Settings

TURN_S = 0.2
SITES_S = 2.0
HEARTBEAT_S = 1.0
# After a worker's own deadline, for storing, handing back and disconnecting.
LATE_S = 20.0
# Its supervisor's, not its children's.
OWN_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "SCRAPER_HEARTBEAT")
READY_SIGNS = (" ready.", "Visit me ")


class Supervisor:
    """The processes of one `scraper start`."""

    def __init__(self, settings: Settings, log: JointLog, lock: StartLock, workers: int) -> None:
        self._settings, self._log, self._lock, self._workers = settings, log, lock, workers
        service = find_service(LocalServers)  # type: ignore[type-abstract]
        self.servers = ServersKeeper(service, settings, log.tell)
        self._survivors = Survivors(lock_path(settings))
        self._processes: list[SupervisedProcess] = []
        self._named = NamedQueues(settings.sites_dir)
        self._served: set[str] = set()
        self._signals = 0
        self._sites_at = self._beat_at = 0.0
        self._has_told = False

    def run(self, flower: Sequence[str] | None) -> None:
        """Runs until a signal has come. Raises `ScraperError` if an essential process is given
        up."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        self._add_process(
            COORDINATOR, self._worker_command([COORDINATOR], COORDINATOR, beat=True), essential=True
        )
        self._add_workers()
        if flower is not None:
            self._add_process("flower", flower)
        self.servers.watch()
        while not self._signals:
            self._take_turn(time.monotonic())
            time.sleep(TURN_S)

    def close(self) -> None:
        """Ends all processes, then the servers that were started here."""
        self._log.tell("ends; a second Ctrl-C ends at once")
        for process in self._processes:
            process.end()
        deadline = time.monotonic() + self._settings.stop_s + LATE_S
        while any(process.is_running() for process in self._processes):
            self._forward_lines()
            if self._signals > 1 or time.monotonic() > deadline:
                break
            time.sleep(TURN_S)
        for process in self._processes:
            process.kill()
        self._forward_lines()
        self.servers.down(self._lock)
        self._survivors.dismiss()
        self._lock.release()
        self._log.tell("everything has ended")
        self._log.close()

    def _take_turn(self, now: float) -> None:
        self._forward_lines()
        for process in self._processes:
            sentence = process.keep_running(now)
            if sentence is not None:
                self._log.tell(sentence)
                if process.essential and process.is_given_up:
                    raise ScraperError(
                        f"nothing works without the {process.name}: ends\n{sentence}"
                    )
        if now - self._sites_at >= SITES_S:
            self._add_workers()
            self._sites_at = now
        if now - self._beat_at >= HEARTBEAT_S:
            heartbeat.process_heartbeat().beat()
            self._beat_at = now
        if not self._has_told and all(row.is_ready or row.is_given_up for row in self._processes):
            self._has_told = True
            self._log.tell("everything runs; Ctrl-C ends it")

    def _add_workers(self) -> None:
        """Starts a worker for queues that no worker serves yet: at the start for all, later for
        those that a new definition names."""
        for queues in group_queues(self._named.read(), self._served):
            is_browser = is_browser_queue(queues[0])
            first = not self._served
            for number in range(self._workers if first else 1):
                name = self._name_worker("browser" if is_browser else "worker")
                command = self._worker_command(queues, name)
                self._log.tell(f"{name} serves {', '.join(queues)}")
                self._add_process(name, command, essential=first and number == 0)
            self._served |= list_served(queues)

    def _name_worker(self, kind: str) -> str:
        number = sum(process.name.partition("-")[0] == kind for process in self._processes) + 1
        return kind if number == 1 else f"{kind}-{number}"

    def _worker_command(self, queues: list[str], name: str, *, beat: bool = False) -> list[str]:
        # Two workers with the same name would hide each other.
        command = fleet.worker_command(queues, name=f"{name}-{os.getpid()}", beat=beat)
        return [*command[:3], "--quiet", *command[3:]]

    def _add_process(self, name: str, command: Sequence[str], *, essential: bool = False) -> None:
        env = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
        env[ENDS_WITH] = str(os.getpid())
        if self._settings.log_format == "auto" and sys.stdout.isatty():
            env["SCRAPER_LOG_FORMAT"] = "console"
        process = SupervisedProcess(
            name,
            command,
            env,
            fleet.log_path(self._settings, f"start-{name}"),
            self._survivors.held_end,
            essential=essential,
        )
        process.start(time.monotonic())
        self._processes.append(process)
        self._log.tell(f"{name} started, as process {process.pid}")

    def _forward_lines(self) -> None:
        for process in self._processes:
            for line in process.read_lines():
                self._log.write(process.name, line)
                process.is_ready |= any(sign in line for sign in READY_SIGNS)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1


def flower_command(port: int) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "scraper", "flower", f"--port={port}"]


def log_file(settings: Settings) -> Path:
    return fleet.log_path(settings, "start")
