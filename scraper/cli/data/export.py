"""Products as files: CSV, JSON lines or Parquet, streamed.

Since a cursor: the products that have a change after it, as they are now, the delisted ones among
them. What is written comes from one moment, and the result has the feed's position at that moment:
`scraper changes --since` goes on from there.

In CSV, text that a spreadsheet would run as a formula is defused with a leading apostrophe (OWASP,
"CSV Injection").
"""

from __future__ import annotations

import csv
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Any, Literal

import sqlalchemy as sa

from scraper.actions.crawls import stored_site
from scraper.cli.data import output, parquet, rows
from scraper.cli.data.rows import Table
from scraper.errors import ConfigError
from scraper.feed import consumers, reader
from scraper.feed import store as feed
from scraper.feed.reader import Reader, Since
from scraper.infra.database import dumps
from scraper.sites.definition import Site

Form = Literal["csv", "jsonl", "parquet"]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


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
        parquet.require()
        if where is None:
            raise ConfigError(
                "Parquet is not for a terminal (mend: --output FILE or s3://bucket/key)"
            )
    with consumers.held(engine, consumer, site) if consumer else nullcontext():
        after = _after(engine, site, since, consumer)
        with output.open_destination(where) as file, feed.view(engine) as view:
            _, definition = stored_site(view.connection, site)
            table = rows.read(view.connection, site, definition, delisted=delisted, since=after)
            metadata = {
                "site": site,
                "cursor": view.cursor,
                "since": after,
                "at": datetime.now(UTC).isoformat(),
            }
            count = _write(form, table, file, definition, metadata)
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
        # Raises where the feed does not reach back so far.
        Reader(engine, after, site=site)
    return after


def _write(
    form: Form, table: Table, file: IO[bytes], definition: Site, metadata: dict[str, Any]
) -> int:
    if form == "parquet":
        return parquet.write_parquet(table, file, definition, metadata)
    with output.as_text(file) as text:
        return write_csv(table, text) if form == "csv" else write_jsonl(table, text)


def write_jsonl(table: Table, file: IO[str]) -> int:
    """One JSON object a line. Returns the number of rows."""
    count = 0
    for row in table.rows:
        file.write(dumps(row) + "\n")
        count += 1
    return count


def write_csv(table: Table, file: IO[str]) -> int:
    """RFC 4180 with a header line; lists as JSON, missing values empty. Returns the number of
    rows."""
    writer = csv.writer(file)
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
