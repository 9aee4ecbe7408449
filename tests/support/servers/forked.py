"""Our commands, and programs of tests, as processes that import next to nothing: each is forked off
one that has imported what commands and workers do, and has done nothing else.

Each is a process like any other, with a group, an environment, a working folder and an end of its
own. Only `/proc` shows the command line and the environment of the process it was forked off. What
the interpreter and the loader read as they start (PYTHON…, LD_…) they read once: with another
PYTHON…, and where the command is another project's, a process is started as everywhere else; for
each other set of LD_… there is one more process to fork off. What a command starts is started as
everywhere else, but for workers (see `spares`).

They end as every process does, up to the point where the interpreter would take its modules apart:
that copies all memory which they share with the process they were forked off, 0.15 s of CPU.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import logging
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TextIO

from scraper import settings
from tests.support.servers.spares import (
    FORKED,
    INTERPRETER,
    LOADER,
    READ_ONCE,
    fork_spares,
    select_variables,
)

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
# Whose entry is called, by the command's name.
ENTRIES = {"scraper": "scraper.cli.main", "celery": "celery.__main__"}
# What is imported ahead next to all of scraper that needs none of ITS_OWN: each process imports these,
# the app and what reads settings, for itself.
AHEAD = ("celery.bin.celery", "celery.bin.worker", "celery.apps.worker", "celery.apps.beat")
ITS_OWN = ("scraper.celery", "scraper.celeryconfig")
MESSAGE_BYTES = 200_000
# How long a program of a test may take.
PROGRAM_S = 300.0
# All that the process to fork off has of the environment, so that nothing of a test's is in it.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name in ("HOME", "LANG", "LC_ALL", "PATH", "TZ") or name.startswith(READ_ONCE)
}


class Forked:
    """A started command, with what is used of a `Popen`, by any thread."""

    def __init__(self, argv: Sequence[str], status: int) -> None:
        self.args = list(argv)
        self.returncode: int | None = None
        self._status = os.fdopen(status, "rb", buffering=0)
        self._reading = threading.Lock()
        weakref.finalize(self, self._status.close)
        self.pid = int(self._status.readline())

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            with self._reading:
                if self.returncode is None:
                    self.returncode = int(self._status.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Entry = Callable[[], int | None]
Process = Forked | subprocess.Popen[bytes]


class Parent:
    """A process to fork off: started with the first command, it ends with this process. `preloaded`
    is what the loader reads."""

    def __init__(self, preloaded: frozenset[tuple[str, str]]) -> None:
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env=drop_variables(LOADER, ENVIRONMENT) | dict([*preloaded, FORKED]),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self.end)

    def end(self) -> None:
        self.requests.close()
        self._process.wait()


_parent = cache(Parent)


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    out: int,
    err: int,
    stdin: int | None = None,
    *,
    cwd: Path = ROOT,
) -> Process:
    """A command of the virtual environment. The file descriptors stay the caller's."""
    theirs, ours = (select_variables(INTERPRETER, each) for each in (env, ENVIRONMENT))
    if argv[0] not in ENTRIES or theirs != ours:
        return subprocess.Popen(
            [BIN / argv[0], *argv[1:]],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    files = (out, err) if stdin is None else (out, err, stdin)
    return _fork_child(files, argv=[str(BIN / argv[0]), *argv[1:]], env=dict(env), cwd=str(cwd))


def start_program(
    text: str,
    *words: str,
    out: int | IO[Any],
    err: int | IO[Any],
    stdin: int | IO[Any] | None = None,
) -> Forked:
    """`python -c TEXT WORDS…`, with this process's environment and working folder. The files stay
    the caller's."""
    theirs, ours = (select_variables(INTERPRETER, each) for each in (os.environ, ENVIRONMENT))
    assert theirs == ours, "it would not be heeded"
    files = (out, err) if stdin is None else (out, err, stdin)
    return _fork_child(
        [file if isinstance(file, int) else file.fileno() for file in files],
        argv=["-c", *words], env=dict(os.environ), cwd=str(Path.cwd()), text=text,
    )  # fmt: skip


def run_program(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, whatever it is."""
    return _run_to_end(lambda out, err: start_program(text, *words, out=out, err=err))


def run_command(argv: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the virtual environment to its end, with these variables in addition to
    this process's."""
    env = {**os.environ, **variables}
    return _run_to_end(lambda out, err: start(argv, env, out, err))


def _run_to_end(begin: Callable[[int, int], Process]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = begin(out.fileno(), err.fileno())
        try:
            code = process.wait(PROGRAM_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), err.read())


def _fork_child(
    files: Sequence[int], *, argv: list[str], env: dict[str, str], **message: Any
) -> Forked:
    reads, writes = os.pipe()
    data = json.dumps({"argv": argv, "env": env, **message}).encode()
    parent = _parent(frozenset(select_variables(LOADER, env).items()))
    socket.send_fds(parent.requests, [data], [writes, *files])
    os.close(writes)
    return Forked(argv, reads)


def drop_variables(start: str, env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(start)}


def _import_ahead() -> None:
    for name in ITS_OWN:
        sys.modules[name] = None  # type: ignore[assignment] # Importing it fails for now.
    for module in pkgutil.walk_packages([str(ROOT / "scraper")], "scraper."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                import_module(module.name)
    for name in ITS_OWN:
        del sys.modules[name]
    for name in AHEAD:
        import_module(name)
    assert settings.load.cache_info().currsize == 0, "settings are each process's own"
    assert len(os.listdir("/proc/self/task")) == 1, "a fork leaves threads behind"
    gc.collect()
    gc.freeze()


def _serve(requests: socket.socket) -> Entry | None:
    """Forks for each request and passes on how it ends. Returns a command's entry in the forked
    process, and None where the parent no longer asks."""
    statuses: dict[int, int] = {}
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(statuses)
        if requests.fileno() not in ready:
            continue
        message, files, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 4)
        if not message:
            return None
        status, *streams = files
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for file in (woken, wakes, status, *statuses.values()):
                os.close(file)
            requests.close()
            asked = json.loads(message)
            task = fork_spares(asked["argv"], streams)
            return _become(*task) if task else _become(streams, **asked)
        for file in streams:
            os.close(file)
        statuses[pid] = status
        os.write(status, b"%d\n" % pid)


def _reap(statuses: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, code = ended[0], os.waitstatus_to_exitcode(ended[1])
            with suppress(BrokenPipeError):
                os.write(statuses[pid], b"%d\n" % code)
            os.close(statuses.pop(pid))


def _become(
    streams: Sequence[int], argv: list[str], env: dict[str, str], cwd: str, text: str | None = None
) -> Entry:
    """`streams` are output, errors and, where the process has one, input."""
    os.setsid()
    for number, file in zip((1, 2, 0), streams, strict=False):
        os.dup2(file, number)
        os.close(file)
    sys.stdout = sys.__stdout__ = _open_stream(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _open_stream(2, sys.stderr)  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = argv
    # As a script, and not as `python -m`: this is where click looks for its program's name.
    main: Any = sys.modules["__main__"]
    main.__file__, main.__package__, main.__spec__ = argv[0], None, None
    if text is not None:
        sys.path[0] = ""
        return partial(exec, compile(text, "<string>", "exec"), {"__name__": "__main__"})
    name, sys.path[0] = Path(argv[0]).name, str(BIN)
    if name == "__main__.py":
        main.__package__ = name = "celery"
        sys.path[0] = cwd
    entry: Entry = import_module(ENTRIES[name]).main
    return entry


def _open_stream(number: int, like: TextIO) -> TextIO:
    """`like` knows of the parent's file whether it is a terminal and can seek."""
    raw = io.FileIO(number, "w", closefd=False)
    lines = number == 2 or raw.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(raw), like.encoding, like.errors, line_buffering=lines
    )


def _run(entry: Entry) -> None:
    """Runs it, and exits with its code. What it does not handle, the interpreter does."""
    try:
        sys.exit(entry())
    except SystemExit as end:
        if isinstance(end.code, int | None):
            _codes.append(end.code or 0)
        raise


def _leave_memory() -> None:
    """Ends the process before its modules are taken apart: the last function that runs at its exit,
    once its threads have ended."""
    if _codes:
        logging.shutdown()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_codes[-1] & 0xFF)


_codes: list[int] = []

if __name__ == "__main__":
    # What nohup starts ignores it.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Before all others, and so called after them.
    atexit.register(_leave_memory)
    _import_ahead()
    entry = _serve(socket.socket(fileno=int(sys.argv[1])))
    if entry is not None:
        _run(entry)
