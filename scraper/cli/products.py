"""`scraper products`, `history` and `export`: what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.shared import open_engine, print_json
from scraper.errors import NotFoundError

if TYPE_CHECKING:
    from scraper.sites.definition import Site


@click.command()
@click.argument("site")
@click.option("--limit", default=20, show_default=True, help="Products to show.")
@click.option("--delisted", is_flag=True, help="Delisted ones too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def products(site: str, limit: int, delisted: bool, as_json: bool) -> None:
    """Show products of SITE."""
    from itertools import islice

    from scraper.commands import crawling, export, tables

    with open_engine().connect() as connection:
        known = crawling.known_site(connection, site)
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
    from scraper.commands import crawling, tables
    from scraper.stores import products as store

    with open_engine().connect() as connection:
        crawling.known_site(connection, site)
        versions = [tables.version_row(row) for row in store.history(connection, site, product_id)]
    if not versions:
        raise NotFoundError(f"{site} has no product {product_id!r}; `scraper products {site}` shows ids")
    if as_json:
        print_json(versions)
    else:
        tables.print_history(versions)


@click.command()
@click.argument("site")
@click.option("--format", "form", type=click.Choice(["csv", "jsonl"]), default="jsonl", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="A file instead of the terminal.")
@click.option("--delisted", is_flag=True, help="Delisted products too.")
def export(site: str, form: str, output: str | None, delisted: bool) -> None:
    """Write the products of SITE as CSV or JSON lines, streamed, ordered by id."""
    from scraper.commands import crawling
    from scraper.commands import export as exporting

    with open_engine().connect() as connection:
        known: Site = crawling.known_site(connection, site)
        table = exporting.read(connection, site, known, delisted=delisted)
        write = exporting.write_csv if form == "csv" else exporting.write_jsonl
        count = exporting.to_file(output, lambda out: write(table, out))
    click.echo(f"{count:,} products" + (f" written to {output}" if output else ""), err=True)
