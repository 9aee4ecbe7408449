"""`scraper articles`: one product over all shops."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import click

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import json_option, print_json
from scraper.cli.common.tables import format_cell, format_minute, print_table
from scraper.cli.data import output
from scraper.errors import ConfigError
from scraper.feed.prices import draw_sparkline, format_amount
from scraper.infra.redaction import redact
from scraper.plugins.matching import articles as view
from scraper.plugins.matching.articles import Article
from scraper.plugins.matching.catalogue import import_catalogue

COLUMNS = ("article", "title", "shops", "best price", "at", "lowest 30 d", "spread", "per unit")
CHART_POINTS = 40
# A file holds all articles, whatever the limit.
ALL = 2**31


class ArticleGroup(click.Group):
    """A group whose command `search` need not be named: `articles QUERY` searches."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, "--help"}:
            args = ["search", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ArticleGroup)
def articles() -> None:
    """Show products over all shops: the best price now, and where."""


@articles.command()
@click.argument("query", required=False)
@click.option("--shops", default=2, show_default=True, help="The least number of shops.")
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(min=1), help="Articles to show."
)
@click.option(
    "-o", "--output", "where", metavar="FILE|s3://…", help="Write a .csv or .parquet file."
)
@json_option("array")
def search(query: str | None, shops: int, limit: int, where: str | None, as_json: bool) -> None:
    """List articles whose titles have all words of QUERY, or with its GTIN or part number."""
    with open_engine().connect() as connection:
        # A transaction that waits while a million rows are read is ended by the server.
        connection.execution_options(isolation_level="AUTOCOMMIT")
        matching = view.search_articles(
            connection, query, shops=shops, limit=limit if where is None else ALL
        )
    rows = [article.row() for article in matching]
    if where is not None:
        _write_file(where, rows)
        click.echo(f"{len(rows):,} articles written to {where}", err=True)
    elif as_json:
        print_json(rows)
    else:
        print_table(COLUMNS, [_make_cells(row) for row in rows])


def _make_cells(row: dict[str, Any]) -> list[str]:
    unit = f"{row['unit_price']}/{row['unit']}" if row["unit_price"] is not None else ""
    spread = "" if row["spread_percent"] is None else f"{row['spread_percent']}%"
    return [
        str(row["article"]),
        format_cell(row["title"]),
        str(row["shops"]),
        format_amount(row["price"], row["currency"]),
        format_cell(row["at"]),
        format_amount(row["lowest_30_days"], row["currency"]),
        spread,
        unit,
    ]


@articles.command()
@click.argument("article", type=int)
@json_option("object")
def show(article: int, as_json: bool) -> None:
    """Show one article: the offers of all shops, and their prices so far."""
    with open_engine().connect() as connection:
        shown = view.read_article(connection, article)
        history = view.read_history(connection, article)
    if as_json:
        offers = [view.describe_offer(stored) for stored in shown.offers]
        print_json({**shown.row(), "offers": offers, "history": history})
        return
    _print_article(shown)
    for site, points in view.shop_series(history).items():
        prices = [price for _, price in points[-CHART_POINTS:]]
        click.echo(f"{site}\t{draw_sparkline(prices)}\tsince {format_minute(points[0][0])}")


def _print_article(article: Article) -> None:
    rows = []
    for stored in article.offers:
        terms = stored.offer.terms
        stock = {True: "in stock", False: "sold out", None: ""}[terms.in_stock]
        rows.append(
            [
                stored.offer.site,
                format_cell(stored.external_id),
                format_amount(terms.price, terms.currency),
                stock if stored.listed else "not listed",
                format_cell(stored.offer.identity.title),
                format_cell(stored.url),
            ]
        )
    print_table(["shop", "id", "price", "stock", "title", "url"], rows)


@articles.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--shop", required=True, metavar="NAME", help="What the catalogue is called.")
@click.option("--currency", metavar="EUR", help="Where the file has no column `currency`.")
@json_option("object")
def import_command(file: Path, shop: str, currency: str | None, as_json: bool) -> None:
    """Make the rows of a CSV FILE the offers of a shop of your own: sku, title, gtin, mpn, brand,
    price, currency, url."""
    count = import_catalogue(open_engine(), shop, file, currency)
    if as_json:
        print_json({"shop": shop, "offers": count})
    else:
        click.echo(f"{shop}: {count:,} offers")


def _write_file(where: str, rows: list[dict[str, Any]]) -> None:
    ending = PurePosixPath(where).suffix
    if ending == ".csv":
        with output.open_destination(where) as file, output.as_text(file) as text:
            writer = csv.DictWriter(text, view.ROW_COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    elif ending in (".parquet", ".pq"):
        _write_parquet(where, rows)
    else:
        raise ConfigError(redact(f"{where}: unknown ending (fix: .csv or .parquet)"))


def _write_parquet(where: str, rows: list[dict[str, Any]]) -> None:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise ConfigError(
            "Parquet needs pyarrow (fix: pip install 'celery-scraper[parquet]')"
        ) from None
    with output.open_destination(where) as file:
        parquet.write_table(arrow.Table.from_pylist(rows), file, compression="zstd")
