"""Migrations of a database that others use: tables that are in use, steps that fail halfway, and
programs of another revision."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from scraper.errors import ServerUnavailableError
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.plugins.database.plan import Statement, read_pending
from tests.support.making import rows
from tests.support.migrating import Migrating, Waiting, writing
from tests.support.next_migrations import HEAD, INDEX, VALID, NextMigrations, execute
from tests.support.waiting import until

pytestmark = pytest.mark.slow

COLUMN = execute("ALTER TABLE pages ADD COLUMN colour text")
FORMER = migrations.CORE.folder
REVISION = "SELECT version_num FROM alembic_version"
# Other tests build indexes in other databases of the server.
CANCEL = """
SELECT pg_cancel_backend(pid) FROM pg_stat_progress_create_index
 WHERE datname = current_database()
"""


@pytest.fixture
def following(
    own_database: str, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> NextMigrations:
    following = NextMigrations(tmp_path / "versions")
    monkeypatch.setattr(migrations, "CORE", following.history)
    return following


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT", "500ms")
    monkeypatch.setattr(migrations, "PAUSES_S", (0.5,) * 60)


@pytest.mark.usefixtures("impatient")
def test_a_table_in_use_is_tried_again_and_statements_go_on(
    engine: sa.Engine, following: NextMigrations
) -> None:
    following.add(COLUMN)
    with writing(engine):
        migrating = Migrating(engine)
        migrating.until_said("a table is in use; tries again in 0.5 s (oldest transaction: a repo")
        for _ in range(20):
            with engine.begin() as connection:
                connection.execute(sa.text("SET LOCAL lock_timeout = '5s'"))
                connection.execute(sa.text("UPDATE pages SET priority = priority"))
        assert rows(engine, REVISION) == [(HEAD,)]
    migrating.end()
    assert migrating.error is None and rows(engine, REVISION) == [(following.last,)]
    assert migrating.lines[-1] == f"applied {following.last}: change {following.last}"


def test_a_table_that_stays_in_use_is_given_up(
    engine: sa.Engine, following: NextMigrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(migrations, "PAUSES_S", (0, 0))
    first = following.add(execute("CREATE TABLE colours (name text)"))
    following.add(COLUMN)
    with writing(engine), pytest.raises(ServerUnavailableError, match=r"pid \d+.*\n.*stays"):
        migrations.upgrade(engine)
    assert rows(engine, REVISION) == [(first,)]
    migrations.upgrade(engine)
    assert rows(engine, REVISION) == [(following.last,)]


def test_the_table_is_tried_again_after_the_last_pause_too(
    engine: sa.Engine, following: NextMigrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(migrations, "PAUSES_S", (0,))
    following.add(COLUMN)
    with ExitStack() as writer:
        writer.enter_context(writing(engine))
        # The table is free as soon as the only pause is reported.
        migrations.upgrade(engine, report=lambda line: writer.close())
    assert rows(engine, REVISION) == [(following.last,)]


def test_a_step_that_fails_leaves_those_before_it(
    engine: sa.Engine, following: NextMigrations
) -> None:
    first = following.add(execute("CREATE TABLE colours (name text)"))
    second = following.add(execute("ALTER TABLE colours ADD COLUMN hue int", "SELECT 1 / 0"))
    following.add(COLUMN)
    with pytest.raises(DBAPIError, match="division by zero"):
        migrations.upgrade(engine)
    assert rows(engine, REVISION) == [(first,)]
    following.replace(second, "SELECT 1 / 0", "SELECT 1")
    assert migrations.upgrade(engine) == following.last
    assert rows(engine, REVISION) == [(following.last,)]
    assert rows(engine, "SELECT hue FROM colours") == []


def test_an_interrupted_index_is_built_again(engine: sa.Engine, following: NextMigrations) -> None:
    """It waits for a transaction, however long, and for no second process that migrates."""
    following.add(INDEX)
    with writing(engine):
        migrating = Migrating(engine)
        until(lambda: rows(engine, VALID) == [(False,)])
        until(lambda: rows(engine, CANCEL) == [(True,)])
        migrating.end()
        assert "canceling statement" in str(migrating.error)
        assert rows(engine, REVISION) == [(HEAD,)] and rows(engine, VALID) == [(False,)]
        migrating = Migrating(engine)
    migrating.end()
    assert migrating.error is None and rows(engine, VALID) == [(True,)]
    assert rows(engine, REVISION) == [(following.last,)]
    assert rows(engine, "SHOW lock_timeout") == [("30s",)], "the pool has other sessions"


def test_two_that_migrate_do_not_wait_for_each_other(
    engine: sa.Engine, following: NextMigrations
) -> None:
    following.add(INDEX)
    with writing(engine):
        first = Migrating(engine)
        until(lambda: rows(engine, VALID) == [(False,)])
        second = Waiting(engine)
        second.until_said("waits for another process")
    first.end()
    second.end()
    assert (first.error, second.error) == (None, None) and rows(engine, VALID) == [(True,)]


def newer(engine: sa.Engine, needed: str) -> str | None:
    with engine.connect() as connection:
        return migrations.read_newer(connection, migrations.CORE, needed)


def test_processes_from_the_oldest_compatible_revision_run_on(
    engine: sa.Engine, following: NextMigrations
) -> None:
    assert newer(engine, HEAD) is None
    expansion, contraction, later = (following.add("pass", compatible=HEAD) for _ in range(3))
    following.replace(contraction, f"compatible_from = '{HEAD}'", "")
    following.replace(later, f"compatible_from = '{HEAD}'", f"compatible_from = '{contraction}'")
    migrations.upgrade(engine)
    assert newer(engine, contraction) == later and newer(engine, later) is None
    for needed in (HEAD, expansion):
        with pytest.raises(ServerUnavailableError, match=f"newer .* it needs {contraction}"):
            newer(engine, needed)
    migrations.downgrade(engine, expansion)
    assert newer(engine, HEAD) == expansion
    with pytest.raises(ServerUnavailableError, match="scraper migrate"):
        newer(engine, later)


@pytest.mark.parametrize(
    "statement",
    [
        "COMMENT ON TABLE alembic_version IS NULL",
        "COMMENT ON TABLE alembic_version IS 'compatible from 0001'",
        "UPDATE alembic_version SET version_num = '9999'",
    ],
)
def test_what_is_not_known_to_be_compatible_is_refused(
    engine: sa.Engine, following: NextMigrations, statement: str
) -> None:
    following.add("pass")
    migrations.upgrade(engine)
    assert newer(engine, HEAD) == following.last
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
    with pytest.raises(ServerUnavailableError, match="newer than this program"):
        newer(engine, HEAD)


def test_what_would_be_applied_is_shown_and_nothing_is_changed(
    engine: sa.Engine, following: NextMigrations
) -> None:
    assert read_pending(engine) == []
    new = "CREATE TABLE colours (name text)"
    filled = "INSERT INTO colours VALUES ('a;\n\n-- b')"
    first = following.add(execute(new, filled, "ALTER TABLE pages ADD COLUMN colour text"))
    index = following.add(INDEX)
    contraction = following.add(execute("UPDATE sites SET name = name"), compatible=None)
    pending = read_pending(engine)
    assert [(row.history, row.revision, row.processes_run_on) for row in pending] == [
        ("scraper", first, True), ("scraper", index, True), ("scraper", contraction, False)
    ]  # fmt: skip
    assert pending[0].statements == [
        Statement(new),
        Statement(filled),
        Statement("ALTER TABLE pages ADD COLUMN colour text", "pages", "ACCESS EXCLUSIVE"),
    ]
    (built,) = pending[1].statements
    assert (built.table, built.lock) == ("pages", "SHARE UPDATE EXCLUSIVE")
    assert pending[2].statements[0].lock == "ROW EXCLUSIVE"
    assert rows(engine, REVISION) == [(HEAD,)]
    migrations.upgrade(engine)
    assert read_pending(engine) == []


def test_all_of_an_empty_database_is_shown(empty_database: str) -> None:
    engine = make_engine(empty_database)
    pending = read_pending(engine)
    assert {row.history for row in pending} == {row.name for row in migrations.histories()}
    assert all(row.statements and row.processes_run_on for row in pending)
    assert rows(engine, "SELECT FROM pg_class WHERE relname = 'alembic_version'") == []
    engine.dispose()


def test_an_earlier_release_that_starts_again_applies_nothing(
    engine: sa.Engine, following: NextMigrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = migrations.History("scraper", FORMER, migrations.VERSION_TABLE)
    following.add(COLUMN)
    migrations.upgrade(engine)
    monkeypatch.setattr(migrations, "CORE", former)
    assert migrations.upgrade(engine) == HEAD and read_pending(engine) == []
    assert rows(engine, REVISION) == [(following.last,)]
    with engine.begin() as connection:
        connection.execute(sa.text("COMMENT ON TABLE alembic_version IS NULL"))
    with pytest.raises(ServerUnavailableError, match="newer than this program"):
        migrations.upgrade(engine)
