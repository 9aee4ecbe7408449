"""EXPLAIN (ANALYZE, BUFFERS) of every statement that an engine runs, with its real parameters,
right before it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

EXPLAINABLE = re.compile(r"\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b", re.I)


@dataclass(frozen=True)
class Plan:
    """The slowest execution of a statement that was seen."""

    statement: str
    plan: str
    ms: float


@contextmanager
def statements(engine: sa.Engine) -> Iterator[dict[str, Plan]]:
    """Plans by statement, as they are found. Each is run twice: once explained and undone, then for
    good."""
    found: dict[str, Plan] = {}

    def explain(
        connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        # Without a transaction nothing could be undone.
        if not EXPLAINABLE.match(statement) or connection.connection.driver_connection.autocommit:
            return
        with connection.connection.cursor() as cursor:
            cursor.execute("SAVEPOINT explained")
            cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + statement, parameters)
            lines = [row[0] for row in cursor.fetchall()]
            cursor.execute("ROLLBACK TO SAVEPOINT explained")
        took = next(
            float(line.split(":")[1].split()[0])
            for line in lines
            if line.startswith("Execution Time")
        )
        if statement not in found or took > found[statement].ms:
            found[statement] = Plan(statement.strip(), "\n".join(lines), took)

    sa.event.listen(engine, "before_cursor_execute", explain)
    try:
        yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", explain)


def text(found: dict[str, Plan]) -> str:
    """The slowest first."""
    plans = sorted(found.values(), key=lambda plan: -plan.ms)
    return (
        "\n\n".join(
            f"{'=' * 40} {plan.ms:.1f} ms\n{plan.statement}\n\n{plan.plan}" for plan in plans
        )
        + "\n"
    )
