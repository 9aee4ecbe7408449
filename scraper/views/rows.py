"""Products as rows of a table, streamed, in an order of rows and columns that stays the same.

Columns: `id`, `url`, the definition's fields in its order, any other keys by name, then the times.
A field that is named like one of these, as `url`, has the column `_url`.
Numbers keep every digit. In CSV, text that a spreadsheet would run as a formula is defused with a
leading apostrophe (OWASP, "CSV Injection").
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import IO, Any

import sqlalchemy as sa

from scraper.feed.prices import CURRENCY
from scraper.infra.database import dumps, loads

# Spreadsheets also accept full-width signs, and skip blanks before a sign.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
Shown = Callable[[str], str]
LAST_COLUMNS = ("first_seen_at", "changed_at", "fetched_at", "delisted_at")
OWN_COLUMNS = frozenset(("id", "url", *LAST_COLUMNS))

KEYS = sa.text("""
SELECT DISTINCT k
  FROM products p JOIN sites s ON s.id = p.site_id, jsonb_object_keys(p.data) AS k
 WHERE s.name = :site
""")


@dataclass(frozen=True, slots=True)
class Table:
    """A site's products as rows of `columns`; `rows` streams from the database while its connection
    is open. A table of several sites has their tables as `parts`, and reads them."""

    columns: list[str]
    rows: Iterator[dict[str, Any]]
    parts: Mapping[str, Table] = field(default_factory=dict)


def make_table(
    connection: sa.Connection, site: str, types: Mapping[str, str], stream: Iterable[sa.Row[Any]]
) -> Table:
    """A table of any of a site's products."""
    stored = set(connection.execute(KEYS, {"site": site}).scalars())
    columns = columns_of(types, [*map(column_of, sorted(stored)), *LAST_COLUMNS])
    return Table(columns, (_product_row(product, columns) for product in stream))


def join_tables(parts: Mapping[str, Table]) -> Table:
    """Joins tables of several sites. It begins with `site`, or `_site` if a product has that."""
    columns = list(dict.fromkeys(name for part in parts.values() for name in part.columns))
    first = "_site" if "site" in columns else "site"
    blank = dict.fromkeys([first, *columns])
    rows = (blank | row | {first: site} for site, part in parts.items() for row in part.rows)
    return Table(list(blank), rows, parts)


def columns_of(types: Mapping[str, str], others: Iterable[str]) -> list[str]:
    """The columns of a table: those of the definition's fields in its order, then others."""
    named = [column_of(key) for name, type_ in types.items() for key in keys_of(name, type_)]
    return list(dict.fromkeys(["id", "url", *named, *others]))


def by_column(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a product's data by the columns of its keys."""
    if OWN_COLUMNS.isdisjoint(data):
        return data
    return {column_of(key): value for key, value in data.items()}


def column_of(key: str) -> str:
    """Returns the column of a field's key."""
    return f"_{key}" if key in OWN_COLUMNS else key


def key_of(column: str) -> str:
    """Returns the key of a field's column."""
    return column.removeprefix("_") if column.removeprefix("_") in OWN_COLUMNS else column


def keys_of(name: str, type_: str) -> list[str]:
    """Returns a field's keys in a product's data: a price also has a key for its currency."""
    return [name, f"{name}{CURRENCY}"] if type_ == "price" else [name]


def _product_row(product: sa.Row[Any], columns: list[str]) -> dict[str, Any]:
    values = {"id": product.external_id, "url": product.url}
    for name in LAST_COLUMNS:
        at = getattr(product, name)
        values[name] = at.isoformat() if at else None
    values.update(by_column(loads(product.data)))
    return {name: values.get(name) for name in columns}


def write_jsonl(table: Table, file: IO[str], shown: Shown = str) -> int:
    """Writes a JSON object per line, passed through `shown`. Returns the number of rows."""
    count = 0
    for row in table.rows:
        file.write(shown(dumps(row)) + "\n")
        count += 1
    return count


def write_csv(table: Table, file: IO[str], shown: Shown = str, point: str = ".") -> int:
    """Writes RFC 4180 with a header line. Returns the number of rows. Lists become JSON, missing
    values stay empty, and `shown` has the last word on each cell. If the decimal `point` is a
    comma, semicolons separate the cells."""
    writer = csv.writer(file, delimiter=";" if point == "," else ",")
    writer.writerow([shown(_format_cell(name)) for name in table.columns])
    count = 0
    for row in table.rows:
        writer.writerow([shown(_format_cell(row[name], point)) for name in table.columns])
        count += 1
    return count


def is_like_formula(text: str) -> bool:
    """Returns True if a spreadsheet may run the text as a formula."""
    return text.startswith(FORMULA_STARTS) or text.lstrip().startswith(FORMULA_STARTS)


def _format_cell(value: Any, point: str = ".") -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f").replace(".", point)
        case str():
            return "'" + value if is_like_formula(value) else value
        case _:
            return dumps(value)
