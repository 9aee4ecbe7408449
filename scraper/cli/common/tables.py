"""Tables on a terminal; plain, tab-separated lines elsewhere. Shops' texts are shown on one line
and without control characters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import click

CELL_CHARS = 40
# Texts up to this length are never cut.
WHOLE_CHARS = 12


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table for people on a terminal, tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in [columns, *rows]:
            click.echo("\t".join(text.replace("\t", " ").replace("\n", " ") for text in row))
        return
    # Only a terminal needs rich.
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
        table.add_row(*(Text(text, overflow="ellipsis", no_wrap=True) for text in row))
    Console().print(table)


def format_cell(value: Any) -> str:
    """Formats a product's value: shortened on a terminal, whole elsewhere."""
    if value is None:
        return ""
    text = one_line(format(value, "f") if isinstance(value, Decimal) else str(value))
    if len(text) <= CELL_CHARS or not sys.stdout.isatty():
        return text
    return text[: CELL_CHARS - 1] + "…"


def one_line(text: str) -> str:
    """Returns a shop's text on one line, without control characters, escape sequences, and marks
    that change the direction of writing."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def format_minute(at: datetime | None) -> str:
    """Formats a time to the minute; None as an empty text."""
    return at.strftime("%Y-%m-%d %H:%M") if at else ""


def format_local_time(at: datetime | None) -> str:
    """Formats a time in the local zone, with the zone's name; None as an empty text."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z}" if at else ""


def format_span(seconds: float) -> str:
    """Formats a duration in one unit.

    >>> format_span(95.0)
    '95 s'
    """
    seconds = max(0.0, seconds)
    for unit, size, until in (("s", 1, 100), ("min", 60, 100 * 60), ("h", 3600, 72 * 3600)):
        if seconds < until:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
