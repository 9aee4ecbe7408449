"""Tests share a session of their engine: what one of them does to it, the next one does not see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from tests.support.databases import WorkerDatabase

PREPARED = sa.text("SELECT count(*) FROM pg_prepared_statements")
STATE = """
SELECT current_setting('work_mem'), current_setting('timezone'), to_regclass('pg_temp.left_over'),
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
       (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_cursors)
"""


@pytest.fixture
def shared(servers: Settings, worker_id: str) -> Iterator[WorkerDatabase]:
    """A database of this test alone: other xdist workers may run tests of this module."""
    database = WorkerDatabase(servers, f"t_shared_{worker_id}")
    yield database
    database.close()


@pytest.mark.parametrize("_turn", range(2))
def test_a_test_begins_with_a_new_session(engine: sa.Engine, _turn: int) -> None:
    heard: list[object] = []
    with engine.connect() as connection:
        work_mem, *rest = connection.execute(sa.text(STATE)).one()
        assert (work_mem != "77MB", rest) == (True, ["UTC", None, 0, 0, 0])
    sa.event.listen(engine, "begin", heard.append)
    with engine.begin() as connection:
        assert len(heard) == 1, "an earlier test's listener is gone"
        for statement in (
            "SET work_mem = '77MB'",
            "SET timezone = 'Asia/Tokyo'",
            "CREATE TEMP TABLE left_over (id int)",
            "SELECT pg_advisory_lock(7)",
            "LISTEN left_over",
            "DECLARE left_over CURSOR WITH HOLD FOR SELECT 1",
        ):
            connection.execute(sa.text(statement))


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE sites ADD COLUMN left_over int",
        "ALTER TABLE sites RENAME COLUMN name TO left_over",
        "ALTER TABLE crawls ALTER COLUMN dead TYPE bigint",
        "CREATE INDEX left_over ON sites (name)",
        "ALTER TABLE sites SET (fillfactor = 77)",
    ],
)
def test_another_schema_is_left_behind(shared: WorkerDatabase, change: str) -> None:
    with shared.engine().begin() as connection:
        connection.execute(sa.text(change))
    assert "another schema" in shared.empty()
    assert shared.empty() == ""


def test_what_is_prepared_stays_and_works(shared: WorkerDatabase) -> None:
    engine = shared.engine()
    with engine.connect() as connection:
        while not (prepared := connection.execute(PREPARED).scalar()):
            pass
    assert shared.empty() == ""
    with engine.connect() as connection:
        assert [connection.execute(PREPARED).scalar() for _ in range(3)] == [prepared] * 3
