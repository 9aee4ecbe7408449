"""`scraper export`: streams products as CSV, JSON lines or Parquet.

With a cursor, exports the products that have changed since, including delisted ones, as they are
now. An export is a snapshot, and reports the feed's position at that moment: `scraper changes
--since` continues from there.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import IO, Any, Literal, Protocol

import click
import sqlalchemy as sa

from scraper.actions.crawls import stored_site
from scraper.cli.common.shared import complete_site, escape_controls, open_engine, print_json
from scraper.cli.common.tables import one_line
from scraper.cli.data import output
from scraper.cli.data.changes import parse_since
from scraper.errors import ConfigError
from scraper.feed import consumers, reader
from scraper.feed import store as feed
from scraper.feed.reader import ChangeReader, Since
from scraper.registry import plugin_exports, resolve
from scraper.results import products
from scraper.sites.definition import Site
from scraper.views import rows
from scraper.views.rows import Table

FORMS = ("csv", "jsonl")
ENDINGS: dict[str, str] = {
    ".csv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class ExportForm(Protocol):
    """A form of exported products that a plug-in adds."""

    def require(self) -> None:
        """Raises `ConfigError`, naming what to install, if a dependency is missing."""
        ...

    def write(
        self, table: Table, file: IO[bytes], definition: Site, metadata: dict[str, Any]
    ) -> int:
        """Writes all rows. Returns their number."""
        ...


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export. `cursor`: where later changes begin in the feed (None: read from a
    standby); unless `exact`, some changes after it are in the export already. `since` None: all
    products."""

    site: str
    format: str
    output: str | None
    products: int
    since: int | None
    cursor: int | None
    exact: bool


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMS, *plugin_exports()]),
    help="Default: by the ending of --output, else jsonl.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE|s3://…",
    help="Write to a file, or a key in a bucket, instead of the terminal.",
)
@click.option("--delisted", is_flag=True, help="Include delisted products; --since always does.")
@click.option(
    "--since",
    metavar="CURSOR|TIME",
    help="Only later changes (`last`: after the position of --consumer).",
)
@click.option(
    "--consumer",
    metavar="NAME",
    help="Store under this name where `scraper changes --consumer` continues.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="With --output: one JSON object about the file."
)
def export(
    site: str,
    form: str | None,
    output: str | None,
    delisted: bool,
    since: str | None,
    consumer: str | None,
    as_json: bool,
) -> None:
    """Write the products of SITE as CSV, JSON lines or Parquet, streamed, ordered by id.

    The export is a snapshot of one moment. It prints a cursor, from which `scraper changes`
    continues.
    """
    if as_json and output is None:
        raise click.UsageError("--json describes the written file; --output is missing")
    start = "last" if since == "last" else None if since is None else parse_since(since)
    exported = write_export(
        open_engine(),
        site,
        form or form_of(output),
        output,
        delisted=delisted,
        since=start,
        consumer=consumer,
    )
    if as_json:
        print_json(exported)
        return
    where = f" written to {output}" if output else ""
    click.echo(f"{exported.products:,} products{where}", err=True)
    if exported.cursor is not None:
        early = "" if exported.exact else "; the first changes may be in this export already"
        command = f"scraper changes {site} --since {exported.cursor}"
        click.echo(f"cursor {exported.cursor}: continue with `{command}`{early}", err=True)


def form_of(where: str | None) -> str:
    """Returns the form for a file's ending; JSON lines for the terminal, and for a name without an
    ending."""
    ending = PurePosixPath(where or "").suffix.lower()
    if not ending:
        return "jsonl"
    if ending not in ENDINGS:
        raise ConfigError(
            f"{where}: unknown ending {ending} "
            "(fix: --format csv, jsonl or parquet, or such an ending)"
        )
    return ENDINGS[ending]


def write_export(
    engine: sa.Engine,
    site: str,
    form: str,
    where: str | None,
    *,
    delisted: bool,
    since: Since | Literal["last"] | None = None,
    consumer: str | None = None,
) -> Exported:
    """Writes products to `where`, completely or not at all, and stores a consumer's position at the
    end of the export."""
    if form not in FORMS:
        _form_of_plugin(form).require()
        if where is None:
            raise ConfigError(
                f"{form} cannot be printed on a terminal (fix: --output FILE or s3://bucket/key)"
            )
    with consumers.hold_consumer(engine, consumer, site) if consumer else nullcontext():
        after = _start_cursor(engine, site, since, consumer)
        with output.open_destination(where) as file, feed.open_view(engine) as view:
            _, definition = stored_site(view.connection, site)
            types = {name: spec.type for name, spec in definition.product.all_fields.items()}
            stream = products.export_products(view.connection, site, delisted=delisted, since=after)
            table = rows.make_table(view.connection, site, types, stream)
            metadata = {
                "site": site,
                "cursor": view.cursor,
                "since": after,
                "at": datetime.now(UTC).isoformat(),
            }
            count = write_table(form, table, file, definition, metadata)
        if consumer and view.cursor is not None:
            with engine.begin() as connection:
                consumers.set_position(connection, consumer, site, view.cursor)
    return Exported(site, form, where, count, after, view.cursor, view.exact)


def _form_of_plugin(form: str) -> ExportForm:
    reference = plugin_exports().get(form)
    if reference is None:
        raise ConfigError(f"{form}: its plug-in is off (fix: `scraper plugins` says why)")
    exported_form: ExportForm = resolve(reference)
    return exported_form


def _start_cursor(
    engine: sa.Engine, site: str, since: Since | Literal["last"] | None, consumer: str | None
) -> int | None:
    if since == "last":
        if consumer is None:
            raise ConfigError(
                "--since last continues at a consumer's position (fix: add --consumer NAME)"
            )
        with engine.connect() as connection:
            after = consumers.read_position(connection, consumer, site)
    else:
        after = None if since is None else reader.resolve_cursor(engine, since)
    if after is not None:
        # Raises if the feed no longer reaches back to it.
        ChangeReader(engine, after, site=site)
    return after


def write_table(
    form: str, table: Table, file: IO[bytes], definition: Site, metadata: dict[str, Any]
) -> int:
    if form not in FORMS:
        return _form_of_plugin(form).write(table, file, definition, metadata)
    on_terminal = file.isatty()
    with output.as_text(file) as text:
        if form == "csv":
            return rows.write_csv(table, text, one_line if on_terminal else str)
        return rows.write_jsonl(table, text, escape_controls if on_terminal else str)
