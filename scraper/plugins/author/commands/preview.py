"""`scraper crawl SITE --preview`: the first products of a crawl, shown and not stored."""

from __future__ import annotations

import asyncio
import sys

import click

from scraper.cli.common.definitions import load_definition
from scraper.cli.common.shared import load_settings, print_json
from scraper.cli.common.tables import one_line
from scraper.cli.data.export import write_table
from scraper.cli.data.output import open_destination
from scraper.cli.data.products import print_products
from scraper.errors import ScraperError, quote_command
from scraper.plugins.author.discovery.first_products import ProductPreview, preview_products
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.views.rows import Table, by_column, columns_of

PROBLEMS_SHOWN = 10


def preview_site(name: str, wanted: int, form: str, output: str | None, *, as_json: bool) -> None:
    settings = load_settings()
    site = load_definition(settings, name)
    result, requests = asyncio.run(_read_products(site, settings, wanted))
    table = _make_table(site, result)
    if output is not None:
        with open_destination(output) as file:
            count = write_table(form, table, file, site, {"site": site.name, "preview": True})
        if as_json:
            words = {"site": site.name, "format": form, "output": output}
            print_json({**words, "products": count, "requests": requests})
    elif as_json:
        print_json(list(table.rows))
    else:
        print_products(table.columns, list(table.rows))
    for url, problem in result.problems[:PROBLEMS_SHOWN]:
        click.echo(f"problem: {one_line(url)}: {one_line(problem)}", err=True)
    hidden = len(result.problems) - PROBLEMS_SHOWN
    more = f" ({hidden} more problems)" if hidden > 0 else ""
    where = f" written to {output}" if output else ""
    ended = "; the crawl would end here" if result.ended else ""
    click.echo(
        f"{len(result.products)} products from {requests} requests{where}{ended}; nothing was "
        f"stored{more}",
        err=True,
    )
    if not result.products:
        command = quote_command("scraper try", name)
        raise ScraperError(f"{name}: no product would be stored (fix: see `{command}`)")


async def _read_products(site: Site, settings: Settings, wanted: int) -> tuple[ProductPreview, int]:
    def report(result: ProductPreview) -> None:
        if sys.stderr.isatty():
            count = f"{len(result.products)} of {wanted} products"
            click.echo(f"\r{count}, {reader.requests} requests ", nl=False, err=True)

    async with PoliteReader(site, settings) as reader:
        result = await preview_products(reader, wanted, report)
        if sys.stderr.isatty():
            click.echo("\r", nl=False, err=True)
        return result, reader.requests


def _make_table(site: Site, result: ProductPreview) -> Table:
    rows = [
        {"id": product.external_id, "url": url, **by_column(product.data)}
        for url, product in result.products.values()
    ]
    types = {name: spec.type for name, spec in site.product.all_fields.items()}
    columns = columns_of(types, (key for row in rows for key in row))
    return Table(columns, ({name: row.get(name) for name in columns} for row in rows))
