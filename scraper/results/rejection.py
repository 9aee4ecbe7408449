"""Rejecting a crawl: takes back its values, new products and delistings.

Nothing is erased. A product gets another version with the values from before, and a feed entry
(`reverted`). New products are delisted, delisted ones are listed again. Values that a later crawl
has changed since stay as they are, and so does everything that the feed has trimmed. The crawl's
held values are deleted, and the next crawl reads the pages whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from scraper.domain import content_hash
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.results import differences, held_products, held_values
from scraper.results.products import parse_data

BATCH = 1000

LOCK = sa.text("""
SELECT site_id, judged_at IS NOT NULL AS judged,
       coalesce(reasons @> '[{"what": "rejected"}]', false) AS rejected
  FROM crawls WHERE id = :id FOR UPDATE
""")

CHANGED = sa.text("""
SELECT v.product_id FROM products p JOIN product_versions v ON v.product_id = p.id
 WHERE p.site_id = :site_id AND v.crawl_id = :id ORDER BY v.product_id
""")

VERSIONS = sa.text("""
SELECT p.id, p.url, CAST(p.data AS text) AS now, CAST(v.data AS text) AS before,
       CAST(coalesce(n.data, p.data) AS text) AS after
  FROM products p JOIN product_versions v ON v.product_id = p.id AND v.crawl_id = :id
  LEFT JOIN product_versions n ON n.product_id = v.product_id AND n.version = v.version + 1
 WHERE p.id = ANY (:ids) ORDER BY p.id, v.version DESC FOR UPDATE OF p
""")

REVERT = sa.text(sql("results/revert_products.sql"))

# What a crawl has listed or delisted, and is still so.
LISTED = sa.text("""
SELECT DISTINCT c.event, p.id FROM changes c JOIN products p ON p.id = c.product_id
 WHERE c.site_id = :site_id AND c.crawl_id = :id
   AND (c.event = 'new' AND p.delisted_at IS NULL
        OR c.event = 'delisted' AND p.delisted_at IS NOT NULL)
""")

SET_LISTED = sa.text(sql("results/set_listed.sql"))

FORGET_HELD = sa.text("""
DELETE FROM held_values
 WHERE crawl_id = :id AND (CAST(:fields AS text[]) IS NULL OR field = ANY (:fields))
""")

REPRICED_BACK = sa.text("""
UPDATE crawls SET products_repriced = greatest(0, products_repriced - :products) WHERE id = :id
""")

REJECTED = sa.text("""
UPDATE crawls SET suspect = true, accepted_at = NULL,
       reasons = coalesce(reasons, '[]') || CAST(:reasons AS jsonb) WHERE id = :id
""")


@dataclass(frozen=True, slots=True)
class Rejection:
    """What was taken back, or would be: values by field with examples, new products, delisted
    products, and held values."""

    values: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    products: int = 0
    new: int = 0
    delisted: int = 0
    held: int = 0


def reject_crawl(
    connection: sa.Connection,
    crawl_id: int,
    fields: Collection[str] | None = None,
    *,
    dry: bool = False,
) -> Rejection | None:
    """Takes back what a judged crawl wrote, or only certain fields. Returns None if the crawl is
    not judged yet, or was rejected before. `dry` changes nothing."""
    crawl = connection.execute(LOCK, {"id": crawl_id}).first()
    if crawl is None or not crawl.judged or crawl.rejected:
        return None
    ids = {"id": crawl_id, "site_id": crawl.site_id}
    changed = list(connection.execute(CHANGED, ids).scalars())
    reverted = RevertedValues()
    for begin in range(0, len(changed), BATCH):
        _revert_batch(connection, crawl_id, changed[begin : begin + BATCH], fields, reverted, dry)
    held = held_values.count_held(connection, crawl_id, fields)
    listed: dict[str, list[int]] = {"new": [], "delisted": []}
    if fields is None:
        held += held_products.count_held(connection, crawl_id)
        for event, product_id in connection.execute(LISTED, ids):
            listed[event].append(product_id)
    if not dry:
        for event, product_ids in listed.items():
            states = {"id": crawl_id, "ids": product_ids, "listed": event == "delisted"}
            connection.execute(SET_LISTED, states)
        names = None if fields is None else list(fields)
        connection.execute(REPRICED_BACK, {"id": crawl_id, "products": reverted.repriced})
        connection.execute(FORGET_HELD, {"id": crawl_id, "fields": names})
        if fields is None:
            held_products.forget_products(connection, crawl_id)
            reason = {"field": None, "what": "rejected", "text": "a person has rejected it"}
            connection.execute(REJECTED, {"id": crawl_id, "reasons": dumps([reason])})
    return Rejection(
        values=dict(reverted.values),
        examples=reverted.examples,
        products=reverted.products,
        new=len(listed["new"]),
        delisted=len(listed["delisted"]),
        held=held,
    )


@dataclass(slots=True)
class RevertedValues:
    """How many values were taken back, by field, with an example of each."""

    values: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    products: int = 0
    repriced: int = 0


def _revert_batch(
    connection: sa.Connection,
    crawl_id: int,
    product_ids: list[int],
    fields: Collection[str] | None,
    reverted: RevertedValues,
    dry: bool,
) -> None:
    """Takes back the values of some products, and counts them."""
    # A product that the crawl changed twice, at its end and when it was accepted, goes back twice.
    data_of: dict[int, dict[str, Any]] = {}
    stored = {}
    for row in connection.execute(VERSIONS, {"id": crawl_id, "ids": product_ids}).all():
        stored[row.id] = row
        data = data_of.setdefault(row.id, parse_data(row.now))
        _revert_fields(data, parse_data(row.before), parse_data(row.after), fields)
    rows = []
    for product_id, data in data_of.items():
        row = stored[product_id]
        now = parse_data(row.now)
        names = [difference.field for difference in differences.find_differences(now, data, None)]
        reverted.values.update(names)
        for name in names:
            reverted.examples.setdefault(name, row.url)
        reverted.repriced += _is_repriced(now, data)
        if names:
            rows.append({"id": product_id, "data": data, "content_hash": content_hash(data)})
    reverted.products += len(rows)
    if rows and not dry:
        connection.execute(REVERT, {"id": crawl_id, "rows": dumps(rows)})


def _is_repriced(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Returns True if a price changed within its currency, as the upsert counts it."""
    return any(
        before[key] == after.get(key) and price != after.get(name)
        for name, price in before.items()
        if (key := f"{name}_currency") in before
        and isinstance(price, (int, Decimal))
        and isinstance(after.get(name), (int, Decimal))
    )


def _revert_fields(
    data: dict[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    fields: Collection[str] | None,
) -> None:
    """Sets what the crawl changed to what it was, except values that have changed since."""
    for difference in differences.find_differences(before, after, None):
        name = difference.field
        wanted = fields is None or name in fields
        if wanted and differences.value_of(data, name) == differences.value_of(after, name):
            for key in differences.keys_of(name):
                data.pop(key, None)
            data |= differences.value_of(before, name)
