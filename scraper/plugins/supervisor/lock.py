"""Lets one `scraper start` run in a home, and remembers whether it started the embedded servers, so
that they are stopped by what follows a killed one."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO

import psutil

from scraper.errors import BusyError
from scraper.settings import Settings

# What follows a killed `scraper start` holds the lock while it stops the servers.
WAIT_S = 60.0


def lock_path(settings: Settings) -> Path:
    return settings.home_dir.resolve() / "start.lock"


class StartLock:
    """The lock, held until `release` or the end of this process. `owns_servers`: a killed `scraper
    start` left servers that it had started."""

    def __init__(self, settings: Settings) -> None:
        path = lock_path(settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a+", encoding="utf-8")
        deadline = time.monotonic() + WAIT_S
        while not self._try_lock():
            holder = self._read_words()[:1]
            if (holder and psutil.pid_exists(int(holder[0]))) or time.monotonic() > deadline:
                raise BusyError(
                    f"`scraper start` already runs here, as process {' '.join(holder) or 'unknown'}"
                    f" (fix: use that one, or end it with Ctrl-C or `kill {' '.join(holder)}`)"
                )
            time.sleep(0.1)
        self.owns_servers = "servers" in self._read_words()

    def write_state(self) -> None:
        """Writes this process's id, and whether it has started the servers."""
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} servers" if self.owns_servers else f"{os.getpid()}")
        self._file.flush()

    def release(self) -> None:
        """Forgets everything: what was started has been stopped."""
        self._file.truncate(0)
        self._file.close()

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _read_words(self) -> list[str]:
        self._file.seek(0)
        return self._file.read().split()


class LockHolder:
    """The service `ServersOwner`: the process of `scraper start`. What follows a killed one holds
    the lock too, but stops the servers."""

    def find_process(self, settings: Settings) -> int | None:
        try:
            with lock_path(settings).open(encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            words = lock_path(settings).read_text("utf-8").split()
            return int(words[0]) if words and _is_running(int(words[0])) else None
        return None


OWNER = LockHolder()


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
