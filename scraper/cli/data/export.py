"""`scraper export`: streams products as CSV, JSON lines, Parquet or a workbook.

With a cursor, exports the products that have changed since, including delisted ones, as they are
now. An export is a snapshot, and reports the feed's position at that moment: `scraper changes
--since` continues from there.
"""

from __future__ import annotations

import codecs
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import IO, Any, Literal, Protocol

import click
import sqlalchemy as sa

from scraper.actions.named_definitions import stored_site
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, escape_controls, parse_since, print_json
from scraper.cli.common.tables import one_line
from scraper.cli.data import output
from scraper.errors import ConfigError, NotFoundError, quote_command
from scraper.feed import consumers, reader
from scraper.feed import store as feed
from scraper.feed.reader import ChangeReader, Since
from scraper.frontier.sites import site_names
from scraper.registry import inactive_plugin_with, known_exports, plugin_exports, resolve
from scraper.results import products
from scraper.sites.definition import Site
from scraper.views import rows
from scraper.views.rows import Table

FORMS = ("csv", "jsonl")
# Further endings of files, by form.
ALIASES = {"json": "jsonl", "ndjson": "jsonl", "pq": "parquet"}
Metadata = dict[str, Any]


class ExportForm(Protocol):
    """A form of exported products that a plug-in adds."""

    def write(self, table: Table, file: IO[bytes], definition: Site, metadata: Metadata) -> int:
        """Writes all rows. Returns their number."""
        ...


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export. `cursor`: where later changes begin in the feed (None: read from a
    standby); unless `exact`, some changes after it are in the export already. `site` None: all
    sites; `since` None: all products."""

    site: str | None
    format: str
    output: str | None
    products: int
    since: int | None
    cursor: int | None
    exact: bool


@click.command()
@click.argument("site", required=False, shell_complete=complete_site)
@click.option("--all", "every", is_flag=True, help="All sites in one file: a column, or sheets.")
@click.option(
    *("--format", "form"),
    type=click.Choice([*FORMS, *known_exports()]),
    help="Default: by the ending of --output, else jsonl.",
)
@click.option(
    *("-o", "--output"),
    metavar="FILE|s3://…",
    help="Write to a file, or a key in a bucket, instead of the terminal.",
)
@click.option("--bom", is_flag=True, help="CSV that Excel reads as UTF-8: a byte order mark first.")
@click.option("--decimal-comma", is_flag=True, help="CSV with 9,90, separated by semicolons.")
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
    site: str | None,
    every: bool,
    form: str | None,
    output: str | None,
    since: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the products of SITE to a file, ordered by id.

    The export is a snapshot of one moment. It prints a cursor, from which `scraper changes`
    continues.
    """
    if every is (site is not None):
        raise click.UsageError("say which: SITE, or --all")
    if as_json and output is None:
        raise click.UsageError("--json describes the written file; --output is missing")
    start: Since | Literal["last"] | None = None
    if since is not None:
        start = "last" if since == "last" else parse_since(since)
    form = form or form_of(output)
    if form != "csv" and (options["bom"] or options["decimal_comma"]):
        raise click.UsageError("--bom and --decimal-comma are for CSV (fix: --format csv)")
    exported = write_export(open_engine(), site, form, output, since=start, **options)
    if as_json:
        print_json(exported)
        return
    where = f" written to {output}" if output else ""
    click.echo(f"{exported.products:,} products{where}", err=True)
    if exported.cursor is not None:
        early = "" if exported.exact else "; the first changes may be in this export already"
        words = ("scraper changes", *filter(None, [site]), "--since", str(exported.cursor))
        command = quote_command(*words)
        click.echo(f"cursor {exported.cursor}: continue with `{command}`{early}", err=True)


def form_of(where: str | None) -> str:
    """Returns the form for a file's ending; JSON lines for the terminal, and for a name without an
    ending. Raises `ConfigError`."""
    ending = PurePosixPath(where or "").suffix.lower().removeprefix(".") or "jsonl"
    form = ALIASES.get(ending, ending)
    if form not in (choices := [*FORMS, *known_exports()]):
        problem = output.mask_credentials(f"{where}: unknown ending .{ending}")
        raise ConfigError(f"{problem} (fix: --format {', '.join(choices)}, or such an ending)")
    if form not in FORMS:
        _resolve_form(form)
    return form


def write_export(
    engine: sa.Engine,
    site: str | None,
    form: str,
    where: str | None,
    *,
    bom: bool = False,
    decimal_comma: bool = False,
    delisted: bool,
    since: Since | Literal["last"] | None = None,
    consumer: str | None = None,
) -> Exported:
    """Writes products to `where`, completely or not at all, and stores a consumer's position at the
    end of the export."""
    if form not in FORMS:
        _resolve_form(form)
        if where is None:
            raise ConfigError(
                f"{form} cannot be printed on a terminal (fix: --output FILE or s3://bucket/key)"
            )
    with consumers.hold_consumer(engine, consumer, site) if consumer else nullcontext() as lease:
        after = _start_cursor(engine, site, since, consumer)
        with output.open_destination(where) as file, feed.open_view(engine) as view:
            connection, tables = view.connection, {}
            for name in [site] if site else site_names(connection):
                _, definition = stored_site(connection, name)
                types = {key: spec.type for key, spec in definition.product.all_fields.items()}
                stream = products.export_products(connection, name, delisted=delisted, since=after)
                tables[name] = rows.make_table(connection, name, types, stream)
            if not tables:
                raise NotFoundError("no site is stored (fix: `scraper crawl NAME`)")
            table = tables[site] if site else rows.join_tables(tables)
            now = datetime.now(UTC).isoformat()
            metadata = {"site": site, "cursor": view.cursor, "since": after, "at": now}
            if bom and form == "csv":
                file.write(codecs.BOM_UTF8)
            point = "," if decimal_comma else "."
            count = write_table(form, table, file, definition, metadata, point)
        if lease and view.cursor is not None:
            lease.set_position(view.cursor)
    return Exported(site, form, where, count, after, view.cursor, view.exact)


def _resolve_form(form: str) -> ExportForm:
    """Returns a plug-in's form. Raises `ConfigError` if the plug-in is off."""
    inactive = inactive_plugin_with("exports", form)
    if inactive is not None:
        raise ConfigError(f"{form} {inactive.explain_need()}")
    exported_form: ExportForm = resolve(plugin_exports()[form])
    return exported_form


def _start_cursor(
    engine: sa.Engine, site: str | None, since: Since | Literal["last"] | None, consumer: str | None
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
    form: str, table: Table, file: IO[bytes], definition: Site, metadata: Metadata, point: str = "."
) -> int:
    if form not in FORMS:
        return _resolve_form(form).write(table, file, definition, metadata)
    on_terminal = file.isatty()
    with output.as_text(file) as text:
        if form == "csv":
            return rows.write_csv(table, text, one_line if on_terminal else str, point)
        return rows.write_jsonl(table, text, escape_controls if on_terminal else str)
