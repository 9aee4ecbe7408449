"""The page "Drops" of the Crawls tab: what costs less than a day ago, over all shops, the
largest fall first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scraper.feed.prices import format_amount
from scraper.infra.statements import sql

TITLE = "Drops"
SCRIPT = Path(__file__).with_name("drops.js")
ANSWERS = Path(__file__).with_name("answers.json")
ACTIONS: Mapping[str, Callable[..., str]] = {}
SHOWN = 100
# Products that are compared: about 10 µs each.
COMPARED_MAX = 50_000
# All windows share an answer for this long.
FRESH_S = 60.0
READ = sa.text(sql("plugins/prices/price_drops.sql"))

_answers: dict[str, tuple[float, dict[str, Any]]] = {}


def read(connection: sa.Connection, query: Mapping[str, str]) -> dict[str, Any]:
    """Answers with the largest falls of the last 24 hours, at most a minute old."""
    database = str(connection.engine.url)
    asked_at, answer = _answers.get(database, (0.0, {}))
    if not answer or time.monotonic() - asked_at > FRESH_S:
        answer = read_drops(connection)
        _answers[database] = time.monotonic(), answer
    return answer


def read_drops(connection: sa.Connection) -> dict[str, Any]:
    """Returns the largest falls of the last 24 hours."""
    now = connection.execute(sa.text("SELECT now()")).scalar_one()
    rows = connection.execute(READ, {"most": COMPARED_MAX, "shown": SHOWN}).all()
    return {
        "now": now,
        "drops": [_describe_drop(row) for row in rows],
        "matching": rows[0].matching if rows else 0,
        "complete": not (rows and rows[0].cut),
    }


def _describe_drop(row: sa.Row[Any]) -> dict[str, Any]:
    return {
        "site": row.site,
        "id": row.id,
        "title": row.title,
        "url": row.url,
        "percent": float(row.percent),
        "before": format_amount(row.before, row.currency),
        "price": format_amount(row.price, row.currency),
        "at": row.at,
    }
