"""A PgBouncer of the tests' own, from the Debian package: in transaction mode, with its defaults
otherwise, in front of the embedded PostgreSQL."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scraper.settings import Settings
from tests.support.machine import need
from tests.support.servers.rabbitmq import unused_ports

START_S = 120.0
# Fewer than the clients have: they must share them.
SERVER_CONNECTIONS = 6


def program() -> str | None:
    return shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/sbin")


def need_pgbouncer() -> str:
    return need(program(), "PgBouncer is not installed (Debian: apt install pgbouncer)")


@contextmanager
def pooler(
    pgbouncer: str, servers: Settings, folder: Path, port: int | None = None, **options: object
) -> Iterator[int]:
    """Yields the port on 127.0.0.1, where all users are trusted. It is killed at the end."""
    port = port or unused_ports(1)[0]
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
