"""Products as files: CSV and JSON lines, streamed, in an order of rows and columns that stays the same.

Columns: `id`, `url`, the definition's fields in its order, any other keys by name, then the times. Numbers keep every
digit. In CSV, text that a spreadsheet would run as a formula is defused with a leading apostrophe (OWASP, "CSV
Injection").
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

import sqlalchemy as sa

from scraper.errors import ScraperError
from scraper.sites.definition import Site
from scraper.stores import products
from scraper.stores.database import dumps

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
LAST_COLUMNS = ("first_seen_at", "changed_at", "fetched_at", "delisted_at")

KEYS = sa.text("""
SELECT DISTINCT k FROM products p JOIN sites s ON s.id = p.site_id, jsonb_object_keys(p.data) AS k WHERE s.name = :site
""")


@dataclass(frozen=True, slots=True)
class Table:
    """A site's products as rows of `columns`; `rows` streams from the database while its connection is open."""

    columns: list[str]
    rows: Iterator[dict[str, Any]]


def read(connection: sa.Connection, site: str, definition: Site, *, delisted: bool) -> Table:
    """Opens the stream. The definition gives its fields their order."""
    stored = set(connection.execute(KEYS, {"site": site}).scalars())
    named = [key for name, spec in definition.product.fields.items() for key in keys_of(name, spec.type)]
    columns = list(dict.fromkeys(["id", "url", *named, *sorted(stored - set(named)), *LAST_COLUMNS]))
    return Table(columns, (_row(row, columns) for row in products.export(connection, site, delisted=delisted)))


def keys_of(name: str, type_: str) -> list[str]:
    """The keys a field has in a product's data: a price has its currency beside it."""
    return [name, f"{name}_currency"] if type_ == "price" else [name]


def _row(row: sa.Row[Any], columns: list[str]) -> dict[str, Any]:
    values = {"id": row.external_id, "url": row.url}
    for name in LAST_COLUMNS:
        at = getattr(row, name)
        values[name] = at.isoformat() if at else None
    values.update(json.loads(row.data, parse_float=Decimal))
    return {name: values.get(name) for name in columns}


def write_jsonl(table: Table, out: IO[str]) -> int:
    """One JSON object a line. Returns the number of rows."""
    count = 0
    for row in table.rows:
        out.write(dumps(row) + "\n")
        count += 1
    return count


def write_csv(table: Table, out: IO[str]) -> int:
    """RFC 4180 with a header line; lists as JSON, missing values empty. Returns the number of rows."""
    writer = csv.writer(out)
    writer.writerow([_cell(name) for name in table.columns])
    count = 0
    for row in table.rows:
        writer.writerow([_cell(row[name]) for name in table.columns])
        count += 1
    return count


def to_file(path: str | None, write: Callable[[IO[str]], int]) -> int:
    """Writes to `path`, whole or not at all, or to the terminal."""
    if path is None:
        return write(sys.stdout)
    target = Path(path)
    try:
        with NamedTemporaryFile("w", encoding="utf-8", newline="", dir=target.parent, delete=False) as out:
            try:
                count = write(out)
            except BaseException:
                os.unlink(out.name)
                raise
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(out.name, 0o666 & ~umask)
        os.replace(out.name, target)
    except OSError as error:
        raise ScraperError(f"cannot write {path}: {error.strerror}") from error
    return count


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case str():
            return "'" + value if value.startswith(FORMULA_STARTS) else value
        case _:
            return dumps(value)
