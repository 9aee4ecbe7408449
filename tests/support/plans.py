"""How many rows PostgreSQL reads for each statement: a measure that no machine's speed changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

PLANNED = re.compile(r"\s*(?:--.*\n\s*)*(?:WITH|SELECT|INSERT|UPDATE|DELETE)\b")
SEEN_EMPTY = """
UPDATE pg_class SET relpages = 10, reltuples = 0
 WHERE relkind = 'r' AND relnamespace = to_regnamespace('public') AND relname <> ALL (:but)
"""


def take_tables_for_empty(connection: sa.Connection, but: Sequence[str] = ()) -> None:
    """Leaves statistics as of tables that were empty, as they are between crawls, when PostgreSQL
    looked: it expects one row, however many pages a table has by now."""
    connection.execute(sa.text(SEEN_EMPTY), {"but": list(but)})


@contextmanager
def rows_read(engine: sa.Engine) -> Iterator[dict[str, float]]:
    """Fills the dictionary with what the part of each statement's plan reads that reads the most.
    Each statement is executed twice, the first time in a savepoint that is rolled back."""
    read: dict[str, float] = {}

    def explain(
        _connection: Any, cursor: Any, statement: str, values: Any, _context: Any, _many: bool
    ) -> None:
        if PLANNED.match(statement):
            connection = cursor.connection
            connection.execute("SAVEPOINT explained")
            explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
            ((plans,),) = connection.execute(explained, values).fetchall()
            connection.execute("ROLLBACK TO explained")
            read[statement] = max(read.get(statement, 0), *_rows_of_parts(plans[0]["Plan"]))

    sa.event.listen(engine, "before_cursor_execute", explain)
    try:
        yield read
    finally:
        sa.event.remove(engine, "before_cursor_execute", explain)


def _rows_of_parts(plan: dict[str, Any]) -> Iterator[float]:
    removed = sum(plan.get(f"Rows Removed by {by}", 0) for by in ("Filter", "Join Filter"))
    yield (plan.get("Actual Rows", 0) + removed) * plan.get("Actual Loops", 0)
    for below in plan.get("Plans", ()):
        yield from _rows_of_parts(below)
