"""What PostgreSQL has planned stays prepared in a session, over transactions that only read."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from scraper.frontier import sites
from scraper.infra import database
from tests.support.making import a_site

# Nothing is prepared yet in the connections of the test's own engine.
pytestmark = pytest.mark.usefixtures("own_database")

# One row at most: a plan for all values costs as much as one for this value.
ASKED = sa.text("SELECT crawl_id FROM pages WHERE id = :id")
PREPARED = sa.text(
    "SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '%pages%'"
)
# Five times unprepared, five times planned for its values, then by a plan for all of them.
TIMES = 12


def read(engine: sa.Engine, times: int = TIMES) -> list[int]:
    """Reads in transactions that are rolled back. Returns how often each statement that is prepared
    was executed without being planned."""
    for _ in range(times):
        with engine.connect() as connection:
            connection.execute(ASKED, {"id": 1})
    with engine.connect() as connection:
        return list(connection.execute(PREPARED).scalars())


def test_a_statement_that_only_reads_is_planned_a_few_times(engine: sa.Engine) -> None:
    (unplanned,) = read(engine)
    assert unplanned > 0
    assert read(engine) == [unplanned + TIMES]


def test_what_a_savepoint_takes_back_is_not_planned_again(engine: sa.Engine) -> None:
    (unplanned,) = read(engine)
    with engine.connect() as connection:
        with connection.begin_nested() as savepoint:
            sites.store_definitions(connection, [a_site()])
            database.roll_back(connection, savepoint)
        assert connection.execute(sa.text("SELECT FROM sites")).all() == []
    assert read(engine) == [unplanned + TIMES]


def test_after_an_error_nothing_is_prepared(engine: sa.Engine) -> None:
    assert read(engine)
    with pytest.raises(sa.exc.DBAPIError), engine.connect() as connection:
        connection.execute(sa.text("SELECT 1 / 0"))
    assert read(engine, 1) == []


def test_plans_are_made_again_after_a_while(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(engine)
    monkeypatch.setattr(database, "PREPARED_S", 0)
    assert read(engine, 1) == []


def test_what_was_written_is_rolled_back(engine: sa.Engine) -> None:
    read(engine)
    for _ in range(TIMES):
        with engine.connect() as connection:
            sites.store_definitions(connection, [a_site()])
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT FROM sites")).all() == []
