"""Coordinators and workers as the commands a user types, and a small supervisor that restarts what
has ended.

The supervisor does what `Restart=always` does, a second later. An exit that the harness did not
cause is recorded as unexpected, with the end of the process's log; it never repairs anything else.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from scraper.errors import RESTART_CODE
from tests.acceptance.chaos.servers import Disorder
from tests.support.servers import forked
from tests.support.servers.forked import Process

RESTART_S = 1.0
POLL_S = 0.1
# "PostgreSQL or Redis does not answer": the supervisor's turn
REFUSED = 3
READY = b" ready."
STOP_S = 40.0


@dataclass
class Life:
    """One process of a member: from its start to its end, and who caused that."""

    process: Process
    began: float
    # where its lines begin in the member's log
    log_at: int = 0
    ended: float | None = None
    code: int | None = None
    # of the harness; empty: no process
    cause: str = ""
    stop_by: float | None = None

    @property
    def worker(self) -> str:
        """As `leases.worker` names it."""
        return f"{socket.gethostname()}:{self.process.pid}"


@dataclass
class Member:
    """One coordinator or worker, through all its lives."""

    name: str
    argv: list[str]
    log: Path
    lives: list[Life] = field(default_factory=list)
    # of a fault that is under way
    victim: bool = False
    restart_at: float | None = 0.0

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def alive(self) -> bool:
        return bool(self.lives) and self.life.process.poll() is None

    @property
    def was_ready(self) -> bool:
        """Whether the newest life has said so. Until then it may find a server away and end with
        REFUSED, and has no handler of SIGTERM yet; how long that takes is the machine's affair."""
        with suppress(OSError), self.log.open("rb") as log:
            log.seek(self.life.log_at)
            return READY in log.read()
        return False

    def said(self, lines: int = 12) -> str:
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join("    " + line[:400] for line in text.splitlines()[-lines:])


class Fleet:
    """The members and their supervisor. `say` gets a line for every restart and every unexpected
    exit."""

    def __init__(
        self, folder: Path, env: Mapping[str, str], workers: int, coordinators: int, disorder: Disorder,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._env = dict(env)
        self._disorder = disorder
        self._say = say
        self.workers = [
            self._member(folder, f"w{n}", "-Q", "residential,datacenter")
            for n in range(1, workers + 1)
        ]
        self.coordinators = [
            self._member(folder, f"c{n}", "-B", "-Q", "coordinator")
            for n in range(1, coordinators + 1)
        ]
        self.unexpected: list[str] = []
        self.refused = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    @staticmethod
    def _member(folder: Path, name: str, *options: str) -> Member:
        argv = ["celery", "-A", "scraper", "worker", *options, "-n", f"{name}@%h"]
        return Member(name, argv, folder / f"{name}.log")

    @property
    def members(self) -> list[Member]:
        return [*self.coordinators, *self.workers]

    def start(self) -> None:
        for member in self.members:
            self._start(member)
        self._thread.start()

    def ready(self) -> bool:
        return all(member.was_ready for member in self.members)

    def signal(self, member: Member, number: signal.Signals, cause: str) -> Life:
        """To the process alone. What ends it gets a cause, so that its exit is not an unexpected
        one."""
        life = member.life
        if number in (signal.SIGKILL, signal.SIGTERM):
            life.cause = cause
        with suppress(ProcessLookupError):
            life.process.send_signal(number)
        return life

    def beat_of(self, member: Member) -> psutil.Process | None:
        """The process that `-B` has started: the coordinator's only child."""
        try:
            children = psutil.Process(member.life.process.pid).children()
            living = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
        except psutil.Error:
            return None
        return living[0] if living else None

    def names(self) -> set[str]:
        """Node names, as `celery inspect` shows them."""
        return {f"{member.name}@{socket.gethostname()}" for member in self.members}

    def stop_supervising(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def stop(self) -> list[str]:
        """SIGTERM to all, and what is wrong with how they ended: another code than 0, or later than
        a supervisor waits."""
        self.stop_supervising()
        running = [member for member in self.members if member.alive]
        for member in running:
            self.signal(member, signal.SIGTERM, "the end")
        deadline = time.monotonic() + STOP_S
        problems = []
        for member in running:
            try:
                code = member.life.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                problems.append(
                    f"{member.name} did not end within {STOP_S:.0f} s of SIGTERM:\n{member.said()}"
                )
                continue
            if code != 0:
                problems.append(
                    f"{member.name} ended with code {code} after SIGTERM:\n{member.said()}"
                )
        return problems

    def left(self) -> list[str]:
        """What still runs of any life: each leads a session of its own."""
        lives = {life.process.pid for member in self.members for life in member.lives}
        return [str(pid) for pid in psutil.pids() if _session_of(pid) in lives]

    def kill(self) -> None:
        """The teardown: whatever is left of any life, by process group (each process leads one of
        its own)."""
        self.stop_supervising()
        for member in self.members:
            for life in member.lives:
                if life.process.poll() is None or self._group_left(life):
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(life.process.pid, signal.SIGKILL)
                life.process.wait()

    @staticmethod
    def _group_left(life: Life) -> bool:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(life.process.pid, 0)
            return True
        return False

    def _start(self, member: Member) -> None:
        with member.log.open("ab") as out:
            log_at = out.tell()
            process = forked.start(member.argv, self._env, out.fileno(), out.fileno())
        member.lives.append(Life(process, time.time(), log_at))
        member.restart_at = None

    def _supervise(self) -> None:
        while not self._over.wait(POLL_S):
            for member in self.members:
                if member.restart_at is not None:
                    if time.monotonic() >= member.restart_at:
                        self._start(member)
                elif member.life.process.poll() is not None:
                    self._ended(member)

    def _ended(self, member: Member) -> None:
        life = member.life
        life.ended, life.code = time.time(), life.process.returncode
        member.restart_at = time.monotonic() + RESTART_S
        if life.cause:
            return
        away = self._disorder.since(life.began - 1, "redis", "postgres")
        if life.code == RESTART_CODE:
            return
        if life.code == REFUSED and away and not member.was_ready:
            self.refused += 1
            return
        text = f"{member.name} (pid {life.process.pid}) ended by itself with code {life.code}"
        self._say(text)
        self.unexpected.append(
            f"{text}, {life.ended - life.began:.0f} s after its start:\n{member.said(30)}"
        )


def _session_of(pid: int) -> int | None:
    """None where it has ended, whether or not its parent has taken note."""
    with suppress(ProcessLookupError, psutil.Error):
        if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            return os.getsid(pid)
    return None
