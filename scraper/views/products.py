"""A site's products for people: searched, filtered and sorted in PostgreSQL, some at a time. Ids
that are numbers are in the order of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from scraper.errors import ConfigError
from scraper.feed.prices import CURRENCY, percent_change
from scraper.results import products as store
from scraper.views.named_sites import field_types
from scraper.views.rows import key_of, make_table

CONDITION = re.compile(r"\s*([\w.-]+)\s*(<=|>=|!=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
# What a condition or an order may name besides the product's fields.
OWN = {
    "id": "p.external_id",
    "url": "p.url",
    "first_seen_at": "p.first_seen_at",
    "changed_at": "p.changed_at",
    "fetched_at": "p.fetched_at",
    "delisted_at": "p.delisted_at",
}
ID_NUMBER = "CASE WHEN p.external_id ~ '^[0-9]{1,30}$' THEN CAST(p.external_id AS numeric) END"
TIMES = frozenset(name for name in OWN if name.endswith("_at"))
BY_ID = f'{ID_NUMBER} NULLS LAST, p.external_id COLLATE "C" '

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
    """What a product must be like: `price < 10`, `title ~ pan` (contains, whatever the case). A
    product without the field meets `!=` alone."""

    field: str
    sign: str
    value: str


def parse_condition(text: str) -> Condition:
    """Parses `FIELD SIGN VALUE`. Raises `ConfigError`."""
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not a condition (fix: FIELD, one of = != < <= > >= ~, and a value, "
            "as in 'price<10' or 'title~pan')"
        )
    condition = Condition(match[1], match[2], match[3])
    problem = _find_problem(condition)
    if problem:
        raise ConfigError(f"{text!r} {problem}")
    return condition


def require_fields(site: str, columns: Sequence[str], names: Iterable[str]) -> None:
    """Raises `ConfigError` for a name that is not one of the site's columns."""
    for name in names:
        if name not in columns:
            raise ConfigError(f"{site} has no field {name!r}: {', '.join(columns)}")


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
    """All products that meet the conditions, delisted ones too. Raises `ConfigError` for a field
    that the site does not have."""
    columns = make_table(connection, site, field_types(connection, site), ()).columns
    require_fields(site, columns, [condition.field for condition in where])
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


def _find_problem(condition: Condition) -> str:
    """Says why a condition cannot be met; empty if it can."""
    field, sign, value = condition.field, condition.sign, condition.value
    if field in TIMES and sign in ("=", "!="):
        return "compares a time (fix: one of < <= > >= ~)"
    if field in TIMES and sign != "~" and _parse_time(value) is None:
        return "does not compare with a time (fix: as in 2026-11-20 or 2026-11-20T18:00)"
    if field == "url" and sign[0] in "<>":
        return "compares an address (fix: one of = != ~)"
    if field not in TIMES and sign[0] in "<>" and _parse_number(value) is None:
        return "does not compare with a number"
    return ""


def _condition_clause(index: int, condition: Condition, values: dict[str, Any]) -> str:
    """Returns a condition as SQL. Names and values are parameters; signs are a fixed set."""
    sign, own = condition.sign, OWN.get(condition.field)
    field, value, number = f"field_{index}", f"value_{index}", f"number_{index}"
    if own is None:
        values[field] = key_of(condition.field)
    if sign[0] in "<>":
        if condition.field in TIMES:
            values[value] = _parse_time(condition.value)
            return f"{own} {sign} CAST(:{value} AS timestamptz)"
        values[value] = _parse_number(condition.value)
        numeric = ID_NUMBER if own else _numeric_value(field)
        return f"{numeric} {sign} CAST(:{value} AS numeric)"
    values[value] = condition.value
    text = f"CAST({own} AS text)" if own else f"p.data ->> CAST(:{field} AS text)"
    if sign == "~":
        return f"strpos(lower({text}), lower(:{value})) > 0"
    equal = f"{text} = CAST(:{value} AS text)"
    wanted = _parse_number(condition.value)
    if wanted is not None and own is None:
        # 10 equals a price of 10.00, and an article number that is a text.
        values[number] = wanted
        equal += f" OR {_numeric_value(field)} = CAST(:{number} AS numeric)"
    return f"({equal}) IS {'NOT ' if sign == '!=' else ''}TRUE"


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
        return f"{OWN[name]} {direction} NULLS LAST, {BY_ID}"
    values["sort"] = key_of(name)
    return (
        f"{_numeric_value('sort')} {direction} NULLS LAST,"
        f" lower(p.data ->> CAST(:sort AS text)) {direction} NULLS LAST, {BY_ID}"
    )


def _parse_number(text: str) -> Decimal | None:
    return Decimal(text) if re.fullmatch(r"-?\d{1,30}(\.\d{1,30})?", text) else None


def _parse_time(text: str) -> datetime | None:
    """Parses a date or time in ISO 8601, in UTC without a zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
