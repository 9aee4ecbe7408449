"""`scraper products` and `scraper history`: extracted products and their versions."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click
import sqlalchemy as sa

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, json_option, print_json
from scraper.cli.common.tables import format_cell, format_local_time, print_table
from scraper.errors import NotFoundError, quote_command
from scraper.feed.prices import (
    CURRENCY,
    as_number,
    changed_fields,
    draw_sparkline,
    format_amount,
    percent_text,
)
from scraper.views import products as view
from scraper.views.named_sites import field_types, require_site
from scraper.views.rows import LAST_COLUMNS, make_table

COLUMNS_MAX = 7
COLUMNS_LEAST = 3
# A text needs at most this many cells.
NAME_CHARS = 36
# Cells between two columns.
GAP = 2
HIDDEN = {"url", *LAST_COLUMNS}


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(min=0), help="Products to show."
)
@click.option("--delisted", is_flag=True, help="Include delisted products.")
@click.option(
    "--where",
    metavar="CONDITION",
    multiple=True,
    help="Only products that match: 'price<10', 'title~pan' (contains). Several must all match.",
)
@click.option(
    "--sort", default="id", show_default=True, help="Sort by a field; -FIELD: largest first."
)
@json_option("array")
def products(
    site: str, limit: int, delisted: bool, where: tuple[str, ...], sort: str, as_json: bool
) -> None:
    """Show products of SITE."""
    conditions = [view.parse_condition(text) for text in where]
    with open_engine().connect() as connection:
        types = field_types(connection, site)
        stored = view.read(
            connection, site, where=conditions, sort=sort, delisted=delisted, limit=limit
        )
        table = make_table(connection, site, types, stored)
        columns, rows = table.columns, list(table.rows)
    view.require_fields(site, columns, [sort.removeprefix("-"), *(row.field for row in conditions)])
    if as_json:
        print_json(rows)
    else:
        print_products(columns, rows)


def read_products(
    connection: sa.Connection, site: str, limit: int
) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the columns and first products of a site."""
    stored = view.read(connection, site, limit=limit)
    table = make_table(connection, site, field_types(connection, site), stored)
    return table.columns, list(table.rows)


def print_products(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Prints a price with its currency, in one column."""
    priced = {name for name in columns if f"{name}{CURRENCY}" in columns}
    hidden = HIDDEN | {f"{name}{CURRENCY}" for name in priced}
    names = [name for name in columns if name not in hidden][:COLUMNS_MAX]
    cells = [[_value_text(row, name, name in priced) for name in names] for row in rows]
    if sys.stdout.isatty():
        shown = count_fitting_columns(names, cells, shutil.get_terminal_size().columns)
        names, cells = names[:shown], [row[:shown] for row in cells]
    print_table(names, cells)


def count_fitting_columns(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> int:
    """Returns how many columns fit. The last ones are dropped, so that product names stay wide.

    >>> count_fitting_columns(["id", "name", "price", "a"], [["1", "A name", "9.50", "x"]], 18)
    3
    """
    widths = [
        min(NAME_CHARS, max(len(name), *(len(row[index]) for row in cells), 0))
        for index, name in enumerate(names)
    ]
    shown = len(names)
    while shown > COLUMNS_LEAST and sum(widths[:shown]) + GAP * (shown - 1) > width:
        shown -= 1
    return shown


def _value_text(row: dict[str, Any], name: str, priced: bool) -> str:
    if not priced or row[name] is None:
        return format_cell(row[name])
    return format_cell(format_amount(row[name], row[f"{name}{CURRENCY}"]))


@click.command()
@click.argument("site", shell_complete=complete_site)
@click.argument("product_id", metavar="ID")
@click.option(
    "--field", metavar="NAME", help="Only this field: prices with percentages and a bar chart."
)
@json_option("array")
def history(site: str, product_id: str, field: str | None, as_json: bool) -> None:
    """Show the history of a product of SITE, version by version."""
    with open_engine().connect() as connection:
        require_site(connection, site)
        versions = view.read_versions(connection, site, product_id)
    if not versions:
        raise NotFoundError(
            f"{site} has no product {product_id!r}; "
            f"`{quote_command('scraper products', site)}` shows ids"
        )
    if field is not None:
        points = view.field_history(versions, field)
        if not points:
            names = sorted({name for version in versions for name in version["data"]})
            raise NotFoundError(f"{product_id} never had a {field!r}: {', '.join(names)}")
        if as_json:
            print_json(points)
        else:
            _print_field(field, points)
    elif as_json:
        print_json(versions)
    else:
        _print_history(versions)


def _print_field(field: str, points: Sequence[dict[str, Any]]) -> None:
    rows = [
        [
            *(format_local_time(point["valid_from"]), format_local_time(point["valid_to"])),
            format_cell(format_amount(point["value"], point["currency"])),
            percent_text(point["percent"]),
        ]
        for point in points
    ]
    print_table(["from", "to", field, "percent"], rows)
    numbers = [value for point in points if (value := as_number(point["value"])) is not None]
    if len(numbers) > 1:
        click.echo(f"{draw_sparkline(numbers)}  {min(numbers):f} to {max(numbers):f}", err=True)


def _print_history(versions: Sequence[dict[str, Any]]) -> None:
    """Prints each version with what changed in it; the first in full."""
    rows: list[list[str]] = []
    before: dict[str, Any] = {}
    for version in versions:
        data = version["data"]
        text = ", ".join(
            f"{name}: {format_cell(format_amount(data.get(name), data.get(f'{name}{CURRENCY}')))}"
            for name in changed_fields(before, data)
        )
        rows.append([str(version["version"]), format_local_time(version["valid_from"]), text])
        before = data
    print_table(["version", "since", "what changed"], rows)
