"""`scraper products` and `history`: what crawls have extracted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import click
import sqlalchemy as sa

from scraper.cli.common.shared import complete_site, json_option, open_engine, print_json
from scraper.cli.common.tables import cell, print_table
from scraper.cli.data.rows import LAST_COLUMNS, read
from scraper.errors import NotFoundError
from scraper.settle import products as store
from scraper.views.named_sites import field_types, require_site

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
    types = field_types(connection, site)
    table = read(connection, site, types, delisted=delisted)
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
        require_site(connection, site)
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
