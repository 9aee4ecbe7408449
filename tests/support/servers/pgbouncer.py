"""A PgBouncer of the tests' own, the first on PATH or Debian's: in transaction mode, with its
defaults otherwise, in front of the embedded PostgreSQL."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import sqlalchemy as sa

from scraper.settings import Settings
from tests.support.machine import need
from tests.support.servers.ports import unused_port
from tests.support.waiting import until

START_S = 120.0
# Fewer than the clients have: they must share them.
SERVER_CONNECTIONS = 6


def program() -> str | None:
    path = os.environ.get("PATH", "")
    return shutil.which("pgbouncer", path=f"{path}:/usr/sbin:/usr/bin:/usr/local/sbin")


def need_pgbouncer() -> str:
    return need(program(), "PgBouncer is not installed (Debian: apt install pgbouncer)")


# What a transaction could leave in a session, for the clients that share it.
SESSION_STATE = """
SELECT pg_backend_pid(),
       (SELECT array_agg(statement) FROM pg_prepared_statements),
       (SELECT array_agg(channel) FROM pg_listening_channels() AS channel),
       (SELECT array_agg(name) FROM pg_settings WHERE source = 'session' AND name <> 'statement_timeout'
           AND name NOT IN ('application_name', 'client_encoding')),
       (SELECT array_agg(relname) FROM pg_class WHERE pg_my_temp_schema() = relnamespace),
       (SELECT array_agg(locktype) FROM pg_locks WHERE locktype = 'advisory' AND database =
           (SELECT oid FROM pg_database WHERE datname = current_database()))
"""


@contextmanager
def open_pooler(servers: Settings, database: str, **options: object) -> Iterator[str]:
    """Yields the URL of the database behind a pooler."""
    program, name = need_pgbouncer(), sa.make_url(database).database
    with (
        TemporaryDirectory(prefix="pooler-") as folder,
        pooler(program, servers, Path(folder), **options) as port,  # type: ignore[arg-type]
    ):
        yield f"postgresql://scraper@127.0.0.1:{port}/{name}"


def ask_console(url: str, *commands: str) -> list[dict[str, Any]]:
    """Gives commands to a pooler whose `admin_users` is `scraper`. Returns the last one's rows."""
    console = sa.make_url(url).set(database="pgbouncer").render_as_string()
    with psycopg.connect(console, autocommit=True) as admin:
        for command in commands:
            cursor = admin.execute(command, prepare=False)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in (cursor if names else ())]


def pause(url: str) -> None:
    """Pauses a pooler. It waits for logins, since a pause would end them, and clients would be
    refused for `server_login_retry`."""
    until(
        lambda: all(row["state"] != "new" for row in ask_console(url, "SHOW SERVERS")),
        "a moment without a login",
        timeout_s=START_S,
        every_s=0.01,
    )
    ask_console(url, "PAUSE")


def assert_clean(url: str, size: int) -> None:
    """Asserts that each of a pool's sessions is idle, and that clients have left nothing in it.
    The pool's `admin_users` is `scraper`."""
    with ExitStack() as stack:
        seen = []
        for _ in range(size):
            client = stack.enter_context(psycopg.connect(url, prepare_threshold=None))
            client.execute("SET LOCAL statement_timeout = '30s'")
            seen.append(client.execute(SESSION_STATE).fetchone())
    assert len({row[0] for row in seen if row}) == size
    assert [row[1:] for row in seen if row] == [(None,) * 5] * size
    servers = [row for row in ask_console(url, "SHOW SERVERS") if row["database"] != "pgbouncer"]
    assert {row["state"] for row in servers} == {"idle"}, servers


@contextmanager
def pooler(
    pgbouncer: str, servers: Settings, folder: Path, port: int | None = None, **options: object
) -> Iterator[int]:
    """Yields the port on 127.0.0.1, where all users are trusted. It is killed at the end."""
    port = port or unused_port()
    settings = {
        "pool_mode": "transaction",
        "default_pool_size": SERVER_CONNECTIONS,
        "max_client_conn": 200,
        **options,
    }
    lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
    users = folder / "users.txt"
    users.write_text('"scraper" ""\n')
    config = f"""[databases]
* = host={servers.socket_dir} port=5432
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
{lines}
"""
    with started(pgbouncer, servers, folder, config, port):
        yield port


@contextmanager
def started(
    pgbouncer: str, servers: Settings, folder: Path, config: str, port: int
) -> Iterator[None]:
    """A PgBouncer with that configuration, which has `users.txt` of the folder for its users."""
    path, users = folder / "pgbouncer.ini", folder / "users.txt"
    path.write_text(config)
    owner = servers.socket_dir.stat().st_uid
    for part in (folder, path, users):
        part.chmod(0o755)
    log = (folder / "pgbouncer.log").open("w")
    with (
        log,
        subprocess.Popen(
            [pgbouncer, str(path)], stdout=log, stderr=log, user=owner, group=owner
        ) as process,
    ):
        try:
            until = time.monotonic() + START_S
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                ended = process.poll() is not None or time.monotonic() > until
                assert not ended, (folder / "pgbouncer.log").read_text()
                time.sleep(0.05)
            yield
        finally:
            process.kill()
