"""The page "Plans" of the Crawls tab: what each planned site was promised, what was kept, and what
more or fewer requests would buy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scraper.errors import NotFoundError
from scraper.plugins.freshness import store
from scraper.plugins.freshness.command import describe_plan

TITLE = "Plans"
SCRIPT = Path(__file__).with_name("plans.js")
ANSWERS = Path(__file__).with_name("answers.json")
ACTIONS: Mapping[str, Callable[..., str]] = {}


def read(connection: sa.Connection, query: Mapping[str, str]) -> dict[str, Any]:
    """Answers with all plans, the fleet's shares, and one site's plan in detail: the site that is
    asked for, else the first with a broken promise, else the first."""
    rows = sorted(store.read_plans(connection), key=lambda row: (row.broken is None, row.name))
    names = [row.name for row in rows]
    chosen = query.get("site") if query.get("site") in names else names[0] if names else None
    return {
        "now": connection.execute(sa.text("SELECT now()")).scalar_one(),
        "plans": [_describe_row(row) for row in rows],
        "fleet": _describe_fleet(rows),
        "chosen": chosen,
        "plan": _read_detail(connection, chosen),
    }


def _describe_row(row: sa.Row[Any]) -> dict[str, Any]:
    promise = row.wanted.get("fresh")
    return {
        "site": row.name,
        "promise": promise and f"{promise['share']} within {promise['within']}",
        "promise_kept": row.promise_days / row.seen_days if row.seen_days > 0 else None,
        "planned": row.promised,
        "kept": row.kept_days / row.seen_days if row.seen_days > 0 else None,
        "requests": row.requests,
        "needed": row.needed,
        "broken": row.broken,
    }


def _describe_fleet(rows: Sequence[sa.Row[Any]]) -> dict[str, Any]:
    """Returns the shares of all sites together, each by the time that its looks cover."""
    seen = sum(row.seen_days for row in rows)
    return {
        "sites": len(rows),
        "broken": sum(row.broken is not None for row in rows),
        "requests": sum(row.requests for row in rows),
        "kept": sum(row.kept_days for row in rows) / seen if seen else None,
        "planned": sum(row.promised * row.seen_days for row in rows) / seen if seen else None,
    }


def _read_detail(connection: sa.Connection, name: str | None) -> dict[str, Any] | None:
    if name is None:
        return None
    try:
        return describe_plan(connection, name)
    except NotFoundError:
        # The definition plans nothing any longer, or no page was read yet.
        return None
