"""Products as files: CSV and JSON lines, streamed, in an order of rows and columns that stays the
same.

Since a cursor: the products that have a change after it, as they are now, the delisted ones among
them. What is written comes from one moment, and the feed's position at that moment is told:
`scraper changes --since` goes on from there.

Columns: `id`, `url`, the definition's fields in its order, any other keys by name, then the times.
Numbers keep every digit. In CSV, text that a spreadsheet would run as a formula is defused with a
leading apostrophe (OWASP, "CSV Injection").
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Any, Literal

import sqlalchemy as sa

from scraper.actions import crawls
from scraper.cli.data import output
from scraper.errors import ConfigError
from scraper.feed import consumers, reader
from scraper.feed import store as feed
from scraper.feed.reader import Reader, Since
from scraper.infra.database import dumps
from scraper.settle import products
from scraper.sites.definition import Site

Form = Literal["csv", "jsonl", "parquet"]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
LAST_COLUMNS = ("first_seen_at", "changed_at", "fetched_at", "delisted_at")

KEYS = sa.text("""
SELECT DISTINCT k FROM products p JOIN sites s ON s.id = p.site_id, jsonb_object_keys(p.data) AS k WHERE s.name = :site
""")


@dataclass(frozen=True, slots=True)
class Table:
    """A site's products as rows of `columns`; `rows` streams from the database while its connection
    is open."""

    columns: list[str]
    rows: Iterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export came to. `cursor` (None: read from a standby): what changed later comes after
    it in the feed; with `exact` unset, some of what was exported as well. `since` None: all
    products."""

    site: str
    format: str
    output: str | None
    products: int
    since: int | None
    cursor: int | None
    exact: bool


def read(
    connection: sa.Connection,
    site: str,
    definition: Site,
    *,
    delisted: bool,
    since: int | None = None,
) -> Table:
    """Opens the stream. The definition gives its fields their order."""
    stored = set(connection.execute(KEYS, {"site": site}).scalars())
    named = [
        key for name, spec in definition.product.fields.items() for key in keys_of(name, spec.type)
    ]
    columns = list(
        dict.fromkeys(["id", "url", *named, *sorted(stored - set(named)), *LAST_COLUMNS])
    )
    return Table(
        columns,
        (
            _row(row, columns)
            for row in products.export(connection, site, delisted=delisted, since=since)
        ),
    )


def export(
    engine: sa.Engine,
    site: str,
    form: Form,
    where: str | None,
    *,
    delisted: bool,
    since: Since | Literal["last"] | None = None,
    consumer: str | None = None,
) -> Exported:
    """Writes products to `where`, which is there whole or not at all. A consumer's place is then
    where this one ends."""
    if form == "parquet":
        from scraper.cli.data import parquet

        parquet.require()
        if where is None:
            raise ConfigError(
                "Parquet is not for a terminal (mend: --output FILE or s3://bucket/key)"
            )
    with consumers.held(engine, consumer, site) if consumer else nullcontext():
        after = _after(engine, site, since, consumer)
        with output.opened(where) as out, feed.view(engine) as view:
            definition = crawls.known_site(view.connection, site)
            table = read(view.connection, site, definition, delisted=delisted, since=after)
            about = {
                "site": site,
                "cursor": view.cursor,
                "since": after,
                "at": datetime.now(UTC).isoformat(),
            }
            count = _write(form, table, out, definition, about)
        if consumer and view.cursor is not None:
            with engine.begin() as connection:
                consumers.put(connection, consumer, site, view.cursor)
    return Exported(site, form, where, count, after, view.cursor, view.exact)


def _after(
    engine: sa.Engine, site: str, since: Since | Literal["last"] | None, consumer: str | None
) -> int | None:
    if since == "last":
        if consumer is None:
            raise ConfigError(
                "--since last is where a consumer has come to (mend: --consumer NAME beside it)"
            )
        with engine.connect() as connection:
            after = consumers.position(connection, consumer, site)
    else:
        after = None if since is None else reader.resolved(engine, since)
    if after is not None:
        # whether the feed reaches back so far
        Reader(engine, after, site=site)
    return after


def _write(
    form: Form, table: Table, out: IO[bytes], definition: Site, about: dict[str, Any]
) -> int:
    if form == "parquet":
        from scraper.cli.data import parquet

        return parquet.write_parquet(table, out, definition, about)
    with output.as_text(out) as text:
        return write_csv(table, text) if form == "csv" else write_jsonl(table, text)


def as_json(done: Exported) -> dict[str, Any]:
    return asdict(done)


def keys_of(name: str, type_: str) -> list[str]:
    """The keys a field has in a product's data: a price has its currency beside it."""
    return [name, f"{name}_currency"] if type_ == "price" else [name]


def _row(row: sa.Row[Any], columns: list[str]) -> dict[str, Any]:
    values = {"id": row.external_id, "url": row.url}
    for name in LAST_COLUMNS:
        at = getattr(row, name)
        values[name] = at.isoformat() if at else None
    values.update(json.loads(row.data, parse_float=Decimal, parse_int=_whole))
    return {name: values.get(name) for name in columns}


def _whole(text: str) -> int | Decimal:
    """Beyond 64 bits a Decimal: other than an int it can be written again."""
    return int(text) if len(text) < 19 else Decimal(text)


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
