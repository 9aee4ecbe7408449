"""The newest changes of products, of one site or of all, as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from scraper.feed import prices
from scraper.infra.statements import sql
from scraper.results.products import parse_data
from scraper.views import named_sites

EVENTS = ("new", "changed", "delisted", "relisted", "reverted")
MOST = 100
# The newest changes of the feed among which those of a site are sought: about 0.2 µs each.
SEARCHED_MAX = 100_000
# Characters shown of a value, and fields of a change.
VALUE_MAX, FIELDS_MAX = 500, 8
READ = sa.text(sql("plugins/flower/latest/newest_changes.sql"))


def read_changes(
    connection: sa.Connection, site: str | None, event: str | None = None, most: int = MOST
) -> list[dict[str, Any]]:
    """Returns the newest changes, the newest first. Raises `NotFoundError` for an unknown site."""
    if site is not None:
        named_sites.require_site(connection, site)
    values = {"site": site, "event": event, "most": most, "searched": SEARCHED_MAX}
    return [_describe_change(row) for row in connection.execute(READ, values)]


def _describe_change(row: sa.Row[Any]) -> dict[str, Any]:
    data = parse_data(row.data)
    before = {} if row.before is None else parse_data(row.before)
    names, priced = prices.changed_fields(before, data) if before else [], prices.price_fields(data)
    # Prices come first: they are what most people wait for.
    names.sort(key=lambda name: name not in priced)
    price = next(iter(priced), None)
    return {
        "cursor": row.cursor,
        "event": row.event,
        "site": row.site,
        "id": row.id,
        "url": row.url,
        "title": prices.title_of(data)[:VALUE_MAX],
        "price": price and show_value(data[price], data[f"{price}{prices.CURRENCY}"]),
        "at": row.at,
        "fields": [compare_field(before, data, name) for name in names[:FIELDS_MAX]],
        "more": max(0, len(names) - FIELDS_MAX),
    }


def compare_field(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a field of two versions as text, and by how many percent its number changed."""
    currency = f"{name}{prices.CURRENCY}"
    alike = before.get(currency) == after.get(currency)
    share = prices.percent_change(before.get(name), after.get(name)) if alike else None
    return {
        "field": name,
        "before": show_value(before.get(name), before.get(currency)),
        "after": show_value(after.get(name), after.get(currency)),
        "percent": prices.percent_text(share),
    }


def show_value(value: Any, currency: str | None = None) -> str:
    if value is None:
        return ""
    return (
        prices.format_amount(value, currency) if not isinstance(value, (dict, list)) else str(value)
    )[:VALUE_MAX]
