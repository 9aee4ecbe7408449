"""The workers that a forked command starts are forked as well (see `forked`), as children of their
command.

A command that may start some has spare processes from its beginning: children that have done
nothing, and wait. `subprocess.Popen` makes one of them what would have been started. Which command
line it has, and the variables of its environment that tests look for, are names of files that it
holds open (see `told_by`), as `/proc` shows those of the process it was forked off.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

# How many processes a command of `scraper` may start, by its first word.
SPARES = {"crawl": 1, "run": 1, "start": 3}
STARTED = [sys.executable, "-m", "celery"]
TOLD = ("DATABASE_URL", "SCRAPER_HOME")
MARK = "/memfd:told "
# In the environment of the process that all are forked off, as `/proc` shows it for each of them.
FORKED = "FORKED_OFF", "1"
# What the interpreter and the loader read as they start: each variable's first letters.
INTERPRETER, LOADER = "PYTHON", "LD_"
READ_ONCE = INTERPRETER, LOADER
NAME_BYTES = 240
MESSAGE_BYTES = 200_000
FILES = 16
# Above the numbers of all files that a command has open.
HIGH = 500


def select_variables(start: str | tuple[str, ...], env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(start)}


class Task(NamedTuple):
    """What a spare process becomes. `streams` are its output, errors and input; `held` has the
    numbers of the files that are passed to it."""

    streams: list[int]
    argv: list[str]
    env: dict[str, str]
    cwd: str


def fork_spares(words: Sequence[str], files: Sequence[int]) -> Task | None:
    """Forks as many as the command may start. Returns None in the command itself, and in each of
    them, once it is started, what it becomes. `files` are the command's."""
    for _ in range(SPARES.get(words[1], 0) if len(words) > 1 else 0):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if not pid:
            ours.close()
            for _, other in Started.spares:
                other.close()
            for file in files:
                os.close(file)
            return _await_task(theirs)
        theirs.close()
        Started.spares.append((pid, ours))
    if Started.spares:
        subprocess.Popen = Started  # type: ignore[misc]
    return None


def told_by(pid: int) -> list[str]:
    """What a started spare process says of itself: its command line, and `NAME=value` of some variables. Empty
    for all others."""
    found = []
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if path.startswith(MARK):
                    found.append(path.removeprefix(MARK).removesuffix(" (deleted)"))
    return sorted(found)


class Started(subprocess.Popen[Any]):
    """As `Popen`, but that a worker is a spare process as long as there are some."""

    spares: ClassVar[list[tuple[int, socket.socket]]] = []

    def _execute_child(self, args: Any, *rest: Any) -> None:
        _, preexec, _, pass_fds, cwd, env, *_, reads, _, _, writes, _, errors = rest[:15]
        environment = dict(os.environ if env is None else env)
        if (
            not self.spares
            or list(args[:3]) != STARTED
            or preexec
            or -1 in (reads, writes, errors)
            or select_variables(READ_ONCE, environment) != select_variables(READ_ONCE, os.environ)
        ):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        self.pid, spare = self.spares.pop()
        self._child_created = True
        message = {
            "argv": list(args[2:]),
            "env": environment,
            "cwd": str(cwd or Path.cwd()),
            "held": list(pass_fds),
        }
        with spare:
            files = [writes, errors, reads, *pass_fds]
            socket.send_fds(spare, [json.dumps(message).encode()], files)
        self._close_pipe_fds(*rest[9:15])  # type: ignore[attr-defined]


def _await_task(asks: socket.socket) -> Task:
    # The terminal's, and a supervisor's, are the command's to handle.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    data, files, _, _ = socket.recv_fds(asks, MESSAGE_BYTES, FILES)
    if not data:
        os._exit(0)
    asks.close()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    message = json.loads(data)
    # Out of the way of the numbers that some of them get.
    for place, file in enumerate(files):
        files[place] = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, HIGH)
        os.close(file)
    streams, held = files[:3], files[3:]
    for number, file in zip(message["held"], held, strict=True):
        os.dup2(file, number)
        os.close(file)
    env = message["env"]
    _tell(" ".join(message["argv"]), *(f"{name}={env[name]}" for name in TOLD if env.get(name)))
    module = Path(sys.modules[message["argv"][0]].__path__[0]) / "__main__.py"
    return Task(streams, [str(module), *message["argv"][1:]], env, message["cwd"])


def _tell(*texts: str) -> None:
    for text in texts:
        os.memfd_create(f"{MARK.removeprefix('/memfd:')}{text}"[:NAME_BYTES], 0)
