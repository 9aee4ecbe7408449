"""`scraper products`, `history` and `export`: what crawls have extracted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from itertools import islice
from typing import Any

import click
import sqlalchemy as sa

from scraper.actions.crawls import stored_site
from scraper.cli.common.shared import complete_site, json_option, open_engine, print_json
from scraper.cli.common.tables import cell, print_table
from scraper.cli.data import export as exports
from scraper.cli.data.changes import parse_since
from scraper.cli.data.export import Form
from scraper.cli.data.rows import LAST_COLUMNS, read
from scraper.errors import NotFoundError
from scraper.settle import products as store

COLUMNS_MAX = 7
HIDDEN = {"url", *LAST_COLUMNS}


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="Products to show.",
)
@click.option("--delisted", is_flag=True, help="Delisted ones too.")
@json_option("array")
def products(site: str, limit: int, delisted: bool, as_json: bool) -> None:
    """Show products of SITE."""
    with open_engine().connect() as connection:
        columns, rows = read_products(connection, site, limit, delisted=delisted)
    if as_json:
        print_json(rows)
    else:
        print_products(columns, rows)


def read_products(
    connection: sa.Connection, site: str, limit: int, *, delisted: bool = False
) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns and first products of a site."""
    _, definition = stored_site(connection, site)
    table = read(connection, site, definition, delisted=delisted)
    return table.columns, list(islice(table.rows, limit))


def print_products(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    names = [name for name in columns if name not in HIDDEN][:COLUMNS_MAX]
    print_table(names, [[cell(row[name]) for name in names] for row in rows])


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.argument("product_id", metavar="ID")
@json_option("array")
def history(site: str, product_id: str, as_json: bool) -> None:
    """Show what a product of SITE has been, version by version."""
    with open_engine().connect() as connection:
        stored_site(connection, site)
        versions = [_version(row) for row in store.history(connection, site, product_id)]
    if not versions:
        raise NotFoundError(
            f"{site} has no product {product_id!r}; `scraper products {site}` shows ids"
        )
    if as_json:
        print_json(versions)
    else:
        _print_history(versions)


def _version(row: sa.Row[Any]) -> dict[str, Any]:
    return {
        "version": row.version,
        "valid_from": row.valid_from.isoformat(),
        "valid_to": row.valid_to.isoformat() if row.valid_to else None,
        "data": json.loads(row.data, parse_float=Decimal),
    }


def _print_history(versions: Sequence[dict[str, Any]]) -> None:
    """Prints each version with what changed in it; the first in full."""
    rows: list[list[str]] = []
    before: dict[str, Any] = {}
    for version in versions:
        data = version["data"]
        changed = {k: v for k, v in data.items() if not before or before.get(k) != v}
        changed |= {k: None for k in before if k not in data}
        text = ", ".join(f"{k}: {cell(v)}" for k, v in sorted(changed.items()))
        times = [version["valid_from"][:19], (version["valid_to"] or "")[:19]]
        rows.append([str(version["version"]), *times, text])
        before = data
    print_table(["version", "from", "to", "what changed"], rows)


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    help="Default: what the ending of --output says, else jsonl.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE|s3://…",
    help="A file, or a key in a bucket, instead of the terminal.",
)
@click.option(
    "--delisted", is_flag=True, help="Delisted products too; with --since they always are."
)
@click.option(
    "--since",
    metavar="CURSOR|TIME",
    help="Only what has changed after it (`last`: after what --consumer had last).",
)
@click.option(
    "--consumer",
    metavar="NAME",
    help="Note under this name where `scraper changes --consumer` goes on.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="With --output: one JSON object of what was written."
)
def export(
    site: str,
    form: Form | None,
    output: str | None,
    delisted: bool,
    since: str | None,
    consumer: str | None,
    as_json: bool,
) -> None:
    """Write the products of SITE as CSV, JSON lines or Parquet, streamed, ordered by id.

    They are as they were at one moment; the cursor that is told leads to all that changed after it
    (`scraper changes`).
    """
    if as_json and output is None:
        raise click.UsageError("--json tells what was written to a file; --output is missing")
    start = "last" if since == "last" else None if since is None else parse_since(since)
    exported = exports.export(
        open_engine(),
        site,
        form or exports.form_of(output),
        output,
        delisted=delisted,
        since=start,
        consumer=consumer,
    )
    if as_json:
        print_json(asdict(exported))
        return
    where = f" written to {output}" if output else ""
    click.echo(f"{exported.products:,} products{where}", err=True)
    if exported.cursor is not None:
        early = "" if exported.exact else "; some of what it brings is in here already"
        command = f"scraper changes {site} --since {exported.cursor}"
        click.echo(f"cursor {exported.cursor}: go on with `{command}`{early}", err=True)
