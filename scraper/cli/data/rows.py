"""Products as rows of a table, streamed, in an order of rows and columns that stays the same.

Columns: `id`, `url`, the definition's fields in its order, any other keys by name, then the times.
Numbers keep every digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from scraper.feed.prices import CURRENCY
from scraper.settle import products

LAST_COLUMNS = ("first_seen_at", "changed_at", "fetched_at", "delisted_at")

KEYS = sa.text("""
SELECT DISTINCT k
  FROM products p JOIN sites s ON s.id = p.site_id, jsonb_object_keys(p.data) AS k
 WHERE s.name = :site
""")


@dataclass(frozen=True, slots=True)
class Table:
    """A site's products as rows of `columns`; `rows` streams from the database while its connection
    is open."""

    columns: list[str]
    rows: Iterator[dict[str, Any]]


def read(
    connection: sa.Connection,
    site: str,
    types: Mapping[str, str],
    *,
    delisted: bool,
    since: int | None = None,
) -> Table:
    """Opens the stream. `types` are those of the definition's fields, in its order."""
    stream = products.export(connection, site, delisted=delisted, since=since)
    return make_table(connection, site, types, stream)


def make_table(
    connection: sa.Connection, site: str, types: Mapping[str, str], stream: Iterable[sa.Row[Any]]
) -> Table:
    """A table of any of a site's products."""
    stored = set(connection.execute(KEYS, {"site": site}).scalars())
    named = [key for name, type_ in types.items() for key in keys_of(name, type_)]
    others = sorted(stored - set(named))
    columns = list(dict.fromkeys(["id", "url", *named, *others, *LAST_COLUMNS]))
    return Table(columns, (_row(product, columns) for product in stream))


def keys_of(name: str, type_: str) -> list[str]:
    """The keys a field has in a product's data: a price has its currency beside it."""
    return [name, f"{name}{CURRENCY}"] if type_ == "price" else [name]


def _row(product: sa.Row[Any], columns: list[str]) -> dict[str, Any]:
    values = {"id": product.external_id, "url": product.url}
    for name in LAST_COLUMNS:
        at = getattr(product, name)
        values[name] = at.isoformat() if at else None
    values.update(json.loads(product.data, parse_float=Decimal, parse_int=_whole))
    return {name: values.get(name) for name in columns}


def _whole(text: str) -> int | Decimal:
    """Beyond 64 bits a Decimal: other than an int it can be written again."""
    return int(text) if len(text) < 19 else Decimal(text)
