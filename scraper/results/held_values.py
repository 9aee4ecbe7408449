"""Changes to known products wait here until their crawl is judged, and longer if they are not
believed.

A page that differs from the stored product changes nothing yet: in the transaction that settles the
page, each difference becomes a row of `held_values`, and the product keeps what it has. When the
crawl ends, its judgement marks implausible values (`implausible_values`) and broken fields, and
`release_values` writes all others: one upsert, one version and one feed entry for each product.
Marked values stay until a crawl reads the stored value (the row goes), reads the same value again
(it is released), or a person accepts or rejects it. New products, and products that have not
changed, are written at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import FieldObservations, content_hash
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.results import products
from scraper.results.differences import FieldDifference, find_differences, keys_of
from scraper.results.products import NewProduct, parse_data

BATCH = 1000

DIFFERING = sa.text(sql("results/differing_products.sql"))

HOLD = sa.text(sql("results/hold_values.sql"))

# Held values that a page no longer says, of the products that were read from it.
FORGET = sa.text("""
DELETE FROM held_values h
 USING jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(product_id bigint, fields text[])
 WHERE h.product_id = i.product_id AND h.field <> ALL (i.fields)
""")

WAITING = sa.text(sql("results/waiting_products.sql"))

RELEASED = sa.text("DELETE FROM held_values WHERE crawl_id = :id AND reason IS NULL")

# The next crawl reads the pages of held values whole, however fresh they are.
READ_AGAIN = sa.text("""
UPDATE pages SET extractor_hash = NULL, fetched_at = NULL WHERE id IN (
    SELECT p.page_id FROM held_values h JOIN products p ON p.id = h.product_id
     WHERE h.crawl_id = :id)
""")

ACCEPT = sa.text("""
UPDATE held_values SET reason = NULL
 WHERE crawl_id = :id AND (CAST(:fields AS text[]) IS NULL OR field = ANY (:fields))
""")

COUNTS = sa.text(
    "SELECT field, count(*) AS held FROM held_values WHERE crawl_id = :id GROUP BY field"
)


class KnownProduct(NamedTuple):
    """A stored product as `DIFFERING` returns it. `ordinal` is the place of the page's product in
    its group. `data` is None if the content is the same; `holding` says whether some of
    its values are held."""

    ordinal: int
    id: int
    delisted: bool
    content_hash: UUID
    data: dict[str, Any] | None
    holding: bool


class Comparison(NamedTuple):
    """How a page's product differs from the stored one, and which fields another source of the page
    contradicts."""

    stored: KnownProduct
    crawl_id: int
    differences: Sequence[FieldDifference]
    contradicted: Container[str]


class HeldGroup(NamedTuple):
    """The products of a group as they must be stored now, and how often each field vanished, by
    crawl."""

    products: list[NewProduct]
    vanished: Mapping[int, Counter[str]]


def hold_differences(
    connection: sa.Connection,
    extracted: Sequence[NewProduct],
    observed: Mapping[int, FieldObservations],
) -> HeldGroup:
    """Holds the values of known products that differ from the stored ones. `observed` is by page.

    Compares first, and writes afterwards. A delisted product that comes back with other values is
    not stored until these are judged.
    """
    if not extracted:
        return HeldGroup([], {})
    to_store = dict(enumerate(extracted))
    comparisons: dict[int, Comparison] = {}
    for stored in _lock_differing(connection, extracted):
        product = extracted[stored.ordinal]
        waits = False
        # If several pages give the same product, the first page decides.
        if stored.id not in comparisons:
            comparison = compare(product, stored, observed.get(product.page_id))
            comparisons[stored.id] = comparison
            waits = stored.delisted and bool(comparison.differences)
        if waits:
            del to_store[stored.ordinal]
        elif stored.data is not None:
            to_store[stored.ordinal] = replace(
                product, data=stored.data, content_hash=stored.content_hash
            )
    _store_differences(connection, comparisons.values())
    return HeldGroup(list(to_store.values()), _count_vanished(comparisons.values()))


def _lock_differing(
    connection: sa.Connection, extracted: Sequence[NewProduct]
) -> list[KnownProduct]:
    """Locks the known products that differ or have held values; a product's own page comes before
    others."""
    keys = [
        {
            "ordinal": ordinal,
            "site_id": product.site_id,
            "external_id": product.external_id,
            "page_id": product.page_id,
            "crawl_id": product.crawl_id,
            "url": product.url,
            "content_hash": product.content_hash,
            "moves": product.moves,
        }
        for ordinal, product in enumerate(extracted)
    ]
    return [
        KnownProduct(
            ordinal, id_, delisted, hash_, None if data is None else parse_data(data), held
        )
        for ordinal, id_, delisted, hash_, data, held in connection.execute(
            DIFFERING, {"rows": dumps(keys)}
        )
    ]


def compare(
    product: NewProduct, stored: KnownProduct, observations: FieldObservations | None
) -> Comparison:
    """Compares a page's product with the stored one."""
    if stored.data is None:
        return Comparison(stored, product.crawl_id, (), ())
    own = _own_fields(product.external_id, observations)
    differences = list(find_differences(stored.data, product.data, own))
    against = _contradicted_fields(observations) if differences else ()
    return Comparison(stored, product.crawl_id, differences, against)


def _own_fields(external_id: str, observations: FieldObservations | None) -> Container[str] | None:
    """Returns the fields of a product whose values are the page's own; None if that is unknown."""
    if observations is None:
        return None
    if observations.by_id is not None:
        return observations.by_id.get(external_id)
    return observations.found if observations.records == 1 else None


def _contradicted_fields(observations: FieldObservations | None) -> set[str]:
    """Returns the fields that another source of the page contradicts."""
    votes = observations.votes if observations is not None else ()
    return {vote.field for vote in votes if not vote.agrees}


def _store_differences(connection: sa.Connection, comparisons: Iterable[Comparison]) -> None:
    """Stores the values that differ, and deletes held values that their page no longer says."""
    held, still_held = [], []
    for stored, crawl_id, differences, contradicted in comparisons:
        for difference in differences:
            row = {"product_id": stored.id, "crawl_id": crawl_id} | difference._asdict()
            held.append(row | {"contradicted": difference.field in contradicted})
        if stored.holding:
            fields = [difference.field for difference in differences]
            still_held.append({"product_id": stored.id, "fields": fields})
    if held:
        connection.execute(HOLD, {"rows": dumps(held)})
    if still_held:
        connection.execute(FORGET, {"rows": dumps(still_held)})


def _count_vanished(comparisons: Iterable[Comparison]) -> dict[int, Counter[str]]:
    """Counts how often each field vanished, by crawl."""
    vanished: dict[int, Counter[str]] = defaultdict(Counter)
    for comparison in comparisons:
        for difference in comparison.differences:
            if difference.difference == "vanished":
                vanished[comparison.crawl_id][difference.field] += 1
    return vanished


def release_values(connection: sa.Connection, crawl_id: int) -> dict[str, int]:
    """Writes the held values of a crawl that no reason speaks against. Returns how many values of
    each field stay held."""
    after = 0
    counts = CountsByCrawl()
    values = {"id": crawl_id, "batch": BATCH}
    while True:
        rows = connection.execute(WAITING, values | {"after": after}).all()
        # What was delisted after the crawl's end is not listed again by accepting that crawl.
        listed = [row for row in rows if not row.left_since]
        ready = [_with_values(row, crawl_id) for row in listed if row.fields or row.delisted]
        for written in products.upsert_products(connection, ready):
            counts[crawl_id].count_written(False, written.changed, written.repriced)
        if len(rows) < BATCH:
            break
        after = rows[-1].id
    connection.execute(RELEASED, {"id": crawl_id})
    connection.execute(READ_AGAIN, {"id": crawl_id})
    add_counts(connection, counts)
    return {row.field: row.held for row in connection.execute(COUNTS, {"id": crawl_id})}


def _with_values(row: sa.Row[Any], crawl_id: int) -> NewProduct:
    data = parse_data(row.data)
    given = parse_data(row.given) if row.fields else {}
    for name in row.fields or ():
        for key in keys_of(name):
            data.pop(key, None)
        data |= given[name]
    return NewProduct(
        site_id=row.site_id,
        external_id=row.external_id,
        page_id=row.page_id,
        crawl_id=crawl_id,
        url=row.url,
        data=data,
        content_hash=content_hash(data),
    )


def accept_values(
    connection: sa.Connection, crawl_id: int, fields: Collection[str] | None = None
) -> None:
    """Accepts a crawl's held values, or those of certain fields: `release_values` then writes them,
    whatever spoke against them."""
    values = {"id": crawl_id, "fields": None if fields is None else list(fields)}
    connection.execute(ACCEPT, values)


def count_held(
    connection: sa.Connection, crawl_id: int, fields: Collection[str] | None = None
) -> int:
    """Counts the held values of a crawl, or of certain fields."""
    rows = connection.execute(COUNTS, {"id": crawl_id})
    return sum(row.held for row in rows if fields is None or row.field in fields)
