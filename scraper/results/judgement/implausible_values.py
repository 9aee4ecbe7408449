"""Held values that are implausible: marked one by one, counted by field, and marked by field when a
crawl is judged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.results.judgement import plausibility as policy
from scraper.results.judgement.plausibility import Changes

CLASSIFY = sa.text(sql("results/judgement/classify_held_values.sql"))
SUMS = sa.text(sql("results/judgement/sum_changes.sql"))
THRESHOLDS = {
    "lacking": policy.LACKING,
    "otherwise": policy.OTHERWISE,
    "leap": policy.LEAP,
    "shared_min": policy.SHARED_LEAST,
    "shared": policy.SHARED,
    "vanished_max": policy.VANISHED,
    "explained": policy.EXPLAINED,
}

SWITCHED = sa.text(sql("results/judgement/switched_fields.sql"))

MARK = sa.text("""
UPDATE held_values h SET reason = i.reason
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(field text, reason text, difference text, fresh boolean)
 WHERE h.crawl_id = :id AND h.field = i.field
   AND (i.difference IS NULL OR h.difference = i.difference)
   AND (NOT i.fresh OR h.since_crawl_id = :id AND h.reason IS NULL)
""")

# A list price refers to the price, so it comes and goes with it.
MARK_BESIDE = sa.text("""
UPDATE held_values h SET reason = 'beside'
 WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.reason IS NULL
   AND h.field = ANY (:prices) AND h.difference IN ('appeared', 'vanished') AND EXISTS (
       SELECT FROM held_values o WHERE o.product_id = h.product_id AND o.field <> h.field
          AND o.field = ANY (:prices) AND o.crawl_id = :id AND o.reason IS NOT NULL)
""")


class FieldRoles(NamedTuple):
    """The fields of a definition, by role.

    `own` fields mostly differ from product to product; `lasting` ones do not vanish every day;
    `switches` are booleans that take other values with them (sold out: no stock), and `stocks`
    those of them that say whether a product is in stock; other sources of a page usually say the
    same of `agreeing` ones.
    """

    fields: list[str]
    prices: list[str]
    own: list[str]
    lasting: list[str]
    switches: list[str]
    stocks: list[str]
    agreeing: list[str]


def mark_implausible(
    connection: sa.Connection, crawl_id: int, fields: FieldRoles, compared: int
) -> None:
    """Marks single values that are implausible. `compared` is how many products were known
    before."""
    values = {"id": crawl_id, "misread": policy.MISREAD, "compared": compared}
    connection.execute(CLASSIFY, values | THRESHOLDS | fields._asdict())


def read_changes(
    connection: sa.Connection, crawl_id: int, compared: int, prices: Collection[str]
) -> tuple[dict[str, Changes], int]:
    """Returns what a crawl changed, by field, and how many products' pages are not believed."""
    values = {"id": crawl_id, "prices": list(prices), "of_pages": list(policy.OF_PAGES)}
    values["one_factor"] = policy.ONE_FACTOR
    by_field = {row.field: row for row in connection.execute(SUMS, values)}
    pages = by_field.pop("", None)
    changes = {name: Changes(compared, *row[2:]) for name, row in by_field.items()}
    return changes, pages.products if pages else 0


def find_stocks(switches: Collection[str]) -> list[str]:
    """Returns the fields that are named after stock."""
    return [name for name in switches if "stock" in name or "avail" in name]


def read_switched(
    connection: sa.Connection, crawl_id: int, switches: Collection[str], prices: Collection[str]
) -> dict[str, str]:
    """Returns the fields that vanish together with a switch, each with its switch: a product that
    is sold out has no stock, and one whose sale ended no former price, which is not a problem."""
    values = {"id": crawl_id, "switches": list(switches), "prices": list(prices)}
    values["stocks"] = find_stocks(switches)
    rows = connection.execute(SWITCHED, values)
    return {
        row.field: row.switch for row in rows if row.switched >= policy.EXPLAINED * row.vanished
    }


class FieldMark(NamedTuple):
    """Why values of a field are held. It applies to values with that `difference` (None: all of
    them), and if `fresh` only to those that this crawl is the first to say."""

    field: str
    reason: str
    difference: str | None
    fresh: bool


def mark_fields(
    connection: sa.Connection, crawl_id: int, marks: Sequence[FieldMark], prices: Collection[str]
) -> None:
    """Marks held values. A price that appears next to a held price waits with it."""
    if marks:
        rows = dumps([field_mark._asdict() for field_mark in marks])
        connection.execute(MARK, {"id": crawl_id, "rows": rows})
    if len(prices) > 1:
        connection.execute(MARK_BESIDE, {"id": crawl_id, "prices": list(prices)})
