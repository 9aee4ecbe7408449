"""A site's products for people: searched, filtered and sorted in PostgreSQL, some at a time. Ids
that are numbers are in the order of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from scraper.errors import ConfigError
from scraper.feed.prices import CURRENCY, percent_change
from scraper.results import products as store

CONDITION = re.compile(r"\s*([\w.-]+)\s*(<=|>=|!=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
# What a condition or an order may name besides the product's fields.
OWN = {
    "id": "p.external_id",
    "url": "p.url",
    "first_seen_at": "p.first_seen_at",
    "changed_at": "p.changed_at",
    "fetched_at": "p.fetched_at",
}
BY_ID = """
CASE WHEN p.external_id ~ '^[0-9]{1,30}$' THEN CAST(p.external_id AS numeric) END NULLS LAST,
p.external_id COLLATE "C" """

SELECT = """
SELECT p.external_id, p.url, CAST(p.data AS text) AS data, p.version, p.first_seen_at, p.changed_at,
       p.fetched_at, p.delisted_at, count(*) OVER () AS matching
  FROM products p JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site AND (:delisted OR p.delisted_at IS NULL){where}
 ORDER BY {order} LIMIT :limit OFFSET :offset
"""

ROW_IDS = """
SELECT p.id FROM products p JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site{where}
 ORDER BY p.id
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a product must be like: `price < 10`, `title ~ pan` (contains, whatever the case)."""

    field: str
    sign: str
    value: str


def parse_condition(text: str) -> Condition:
    """Raises `ConfigError`."""
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not a condition (fix: FIELD, one of = != < <= > >= ~, and a value, "
            "as in 'price<10' or 'title~pan')"
        )
    condition = Condition(match[1], match[2], match[3])
    if condition.sign[0] in "<>" and _parse_number(condition.value) is None:
        raise ConfigError(f"{text!r} does not compare with a number")
    return condition


def read(
    connection: sa.Connection,
    site: str,
    *,
    where: Sequence[Condition] = (),
    search: str = "",
    sort: str = "id",
    delisted: bool = False,
    limit: int = 20,
    offset: int = 0,
) -> list[sa.Row[Any]]:
    """Products, each with the number of all that match. `sort`: a field, or `-field` for the
    largest first; products without it come last. `search`: in any value, the id or the URL."""
    values: dict[str, Any] = {"site": site, "delisted": delisted, "limit": limit, "offset": offset}
    clauses = [_condition_clause(index, condition, values) for index, condition in enumerate(where)]
    if search:
        clauses.append(
            "strpos(lower(p.external_id || ' ' || p.url || ' ' || CAST(p.data AS text)),"
            " lower(:search)) > 0"
        )
        values["search"] = search
    order = _order_clause(sort, values)
    statement = SELECT.format(where="".join(f"\n   AND {c}" for c in clauses), order=order)
    return list(connection.execute(sa.text(statement), values))


def row_ids(connection: sa.Connection, site: str, where: Sequence[Condition]) -> list[int]:
    """All products that meet the conditions, delisted ones too."""
    values: dict[str, Any] = {"site": site}
    clauses = [_condition_clause(index, condition, values) for index, condition in enumerate(where)]
    statement = ROW_IDS.format(where="".join(f"\n   AND {c}" for c in clauses))
    return list(connection.execute(sa.text(statement), values).scalars())


def read_versions(connection: sa.Connection, site: str, external_id: str) -> list[dict[str, Any]]:
    """Returns a product's versions, the oldest first, with exact numbers."""
    return [
        {
            "version": row.version,
            "valid_from": row.valid_from,
            "valid_to": row.valid_to,
            "data": store.parse_data(row.data),
        }
        for row in store.read_history(connection, site, external_id)
    ]


def field_history(versions: Sequence[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """The values that a field has had, oldest first, and by how many percent each is another than
    the one before it; None where that cannot be said."""
    points: list[dict[str, Any]] = []
    for version in versions:
        value = version["data"].get(field)
        currency = version["data"].get(f"{field}{CURRENCY}")
        last = points[-1] if points else None
        if last is None and value is None:
            continue
        if last is not None and (last["value"], last["currency"]) == (value, currency):
            last["valid_to"] = version["valid_to"]
            continue
        share = None
        if last is not None and last["currency"] == currency:
            share = percent_change(last["value"], value)
        points.append(
            {
                "valid_from": version["valid_from"],
                "valid_to": version["valid_to"],
                "value": value,
                "currency": currency,
                "percent": None if share is None else round(share, 2),
            }
        )
    return points


def _condition_clause(index: int, condition: Condition, values: dict[str, Any]) -> str:
    """Returns a condition as SQL. Names and values are parameters; signs are a fixed set."""
    field, value = f"field_{index}", f"value_{index}"
    text = OWN.get(condition.field)
    text = f"CAST({text} AS text)" if text else f"p.data ->> CAST(:{field} AS text)"
    values |= {field: condition.field, value: condition.value}
    if condition.field in OWN:
        del values[field]
    if condition.sign == "~":
        return f"strpos(lower({text}), lower(:{value})) > 0"
    wanted = _parse_number(condition.value)
    if wanted is None or condition.field in OWN:
        equal = "IS DISTINCT FROM" if condition.sign == "!=" else condition.sign
        return f"{text} {equal} CAST(:{value} AS text)"
    values[value] = wanted
    equal = "IS DISTINCT FROM" if condition.sign == "!=" else condition.sign
    return f"{_numeric_value(field)} {equal} CAST(:{value} AS numeric)"


def _numeric_value(field: str) -> str:
    return (
        f"CASE WHEN jsonb_typeof(p.data -> CAST(:{field} AS text)) = 'number'"
        f" THEN CAST(p.data ->> CAST(:{field} AS text) AS numeric) END"
    )


def _order_clause(sort: str, values: dict[str, Any]) -> str:
    name, direction = sort.removeprefix("-"), "DESC" if sort.startswith("-") else "ASC"
    if name == "id":
        return BY_ID.replace("NULLS LAST", f"{direction} NULLS LAST") + direction
    if name in OWN:
        return f"{OWN[name]} {direction}, {BY_ID}"
    values["sort"] = name
    return (
        f"{_numeric_value('sort')} {direction} NULLS LAST,"
        f" lower(p.data ->> CAST(:sort AS text)) {direction} NULLS LAST, {BY_ID}"
    )


def _parse_number(text: str) -> Decimal | None:
    return Decimal(text) if re.fullmatch(r"-?\d{1,30}(\.\d{1,30})?", text) else None
