"""The tests' PostgreSQL databases: a migrated template, its clones, and one clone for each xdist
worker that is emptied between its tests.

Emptying takes some milliseconds where a clone takes a tenth of a second, all under one lock.
What would make one test's leftovers the next one's rows is looked for each time: processes that
know the database, sessions, other tables, other settings.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.types.json import Jsonb

from scraper.infra import migrations
from scraper.infra.database import make_engine, set_up_session
from scraper.settings import Settings
from tests.support.servers.spares import FORKED, told_by

MIGRATED = "template_migrated"
# How long processes and sessions may take to end after the signal.
GRACE_S = 10.0
# Tables beyond this size are truncated: deleting would leave as much to vacuum.
TRUNCATED_BYTES = 400_000
# The next test goes on with up to this many sessions of the shared engine. A new one looks up the
# catalogue again, for more than most tests' statements take.
KEPT_SESSIONS = 4

SESSIONS = """
SELECT format('a session of %%s (pid %%s, %%s): %%s', application_name, pid, state, left(query, 200))
  FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
   AND pid <> ALL (%s)
"""

# As DISCARD ALL, but for what is prepared: PostgreSQL would parse and plan it again for each test.
DISCARDED = """
CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *;
SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP
"""

# Everything of a schema that a test might change: columns, indexes, triggers, settings, revision.
# Sums of hashes take a quarter of the time of texts.
SCHEMA = """
SELECT md5(concat_ws(' ',
  (SELECT sum(hashtextextended(concat_ws(' ', c.relname, c.relkind, c.reloptions), c.oid::bigint))
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname !~ '^pg_'),
  (SELECT sum(hashtextextended(
              attname, (attrelid::bigint << 32) + (attnum::bigint << 24) + atttypid::bigint))
     FROM pg_attribute WHERE attrelid >= 16384),
  (SELECT string_agg(tgname, ',' ORDER BY oid) FROM pg_trigger),
  (SELECT string_agg(setconfig::text, ',' ORDER BY setrole) FROM pg_db_role_setting s
     JOIN pg_database d ON d.oid = s.setdatabase AND d.datname = current_database()),
  (SELECT string_agg(version_num, ',') FROM alembic_version)))
"""

TABLES = """
SELECT relname, pg_relation_size(oid) FROM pg_class
 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname !~ '^alembic_version'
"""

RESTART_SEQUENCES = """
SELECT setval(format('%I', sequencename)::regclass, start_value, false)
  FROM pg_sequences WHERE last_value IS NOT NULL
"""


def admin(settings: Settings, database: str = "postgres") -> psycopg.Connection[Any]:
    url = database_url(settings, database).replace("postgresql+psycopg://", "postgresql://")
    return psycopg.connect(url, autocommit=True)


def database_url(settings: Settings, name: str) -> str:
    return settings.postgres_url.replace("/scraper?", f"/{name}?")


def _read_whole(name: str) -> bytes:
    """As `Path.read_bytes`, in a sixth of its time."""
    file = os.open(name, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(file, 100_000):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


@contextmanager
def _alone(settings: Settings) -> Iterator[psycopg.Connection[Any]]:
    """A process that clones, or migrates, a template has it alone."""
    with (settings.home_dir / "template.lock").open("w") as lock, admin(settings) as connection:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield connection


def make_template(settings: Settings) -> None:
    """Once in a run, by the first xdist worker that comes. Nothing of the run's data has to survive
    a power cut."""
    query = "SELECT FROM pg_database WHERE datname = %s"
    with _alone(settings) as connection:
        if connection.execute(query, [MIGRATED]).fetchone() is not None:
            return
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            connection.execute(f"ALTER SYSTEM SET {name} = off")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE DATABASE template_being_made")
        engine = make_engine(database_url(settings, "template_being_made"))
        migrations.upgrade(engine)
        engine.dispose()
        connection.execute(f"ALTER DATABASE template_being_made RENAME TO {MIGRATED}")


def _create(settings: Settings, name: str, template: str) -> None:
    with _alone(settings) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")


@contextmanager
def clone(settings: Settings, template: str) -> Iterator[str]:
    """The URL of a new database, which is dropped afterwards even while it is used."""
    name = f"t_{uuid.uuid4().hex[:16]}"
    _create(settings, name, template)
    yield database_url(settings, name)
    with admin(settings) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class WorkerDatabase:
    """One xdist worker's database, and an engine whose tests share what it has compiled."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.url = database_url(settings, name)
        self._settings, self._name = settings, name
        # A new session for each test would look up again what this one knows.
        self._session: psycopg.Connection[Any] | None = None
        self._engine = make_engine(self.url)
        self._make()

    def engine(self) -> sa.Engine:
        """The shared engine. What is listened for on it is not listened for in other tests."""
        return self._engine.execution_options()

    def _make(self) -> None:
        _create(self._settings, self._name, MIGRATED)
        with admin(self._settings, self._name) as connection:
            self._schema = connection.execute(SCHEMA).fetchone()
            # What the migrations themselves put in, as JSON.
            self._seeds = {
                table: seed
                for table, size in connection.execute(TABLES).fetchall()
                if size
                for (seed,) in connection.execute(f"SELECT json_agg(t) FROM {table} t")
                if seed
            }

    def empty(self) -> str:
        """Makes it as new. Returns what the test left behind that would reach into the next one:
        then it is another database of that name."""
        deadline = time.monotonic() + GRACE_S
        connection = self._connect()
        while (left := self._left(connection)) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not left and connection.execute(SCHEMA).fetchone() != self._schema:
            left = ["another schema, or settings of the database"]
        if not left:
            self._delete_rows(connection)
            return ""
        self.close()
        self._make()
        return "; ".join(left)

    def close(self) -> None:
        self._engine.dispose()
        if self._session is not None:
            self._session.close()

    def _connect(self) -> psycopg.Connection[Any]:
        """The session that empties the database, or another one if a test has ended it."""
        try:
            if self._session is not None:
                self._session.execute("SELECT")
                return self._session
        except psycopg.OperationalError:
            pass
        self._session = admin(self._settings, self._name)
        return self._session

    def _reset_sessions(self) -> list[int]:
        """Makes the engine's idle sessions as new, as a pooler does before another client has them.
        Returns the process ids of those that are kept."""
        pool = self._engine.pool
        assert isinstance(pool, sa.QueuePool)
        if pool.checkedin() > KEPT_SESSIONS:
            self._engine.dispose()
            return []
        taken = [pool.connect() for _ in range(pool.checkedin())]
        kept = []
        for connection in reversed(taken):
            driver: Any = connection.driver_connection
            driver.autocommit = True
            driver.execute(DISCARDED, prepare=False)
            set_up_session(driver, None)
            kept.append(driver.info.backend_pid)
            connection.close()
        return kept

    def _left(self, connection: psycopg.Connection[Any]) -> list[str]:
        sessions = connection.execute(SESSIONS, [self._reset_sessions()])
        return [line for (line,) in sessions] + self._processes()

    def _processes(self) -> list[str]:
        """Those whose environment names the database, of these servers."""
        mark, forked = self.url.encode(), "=".join(FORKED).encode()
        lines = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                shown = _read_whole(f"/proc/{pid}/environ")
                if mark in shown or (
                    forked in shown and f"DATABASE_URL={self.url}" in told_by(int(pid))
                ):
                    words = _read_whole(f"/proc/{pid}/cmdline").decode(errors="replace")
                    lines.append(f"process {pid}: {' '.join(words.split(chr(0)))[:200]}")
        return lines

    def _delete_rows(self, connection: psycopg.Connection[Any]) -> None:
        used = [table for table in connection.execute(TABLES).fetchall() if table[1]]
        # Foreign keys are not looked at: all rows go.
        statements = ["SET LOCAL session_replication_role = replica"]
        large = [name for name, size in used if size > TRUNCATED_BYTES]
        if large:
            statements.append(f"TRUNCATE {', '.join(large)} CASCADE")
        statements += [f"DELETE FROM {name}" for name, _ in used if name not in large]
        with connection.transaction():
            # One after the other, forty statements take seven times as long.
            connection.execute("; ".join(statements))
            for name, seed in self._seeds.items():
                connection.execute(
                    f"INSERT INTO {name} OVERRIDING SYSTEM VALUE "
                    f"SELECT * FROM jsonb_populate_recordset(NULL::{name}, %s)",
                    [Jsonb(seed)],
                )
            connection.execute(RESTART_SEQUENCES)
