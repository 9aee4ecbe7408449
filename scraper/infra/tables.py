"""Products and versions as tables on a terminal; plain, tab-separated lines where there is none."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import click
import sqlalchemy as sa

CELL_CHARS = 40
PRODUCT_COLUMNS_MAX = 7
WHOLE_CHARS = 12


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people on a tty, tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in [columns, *rows]:
            click.echo("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        longest = max([len(column), *(len(row[index]) for row in rows)])
        # Where room is short, long texts give way; numbers, ids and prices stay whole.
        table.add_column(
            column, no_wrap=longest <= WHOLE_CHARS, min_width=min(longest, WHOLE_CHARS)
        )
    for row in rows:
        table.add_row(*(Text(cell, overflow="ellipsis", no_wrap=True) for cell in row))
    Console().print(table)


def print_products(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    hidden = {"first_seen_at", "changed_at", "fetched_at", "delisted_at", "url"}
    shown = [name for name in columns if name not in hidden][:PRODUCT_COLUMNS_MAX]
    print_table(shown, [[cell(row[name]) for name in shown] for row in rows])


def version_row(row: sa.Row[Any]) -> dict[str, Any]:
    return {
        "version": row.version,
        "valid_from": row.valid_from.isoformat(),
        "valid_to": row.valid_to.isoformat() if row.valid_to else None,
        "data": json.loads(row.data, parse_float=Decimal),
    }


def print_history(versions: Sequence[dict[str, Any]]) -> None:
    """Each version with what changed in it; the first in full."""
    rows: list[list[str]] = []
    before: dict[str, Any] = {}
    for version in versions:
        data = version["data"]
        changed = {k: v for k, v in data.items() if not before or before.get(k) != v}
        changed |= {k: None for k in before if k not in data}
        text = ", ".join(f"{k}: {cell(v)}" for k, v in sorted(changed.items()))
        rows.append(
            [
                str(version["version"]),
                version["valid_from"][:19],
                (version["valid_to"] or "")[:19],
                text,
            ]
        )
        before = data
    print_table(["version", "from", "to", "what changed"], rows)


def cell(value: Any) -> str:
    if value is None:
        return ""
    text = plain(format(value, "f") if isinstance(value, Decimal) else str(value))
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def plain(text: str) -> str:
    """Text of a stranger's on one line, without what would steer a terminal: control characters,
    escape sequences, marks that turn the direction of writing."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
