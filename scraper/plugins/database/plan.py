"""What `scraper migrate --dry-run` shows: migrations that are to come, their statements, and the
locks that these take. Asks the database only for its revisions."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

import click
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from alembic import command
from scraper.cli.common.shared import print_json
from scraper.infra import migrations
from scraper.infra.migrations import History

# The lock that a statement takes on a table, by how it begins: the first that fits. Statements that
# create something else lock no table that is in use.
_LOCKS = tuple(
    (re.compile(rf'{words} (?:IF EXISTS )?(?:ONLY )?"?(?P<table>\w+)', re.IGNORECASE), lock)
    for words, lock in (
        (r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY\b.*? ON", "SHARE UPDATE EXCLUSIVE"),
        (r"CREATE (?:UNIQUE )?INDEX\b.*? ON", "SHARE"),
        (r"CREATE (?:CONSTRAINT )?TRIGGER\b.*? ON", "SHARE ROW EXCLUSIVE"),
        (r"COMMENT ON (?:TABLE|COLUMN)", "SHARE UPDATE EXCLUSIVE"),
        (r"(?:UPDATE|DELETE FROM|INSERT INTO)", "ROW EXCLUSIVE"),
        (r"ALTER TABLE \S+ VALIDATE", "SHARE UPDATE EXCLUSIVE"),
        (r"DROP INDEX CONCURRENTLY", "SHARE UPDATE EXCLUSIVE"),
        (r"(?:ALTER TABLE|DROP TABLE|DROP TRIGGER \S+ ON|DROP INDEX)", "ACCESS EXCLUSIVE"),
    )
)


@dataclass(frozen=True)
class Statement:
    """`lock` is None if no table is locked, or only one that the same migration creates."""

    sql: str
    table: str | None = None
    lock: str | None = None


@dataclass(frozen=True)
class PendingMigration:
    """`processes_run_on`: whether those of the database's revision may."""

    history: str
    revision: str
    summary: str
    processes_run_on: bool
    statements: list[Statement]


class _Recorder(io.StringIO):
    """Takes what Alembic would print: a statement for each call."""

    def __init__(self) -> None:
        super().__init__()
        self.statements: list[str] = []

    def write(self, text: str) -> int:
        self.statements.append(text.strip().rstrip(";"))
        return len(text)


def show(engine: sa.Engine, *, as_json: bool) -> None:
    """Prints the migrations to come, with their statements and locks."""
    pending = read_pending(engine)
    processes_run_on = all(row.processes_run_on for row in pending)
    if as_json:
        print_json({"processes_run_on": processes_run_on, "migrations": pending})
        return
    for row in pending:
        click.echo(f"{row.history} {row.revision}: {row.summary}")
        for statement in row.statements:
            lock = f"  -- {statement.table}: {statement.lock}" if statement.lock else ""
            click.echo(f"  {statement.sql.replace(chr(10), f'{chr(10)}  ')};{lock}")
    if not pending:
        click.echo("database: up to date")
    elif processes_run_on:
        click.echo("database: coordinators and workers may run on")
    else:
        click.echo("database: stop coordinators and workers first; they would end with exit code 3")


def read_pending(engine: sa.Engine) -> list[PendingMigration]:
    """Returns the migrations that `scraper migrate` would apply, in their order."""
    with engine.connect() as connection:
        revisions = {
            history: migrations.read_revision(connection, history.table)
            for history in migrations.histories()
        }
    return [
        pending
        for history, revision in revisions.items()
        for pending in _list_pending(history, revision)
    ]


def _list_pending(history: History, revision: str | None) -> list[PendingMigration]:
    if revision is not None and revision >= history.head():
        return []
    scripts = ScriptDirectory.from_config(migrations.config(history))
    return [
        PendingMigration(
            history.name,
            script.revision,
            script.doc,
            revision is None or migrations.compatible_from(script.module) <= revision,
            list_statements(history, script.revision, str(script.down_revision or "base")),
        )
        for script in reversed(list(scripts.iterate_revisions("head", revision or "base")))
    ]


def list_statements(history: History, revision: str, former: str) -> list[Statement]:
    """Returns the statements of one migration, without Alembic's own."""
    recorder = _Recorder()
    config = migrations.config(history)
    config.attributes["statements"] = recorder
    command.upgrade(config, f"{former}:{revision}", sql=True)
    own = re.compile(rf"--|(?:BEGIN|COMMIT)$|.*\b{migrations.VERSION_TABLE}")
    texts = [text for text in recorder.statements if text and not own.match(text)]
    created = set(re.findall(r"^CREATE TABLE (\w+)", "\n".join(texts), re.MULTILINE))
    return [_describe_statement(text, created) for text in texts]


def _describe_statement(text: str, created: set[str]) -> Statement:
    words = " ".join(text.split())
    for pattern, lock in _LOCKS:
        if found := pattern.match(words):
            table = found["table"]
            return Statement(text) if table in created else Statement(text, table, lock)
    return Statement(text)
