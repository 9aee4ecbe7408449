"""`scraper products`, `history` and `export`: what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import open_engine, print_json
from scraper.errors import NotFoundError

if TYPE_CHECKING:
    from scraper.cli.data.export import Form


@click.command()
@click.argument("site")
@click.option("--limit", default=20, show_default=True, help="Products to show.")
@click.option("--delisted", is_flag=True, help="Delisted ones too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def products(site: str, limit: int, delisted: bool, as_json: bool) -> None:
    """Show products of SITE."""
    from itertools import islice

    from scraper.actions import crawls
    from scraper.cli.data import export
    from scraper.infra import tables

    with open_engine().connect() as connection:
        known = crawls.known_site(connection, site)
        table = export.read(connection, site, known, delisted=delisted)
        rows = list(islice(table.rows, limit))
    if as_json:
        print_json(rows)
    else:
        tables.print_products(table.columns, rows)


@click.command()
@click.argument("site")
@click.argument("product_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def history(site: str, product_id: str, as_json: bool) -> None:
    """Show what a product of SITE has been, version by version."""
    from scraper.actions import crawls
    from scraper.infra import tables
    from scraper.settle import products as store

    with open_engine().connect() as connection:
        crawls.known_site(connection, site)
        versions = [tables.version_row(row) for row in store.history(connection, site, product_id)]
    if not versions:
        raise NotFoundError(
            f"{site} has no product {product_id!r}; `scraper products {site}` shows ids"
        )
    if as_json:
        print_json(versions)
    else:
        tables.print_history(versions)


@click.command()
@click.argument("site")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
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
    form: Form,
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
    from scraper.cli.data import changes_command
    from scraper.cli.data import export as exporting

    if as_json and output is None:
        raise click.UsageError("--json tells what was written to a file; --output is missing")
    begin = (
        None if since is None else "last" if since == "last" else changes_command.since_of(since)
    )
    done = exporting.export(
        open_engine(), site, form, output, delisted=delisted, since=begin, consumer=consumer
    )
    if as_json:
        print_json(exporting.as_json(done))
        return
    click.echo(
        f"{done.products:,} products" + (f" written to {output}" if output else ""), err=True
    )
    if done.cursor is not None:
        early = "" if done.exact else "; some of what it brings is in here already"
        click.echo(
            f"cursor {done.cursor}: go on with `scraper changes {site} --since {done.cursor}`{early}",
            err=True,
        )
