"""Runs Alembic: migrates a database to the newest revisions, or checks that it is there.

The core has one history of revisions, and each plug-in with tables one of its own, with its own
version table. A plug-in that is off is not migrated; its tables stay.

A migration may say `compatible_from = "0029"`: processes of that revision and later ones run on the
database that it leaves. Without it, only those of its own revision do. The comment of the version
table holds the value, so that processes that do not know the migration can read it.

Migrations run while a crawl does. Each has a transaction of its own, which waits for a lock only
briefly, since what comes later queues behind it, and is tried again. An index on a table that
exists is built concurrently, outside of transactions.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from scraper.errors import ConfigError, ServerUnavailableError
from scraper.infra import shipped
from scraper.infra.database import RETRIED_STATES
from scraper.infra.statements import sql
from scraper.registry import active_plugins, found_plugins, resolve

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = shipped.path("alembic")
VERSION_TABLE = "alembic_version"
# Any number will do that no other program uses as a lock.
MIGRATION_LOCK = 7_203_001
LOCK_TIMEOUT = "2s"
# A busy table is tried again for a quarter of an hour.
PAUSES_S = (2, 4, 8, 16, *[30] * 28)
OLDEST_TRANSACTION = sa.text(sql("infra/oldest_transaction.sql"))
INVALID_INDEXES = sa.text(sql("infra/invalid_indexes.sql"))


@dataclass(frozen=True, slots=True)
class History:
    """A line of revisions: the folder of their files, and the table that holds the database's."""

    name: str
    folder: Path
    table: str

    def head(self) -> str:
        """Returns the newest revision, by the files' numbers. Alembic is imported only for
        migrations: that takes half a second."""
        return max(path.stem.partition("_")[0] for path in self.folder.glob("[0-9]*.py"))


CORE = History("scraper", FOLDER / "versions", VERSION_TABLE)


def histories() -> list[History]:
    """Returns the core's history, then those of the plug-ins that are on, by name."""
    return [
        CORE,
        *(
            History(plugin.name, _folder_of(plugin.migrations), _version_table(plugin.name))
            for plugin in active_plugins()
            if plugin.migrations is not None
        ),
    ]


def _version_table(plugin: str) -> str:
    return f"{VERSION_TABLE}_{plugin}"


def _folder_of(package: str) -> Path:
    return Path(resolve(f"{package}:__path__")[0])


def head() -> str:
    """Returns the core's newest revision."""
    return CORE.head()


def config(history: History = CORE) -> Config:
    """Returns Alembic's settings, independent of the working directory."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _escaped(FOLDER))
    config.set_main_option("version_locations", _escaped(history.folder))
    config.set_main_option("path_separator", "newline")
    config.attributes["version_table"] = history.table
    return config


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def _print_progress(line: str) -> None:
    print(f"database: {line}", file=sys.stderr, flush=True)


def upgrade(engine: sa.Engine, report: Callable[[str], None] = _print_progress) -> str:
    """Applies missing migrations, one process at a time. Returns the core's revision."""
    with hold_lock(engine, report):
        for history in histories():
            if not is_applied(engine, history):
                _migrate(engine, history, _upgrade_to_head, report)
    return head()


def _upgrade_to_head(config: Config) -> None:
    from alembic import command

    command.upgrade(config, "head")


def is_applied(engine: sa.Engine, history: History) -> bool:
    """Returns whether there is nothing to apply: the program of a release before may start again on
    a newer database. Raises `ServerUnavailableError` if that database is not compatible."""
    with engine.connect() as connection:
        revision = read_revision(connection, history.table)
        if revision is None or revision < history.head():
            return False
        read_newer(connection, history, history.head())
        return True


def downgrade(engine: sa.Engine, revision: str, plugin: str | None = None) -> None:
    """Reverts the core's history, or a plug-in's, to a revision; `base` removes the tables. Raises
    `ConfigError` if the history has no such revision, or the plug-in no history."""
    from alembic import command, util

    history = _find_history(plugin)
    with hold_lock(engine):
        try:
            _migrate(engine, history, lambda config: command.downgrade(config, revision))
        except util.exc.CommandError as error:
            raise ConfigError(f"{history.name}: {error}") from error


@contextmanager
def hold_lock(engine: sa.Engine, report: Callable[[str], None] = _print_progress) -> Iterator[None]:
    """Keeps other processes from migrating. A transaction that stays open holds the lock, since a
    pooler gives a session's next statement to another session. A process that waits asks
    twice a second: a statement that waited would have a snapshot, for whose end an index that is
    built concurrently waits."""
    setting = sa.text("SET LOCAL idle_in_transaction_session_timeout = 0")
    lock = sa.text("SELECT pg_try_advisory_xact_lock(:key)")
    with engine.connect() as connection:
        waits = False
        while True:
            if connection.execute(lock, {"key": MIGRATION_LOCK}).scalar():
                # It also ends the snapshot of the last statement, whose portal would stay open.
                connection.execute(setting)
                yield
                return
            connection.rollback()
            if not waits:
                report("waits for another process that migrates")
            waits = True
            time.sleep(0.5)


def _migrate(
    engine: sa.Engine,
    history: History,
    work: Callable[[Config], object],
    report: Callable[[str], None] = _print_progress,
) -> None:
    """Runs migrations, and those that found a table in use again. Raises `ServerUnavailableError`
    if it stays in use."""
    settings = config(history)
    for pause_s in (*PAUSES_S, None):
        with engine.connect() as connection:
            sa.event.listen(connection, "begin", _limit_waits)
            settings.attributes["connection"] = connection
            try:
                if read_revision(connection, history.table) not in (None, history.head()):
                    settings.attributes["report"] = report
                    _drop_invalid_indexes(connection)
                connection.rollback()
                work(settings)
                return
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in RETRIED_STATES:
                    raise
            finally:
                # The session ends with its settings.
                connection.invalidate()
        with engine.connect() as connection:
            values = {"key": MIGRATION_LOCK}
            oldest = connection.execute(OLDEST_TRANSACTION, values).scalar() or "it has ended"
        if pause_s is not None:
            report(f"a table is in use; tries again in {pause_s} s (oldest transaction: {oldest})")
            time.sleep(pause_s)
    raise ServerUnavailableError(
        f"a migration of {history.name} cannot lock a table (oldest transaction: {oldest})\n"
        "end that transaction, then type `scraper migrate` again: what was applied stays"
    )


def _limit_waits(connection: sa.Connection) -> None:
    """Lets a transaction wait for a lock only briefly. A statement outside of a transaction builds
    an index, which holds up no other, and may wait for as long as it takes."""
    driver: Any = connection.connection.driver_connection
    if not driver.autocommit:
        driver.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    elif driver.is_pooled:
        driver.hidden_s = math.inf
    else:
        driver.execute("SET lock_timeout = 0")


def _drop_invalid_indexes(connection: sa.Connection) -> None:
    """Drops indexes whose building was interrupted: no query uses them, and their names are
    taken."""
    names = list(connection.execute(INVALID_INDEXES).scalars())
    for name in names:
        connection.execute(sa.text(f"DROP INDEX {name}"))
    connection.commit()


def _find_history(plugin: str | None) -> History:
    if plugin is None:
        return CORE
    own = {history.name: history for history in histories()[1:]}
    if plugin not in own:
        names = ", ".join(own) or "switch it on"
        raise ConfigError(
            f"no plug-in that is on has migrations and is named {plugin!r} (fix: {names})"
        )
    return own[plugin]


def unmigrated_plugins(connection: sa.Connection) -> set[str]:
    """Returns the installed plug-ins with migrations that the database does not have, since they
    were never on."""
    return {
        row.name
        for row in found_plugins()
        if row.plugin is not None
        and row.plugin.migrations is not None
        and read_revision(connection, _version_table(row.name)) is None
    }


def require_current(engine: sa.Engine) -> None:
    """Raises `ServerUnavailableError` if this program cannot run on the database's revisions."""
    with engine.connect() as connection:
        for history in histories():
            read_newer(connection, history, history.head())


def read_newer(connection: sa.Connection, history: History, needed: str) -> str | None:
    """Returns the database's revision if it is newer than `needed` and compatible, None if it is
    the same. Raises `ServerUnavailableError` if the program must not run on it."""
    revision = read_revision(connection, history.table)
    if revision == needed:
        return None
    scope = "" if history.table == VERSION_TABLE else f" of the plug-in {history.name}"
    if revision is None or revision < needed:
        raise ServerUnavailableError(
            f"the database {f'is at revision {revision}' if revision else 'has no tables'}{scope}, "
            f"this program needs {needed}\n"
            "type `scraper migrate` (or `scraper up`, which migrates as well)"
        )
    oldest = _read_compatible(connection, history.table, revision)
    if needed < oldest:
        raise ServerUnavailableError(
            f"the database is at revision {revision}{scope}, newer than this program, which has "
            f"{needed}; it needs {oldest}\n"
            "use the version of celery-scraper that migrated it, or a later one"
        )
    return revision


def compatible_from(migration: Any) -> str:
    """Returns the oldest revision whose processes run on a database after that migration."""
    return str(getattr(migration, "compatible_from", migration.revision))


def describe_compatible(revision: str, oldest: str) -> str:
    """Returns the comment of a version table: the oldest revision whose processes run on it."""
    return f"{revision}, compatible from {oldest}"


def _read_compatible(connection: sa.Connection, table: str, revision: str) -> str:
    """Returns the oldest revision whose processes run on the database. A dump may lack comments, or
    a revision be set by hand: then it is the revision itself."""
    query = sa.text("SELECT obj_description(to_regclass(:table), 'pg_class')")
    comment = connection.execute(query, {"table": table}).scalar() or ""
    oldest = comment.rpartition(" ")[2]
    return oldest if comment == describe_compatible(revision, oldest) else revision


def read_revision(connection: sa.Connection, table: str) -> str | None:
    """Returns the revision in a version table; None if there is none."""
    exists = sa.text("SELECT to_regclass(:table) IS NOT NULL")
    if not connection.execute(exists, {"table": table}).scalar():
        return None
    return connection.execute(sa.text(f'SELECT version_num FROM "{table}"')).scalar()
