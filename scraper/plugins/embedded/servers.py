"""The embedded PostgreSQL and Valkey: two background servers under `SCRAPER_HOME`, on Unix sockets
only.

    home/postgres  home/valkey  home/log/*.log  and the sockets in `settings.socket_dir`

The socket folder has mode 0700, and users who may enter it (its owner, and root) are trusted.
PostgreSQL is durable; Valkey stores nothing on disk, since its data are only hints. Runs no
migrations. Their programs are those of the extra `embedded`, else those on the PATH.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from scraper.errors import ServerUnavailableError
from scraper.plugins.embedded import postgres, process, valkey
from scraper.settings import Settings

LOCK_TIMEOUT_S = 90.0
KILL_TIMEOUT_S = 10.0

_SERVERS = {"postgres": postgres, "valkey": valkey}


@dataclass(frozen=True)
class ServerState:
    """An embedded server. `address` is its socket; `pid` and `program` are those of its main
    process, if it runs."""

    name: str
    running: bool
    pid: int | None
    address: str
    log: str
    program: str | None


def up(settings: Settings) -> list[ServerState]:
    """Starts the embedded servers that do not run, and waits until they answer.

    Raises `ServerUnavailableError` with the end of the server's log if one does not start.
    """
    if settings.embedded:
        with _explain_errors(settings):
            for state in status(settings):
                _SERVERS[state.name].find_program(settings)
            with _hold_lock(settings):
                _make_folders(settings)
                if settings.database_url is None:
                    postgres.up(settings)
                if settings.redis_url is None:
                    valkey.up(settings)
    return status(settings)


def down(settings: Settings) -> list[ServerState]:
    """Stops the embedded servers, and waits until they have exited. PostgreSQL disconnects its
    clients first."""
    if settings.embedded and settings.home_dir.is_dir():
        with _explain_errors(settings), _hold_lock(settings):
            for state in reversed(status(settings)):
                if state.pid is not None and not process.end_process(
                    state.pid, _SERVERS[state.name].STOPS
                ):
                    raise ServerUnavailableError(
                        f"{state.name} (process {state.pid}) does not end: see {state.log}"
                    )
    return status(settings)


def status(settings: Settings) -> list[ServerState]:
    """Returns the state of each embedded server; none if DATABASE_URL and REDIS_URL are set."""
    urls = {"postgres": settings.database_url, "valkey": settings.redis_url}
    return [_server_state(settings, name) for name, url in urls.items() if url is None]


def kill(settings: Settings, name: str) -> None:
    """Kills a server and its children, like a power cut: for tests of recovery."""
    pid = _SERVERS[name].pid(settings)
    if pid is None:
        return
    pids = process.list_family(pid)
    for number in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait_for_exit(pids, KILL_TIMEOUT_S)


def _server_state(settings: Settings, name: str) -> ServerState:
    server = _SERVERS[name]
    pid, socket = server.pid(settings), str(server.socket(settings))
    program, log = process.read_program(pid), str(process.log_file(settings, name))
    return ServerState(name, pid is not None, pid, socket, log, program)


def _make_folders(settings: Settings) -> None:
    """Makes folders that are private to the servers' user. If this process is root, that user may
    pass through home itself, but not list it."""
    uid = process.server_uid(settings.home_dir / "postgres")
    settings.home_dir.chmod(0o700 if uid is None else 0o711)
    (settings.home_dir / "log").mkdir(mode=0o700, exist_ok=True)
    for folder in (settings.home_dir / "valkey", settings.socket_dir):
        folder.mkdir(mode=0o700, exist_ok=True)
        # The socket folder may be in /tmp, where another user could have made it first.
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (os.geteuid(), uid):
            raise ServerUnavailableError(
                f"{folder} belongs to another user (fix: remove it, or set a shorter SCRAPER_HOME)"
            )
        folder.chmod(0o700)
        if uid is not None:
            os.chown(folder, uid, uid)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def _hold_lock(settings: Settings) -> Iterator[None]:
    """Holds the lock of home, so that one `up` or `down` runs at a time. The kernel releases the
    lock of a process that dies."""
    settings.home_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
    with open(settings.home_dir / "lock", "a", opener=_open_private) as file:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ServerUnavailableError(
                        f"another `scraper up` or `scraper down` holds {file.name} "
                        f"for over {LOCK_TIMEOUT_S:.0f} s"
                    ) from None
                time.sleep(0.05)
        yield


@contextlib.contextmanager
def _explain_errors(settings: Settings) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServerUnavailableError(
            f"the embedded servers cannot use {error.filename or settings.home_dir}: "
            f"{error.strerror}\n"
            f"Fix that, or set SCRAPER_HOME to your own folder (it is {settings.home_dir})."
        ) from None


class EmbeddedServers:
    """The service `LocalServers`."""

    def up(self, settings: Settings) -> list[ServerState]:
        return up(settings)

    def down(self, settings: Settings) -> list[ServerState]:
        return down(settings)

    def status(self, settings: Settings) -> list[ServerState]:
        return status(settings)


SERVERS = EmbeddedServers()
