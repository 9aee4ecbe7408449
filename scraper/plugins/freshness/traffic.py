"""What a site's requests use, in PostgreSQL: sums of ten minutes, of products and of other pages.

Bytes are those of the bodies as they came, where the server says how long they are; else of the
unpacked ones. A browser's page is one request, with the bytes of all its resources. Requests
without a response do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.plugins.freshness.keys import (
    FreshnessKeys,
    PlanBudget,
    bytes_a_day,
    requests_a_day,
)
from scraper.plugins.freshness.rules.limits import Limit, Used

LEARNED_DAYS = 7

ADD = sa.text("""
INSERT INTO site_traffic AS t (site_id, at, product, requests, sized, bytes, proxied, proxy_sized,
                               proxy_bytes)
SELECT site_id, date_bin('10 min', now(), 'epoch'), product, count(*), count(bytes),
       coalesce(sum(bytes), 0), count(*) FILTER (WHERE proxied),
       count(bytes) FILTER (WHERE proxied),
       coalesce(sum(bytes) FILTER (WHERE proxied), 0)
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS r(site_id int, product boolean, proxied boolean, bytes bigint)
 GROUP BY site_id, product ORDER BY site_id, product
    ON CONFLICT (site_id, at, product) DO UPDATE
   SET requests = t.requests + excluded.requests, sized = t.sized + excluded.sized,
       bytes = t.bytes + excluded.bytes, proxied = t.proxied + excluded.proxied,
       proxy_sized = t.proxy_sized + excluded.proxy_sized,
       proxy_bytes = t.proxy_bytes + excluded.proxy_bytes
""")
SUMS = sa.text("""
SELECT product, sum(requests), sum(sized), sum(bytes), sum(proxied), sum(proxy_sized),
       sum(proxy_bytes)
  FROM site_traffic WHERE site_id = :site_id AND at > now() - :days * interval '1 day'
 GROUP BY product
""")
FORGET = sa.text("""
DELETE FROM site_traffic WHERE site_id = :site_id AND at < now() - :days * interval '1 day'
""")


class Traffic(NamedTuple):
    """What products' pages and other pages have used."""

    products: Used
    others: Used


def add_requests(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        connection.execute(ADD, {"rows": dumps(rows)})


def forget(connection: sa.Connection, site_id: int) -> None:
    connection.execute(FORGET, {"site_id": site_id, "days": LEARNED_DAYS + 1})


def read_limits(
    connection: sa.Connection, site_id: int, keys: FreshnessKeys, others: float
) -> dict[str, Limit]:
    """Returns the limits of a site's budget by name; `others` is how many other requests a day it
    makes."""
    budget = keys.budget
    limits: dict[str, Limit] = {}
    if budget is None:
        return limits
    if budget.requests is not None:
        limits["requests"] = Limit(requests_a_day(budget.requests), 1.0, others)
    if budget.is_measured:
        used = _read_used(connection, site_id, LEARNED_DAYS)
        # Before the first visit, one through a proxy counts.
        products = used.products if used.products.requests else Used(requests=1, proxied=1)
        spent, spent_by_others = _sum_spent(budget, products), _sum_spent(budget, used.others)
        for name, ceiling in _list_measured(budget):
            mean = spent_by_others[name] / max(used.others.requests, 1)
            limits[name] = Limit(ceiling, spent[name] / products.requests, mean * others)
    return limits


def read_left(
    connection: sa.Connection, site_id: int, keys: FreshnessKeys, limits: Mapping[str, Limit]
) -> float:
    """Returns how many visits are left, after what the last day has used in bytes and money."""
    budget = keys.budget
    if budget is None or not budget.is_measured:
        return math.inf
    used = _read_used(connection, site_id, 1)
    spent, spent_by_others = _sum_spent(budget, used.products), _sum_spent(budget, used.others)
    return min(
        (ceiling - spent[name] - spent_by_others[name]) / limits[name].visit
        if limits[name].visit
        else math.inf
        for name, ceiling in _list_measured(budget)
    )


def _list_measured(budget: PlanBudget) -> Iterator[tuple[str, float]]:
    """Yields the limits that are not of requests: their names, and what a day may use."""
    if budget.bytes is not None:
        yield "bytes", bytes_a_day(budget.bytes)
    if budget.proxy_a_day is not None:
        yield "proxy", budget.proxy_a_day


def _sum_spent(budget: PlanBudget, used: Used) -> dict[str, float]:
    return {"bytes": used.traffic, "proxy": budget.price(used)}


def _read_used(connection: sa.Connection, site_id: int, days: float) -> Traffic:
    rows = connection.execute(SUMS, {"site_id": site_id, "days": days})
    sums = {product: Used(*map(float, numbers)) for product, *numbers in rows}
    return Traffic(sums.get(True, Used()), sums.get(False, Used()))
