"""A statement that was prepared before a column was added fails if its columns are not what they
were: the modules' statements name columns."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

import scraper
from scraper import models

PREPARED = sa.text("""
SELECT name, CAST(result_types AS text[]) AS types FROM pg_prepared_statements
 WHERE name LIKE 'of\\_%'
""")
# Those whose parameters have no type by themselves, and parts of statements, cannot be prepared.
PREPARED_MIN = 200


def statements() -> Iterator[tuple[str, str]]:
    for module in pkgutil.walk_packages(scraper.__path__, "scraper."):
        if module.name.endswith("__main__") or ".migrations" in module.name:
            continue
        try:
            members = vars(importlib.import_module(module.name))
        except ImportError:
            continue
        for name, member in members.items():
            if isinstance(member, sa.TextClause):
                yield f"{module.name}.{name}", number_parameters(member)


def number_parameters(statement: sa.TextClause) -> str:
    return str(statement.compile(dialect=postgresql.asyncpg.dialect()))  # type: ignore[no-untyped-call]


def prepare(engine: sa.Engine, found: dict[str, str]) -> dict[str, list[str]]:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("DEALLOCATE ALL", prepare=False)
        names = {}
        for number, (place, text) in enumerate(found.items()):
            try:
                driver.execute(f"PREPARE of_{number} AS {text}", prepare=False)
            except psycopg.Error:
                continue
            names[f"of_{number}"] = place
        return {names[row.name]: row.types for row in connection.execute(PREPARED) if row.types}


@pytest.fixture
def found() -> dict[str, str]:
    return dict(statements())


def test_statements_name_their_columns(
    own_database: str, engine: sa.Engine, found: dict[str, str]
) -> None:
    before = prepare(engine, found)
    assert len(before) >= PREPARED_MIN
    with engine.begin() as connection:
        for table in models.Base.metadata.sorted_tables:
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN of_tomorrow text"))
    after = prepare(engine, found)
    assert {name for name in before if before[name] != after.get(name)} == set()
