"""Changes to known products wait here until their crawl is judged, and longer where they are not
believed.

A page that says something else than what is stored changes nothing yet: in the transaction that
settles it each difference becomes a row, and the product keeps what it has. When the crawl ends,
`classify` marks single values that cannot be, the judgement (`crawl_quality`) marks fields, and
`release` writes all others: one upsert, one version and one entry of the feed for each product.
What is marked stays until a crawl reads what is stored (the row goes), reads the same again (it is
released), or a person takes it or rejects it. New products, and those that are as they were, are
written at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.domain import FieldObservations, content_hash, filled
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.infra.database import dumps
from scraper.results import plausibility as policy
from scraper.results import products
from scraper.results.plausibility import Changes
from scraper.results.products import MAY_WRITE, OWNER, NewProduct, parse_data

BATCH = 1000

# The known products of which the page says something else, or of which something is held. Their
# rows are locked in the upsert's order, so that what is compared is what the upsert finds. Where
# two pages of a group share a product, its own page comes first.
DIFFERING = sa.text(f"""
SELECT i.place, l.id, l.delisted_at IS NOT NULL AS delisted, l.content_hash,
       CASE WHEN l.content_hash <> i.content_hash THEN CAST(l.data AS text) END AS data,
       EXISTS (SELECT FROM held_values h WHERE h.product_id = l.id) AS holding
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(place int, site_id int, external_id text, page_id bigint, crawl_id bigint, url text,
         content_hash uuid, moves boolean)
  JOIN products l ON l.site_id = i.site_id AND l.external_id = i.external_id
  LEFT JOIN pages owner ON {OWNER}
 WHERE (l.content_hash <> i.content_hash
        OR EXISTS (SELECT FROM held_values h WHERE h.product_id = l.id))
   AND {MAY_WRITE}
 ORDER BY l.id, l.page_id <> i.page_id, i.page_id FOR UPDATE OF l
""")

# A value that an earlier crawl has read, and this one again, is since then.
HOLD = sa.text("""
INSERT INTO held_values AS h (product_id, field, crawl_id, since_crawl_id, difference, value,
                              contradicted)
SELECT product_id, field, crawl_id, crawl_id, difference, value, contradicted
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(product_id bigint, field text, crawl_id bigint, difference text, value jsonb,
         contradicted boolean)
ON CONFLICT (product_id, field) DO UPDATE
   SET crawl_id = excluded.crawl_id, reason = NULL, difference = excluded.difference,
       value = excluded.value, contradicted = excluded.contradicted,
       since_crawl_id = CASE WHEN h.value = excluded.value THEN h.since_crawl_id
                             ELSE excluded.since_crawl_id END,
       seen_at = CASE WHEN h.value = excluded.value THEN h.seen_at ELSE now() END
""")

# What a page says no more, of products that it was read for.
FORGET = sa.text("""
DELETE FROM held_values h
 USING jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(product_id bigint, fields text[])
 WHERE h.product_id = i.product_id AND h.field <> ALL (i.fields)
""")

# Values that were not read before are looked at one by one: `policy.REASONS`. The counts are of one
# page, and of one value of one field. What changes beside a value that vanished waits with it, so
# that no product has a state that it never had at the shop; unless the field has vanished from so
# many that it is broken.
CLASSIFY = sa.text(f"""
WITH fresh AS MATERIALIZED (
    SELECT h.product_id, h.field, h.difference, h.value, h.contradicted, p.data,
           CASE WHEN h.field = ANY (:prices) AND h.difference = 'changed'
                 AND jsonb_typeof(p.data -> h.field) = 'number'
                THEN CAST(p.data ->> h.field AS numeric) END AS before,
           CASE WHEN h.field = ANY (:prices) AND jsonb_typeof(h.value -> h.field) = 'number'
                THEN CAST(h.value ->> h.field AS numeric) END AS after,
           p.data ->> h.field AS text_before, h.value ->> h.field AS text,
           p.data ->> (h.field || '_currency') AS currency_before,
           h.value ->> (h.field || '_currency') AS currency,
           count(*) FILTER (WHERE h.difference = 'vanished') OVER of_page AS vanished,
           count(*) FILTER (WHERE h.difference <> 'appeared') OVER of_page AS different,
           count(*) FILTER (WHERE h.difference = 'changed' AND h.field = ANY (:switches)
                              AND h.value ->> h.field = 'false') OVER of_page AS switched,
           count(*) OVER (PARTITION BY h.field) AS of_field,
           count(*) FILTER (WHERE h.difference = 'vanished') OVER (PARTITION BY h.field) AS gone,
           count(*) OVER (PARTITION BY h.field, jsonb_hash_extended(h.value, 0)) AS sharing
      FROM held_values h JOIN products p ON p.id = h.product_id
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.field = ANY (:fields)
    WINDOW of_page AS (PARTITION BY h.product_id)
), counted AS (
    SELECT fresh.*, CASE WHEN different >= 2 THEN (
               SELECT count(*) FROM jsonb_each_text(data) AS e
                WHERE e.value <> '' AND right(e.key, 9) <> '_currency') END AS fields
      FROM fresh
), judged AS (
    SELECT product_id, field, gone, CASE
           WHEN vanished >= 2 AND vanished >= {policy.LACKING} * fields THEN 'lacking'
           WHEN different >= 3 AND different >= {policy.OTHERWISE} * fields THEN 'other'
           WHEN before IS NOT NULL AND currency_before IS DISTINCT FROM currency
                AND currency_before IS NOT NULL THEN 'currency'
           WHEN before > 0 AND after <= 0 THEN 'zero'
           WHEN before > 0 AND (after >= before * {policy.LEAP}
                                OR after <= before / {policy.LEAP}) THEN 'leap'
           WHEN difference = 'changed' AND text ~ :misread AND NOT text_before ~ :misread
                THEN 'encoding'
           WHEN difference = 'changed' AND field = ANY (:own)
                AND sharing >= {policy.SHARED_LEAST} AND sharing >= {policy.SHARED} * of_field
                THEN 'shared'
           WHEN difference = 'changed' AND contradicted AND field = ANY (:agreeing)
                THEN 'contradicted'
           WHEN difference = 'vanished' AND switched = 0 AND field = ANY (:lasting)
                THEN 'vanished' END AS reason
      FROM counted
), whole AS (
    SELECT product_id, field, coalesce(reason, CASE
           WHEN bool_or(reason = 'vanished' AND gone <= greatest(2, {policy.VANISHED} * :compared))
                OVER (PARTITION BY product_id) THEN 'vanished' END) AS reason
      FROM judged
)
UPDATE held_values h SET reason = whole.reason FROM whole
 WHERE h.product_id = whole.product_id AND h.field = whole.field AND whole.reason IS NOT NULL
""")

# What is new in this crawl, by field. Pages that are not their products' count apart, for a field
# that is named '' here.
SUMS = sa.text(f"""
WITH fresh AS MATERIALIZED (
    SELECT CASE WHEN h.reason = ANY (:of_pages) THEN '' ELSE h.field END AS field, h.product_id,
           h.difference, h.reason, n.before, n.after, ln(n.after / n.before) AS factor
      FROM held_values h JOIN products p ON p.id = h.product_id
      LEFT JOIN LATERAL (
           SELECT CASE WHEN jsonb_typeof(p.data -> h.field) = 'number'
                       THEN CAST(p.data ->> h.field AS float8) END AS before,
                  CASE WHEN jsonb_typeof(h.value -> h.field) = 'number'
                       THEN CAST(h.value ->> h.field AS float8) END AS after
           ) n ON h.field = ANY (:prices) AND h.reason IS NULL AND n.before > 0 AND n.after > 0
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id
), usual AS (
    SELECT field, percentile_disc(0.5) WITHIN GROUP (ORDER BY factor) AS factor FROM fresh
     WHERE factor IS NOT NULL GROUP BY field
)
SELECT field, count(DISTINCT product_id) AS products,
       count(*) FILTER (WHERE difference = 'changed' AND reason IS NULL) AS changed,
       count(*) FILTER (WHERE difference = 'vanished') AS vanished,
       count(*) FILTER (WHERE reason <> 'vanished') AS held,
       coalesce(sum(before), 0) AS before, coalesce(sum(after), 0) AS after,
       corr(ln(before), ln(after)) AS in_order,
       count(*) FILTER (WHERE abs(fresh.factor - usual.factor) <= {policy.ONE_FACTOR}) AS alike
  FROM fresh LEFT JOIN usual USING (field)
 GROUP BY field
""")

# Which fields vanished, and for how many products together with a switch (a field of type bool).
SWITCHED = sa.text("""
SELECT h.field, count(*) AS vanished, count(s.product_id) AS switched, min(s.field) AS switch
  FROM held_values h
  LEFT JOIN LATERAL (
       SELECT product_id, field FROM held_values s
        WHERE s.product_id = h.product_id AND s.crawl_id = :id AND s.difference = 'changed'
          AND s.field = ANY (:switches) LIMIT 1) s ON true
 WHERE h.crawl_id = :id AND h.difference = 'vanished' GROUP BY h.field
""")

MARK = sa.text("""
UPDATE held_values h SET reason = i.reason
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(field text, reason text, difference text, fresh boolean)
 WHERE h.crawl_id = :id AND h.field = i.field
   AND (i.difference IS NULL OR h.difference = i.difference)
   AND (NOT i.fresh OR h.since_crawl_id = :id AND h.reason IS NULL)
""")

# What a list price is shown for is the price.
MARK_BESIDE = sa.text("""
UPDATE held_values h SET reason = 'beside'
 WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.reason IS NULL
   AND h.field = ANY (:prices) AND h.difference = 'appeared' AND EXISTS (
       SELECT FROM held_values o WHERE o.product_id = h.product_id AND o.field <> h.field
          AND o.field = ANY (:prices) AND o.crawl_id = :id AND o.reason IS NOT NULL)
""")

# The products of a crawl that wait, a batch: what is released of each, and whether it was delisted,
# for then it is listed again now.
WAITING = sa.text(f"""
SELECT p.id, p.site_id, p.external_id, p.page_id, p.url, CAST(p.data AS text) AS data,
       p.delisted_at IS NOT NULL AS delisted, h.fields, CAST(h.given AS text) AS given
  FROM (SELECT product_id, array_agg(field) FILTER (WHERE reason IS NULL) AS fields,
               jsonb_object_agg(field, value) FILTER (WHERE reason IS NULL) AS given
          FROM held_values WHERE crawl_id = :id AND product_id > :after
         GROUP BY product_id ORDER BY product_id LIMIT {BATCH}) h
  JOIN products p ON p.id = h.product_id
 ORDER BY p.id FOR UPDATE OF p
""")

RELEASED = sa.text("DELETE FROM held_values WHERE crawl_id = :id AND reason IS NULL")

# The pages of what is held are read by the next crawl, whole, however fresh they are.
READ_AGAIN = sa.text("""
UPDATE pages SET extractor_hash = NULL, fetched_at = NULL WHERE id IN (
    SELECT p.page_id FROM held_values h JOIN products p ON p.id = h.product_id
     WHERE h.crawl_id = :id)
""")

TAKE = sa.text("""
UPDATE held_values SET reason = NULL
 WHERE crawl_id = :id AND (CAST(:fields AS text[]) IS NULL OR field = ANY (:fields))
""")

COUNTS = sa.text(
    "SELECT field, count(*) AS held FROM held_values WHERE crawl_id = :id GROUP BY field"
)


class FieldDifference(NamedTuple):
    """A field of which a page says something else than what is stored. `value` has the keys that
    the product would get."""

    field: str
    difference: str
    value: dict[str, Any]


class HeldGroup(NamedTuple):
    """Products of a group as they are to be stored, and how often a field vanished, by crawl."""

    products: list[NewProduct]
    vanished: Mapping[int, Counter[str]]


def keys_of(name: str) -> tuple[str, str]:
    """The keys that a field's value may have: a price has two."""
    return name, f"{name}_currency"


def find_differences(
    stored: Mapping[str, Any], data: Mapping[str, Any], found: Container[str] | None
) -> Iterator[FieldDifference]:
    """What a page says otherwise. `found`: the fields with a value of the page's own (a default is
    none); None: whatever is filled."""
    names = stored.keys() | data.keys()
    for name in sorted(names):
        if name.endswith("_currency") and name.removesuffix("_currency") in names:
            continue
        before, after = value_of(stored, name), value_of(data, name)
        was, given = name in filled(before), name in filled(after)
        if was and not (given and (found is None or name in found)):
            if before != after:
                yield FieldDifference(name, "vanished", after)
        elif was:
            if dumps(before) != dumps(after) and _is_change(before, after):
                yield FieldDifference(name, "changed", after)
        elif given:
            yield FieldDifference(name, "appeared", after)


def _is_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """PostgreSQL orders the keys of mappings, which makes no other value of them. (9.9 is another
    one than 9.90.)"""
    nested = any(isinstance(value, dict | list) for value in after.values())
    return not nested or before != parse_data(dumps(after))


def value_of(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a product's data has of a field."""
    return {key: data[key] for key in keys_of(name) if key in data}


def hold_differences(
    connection: sa.Connection,
    extracted: Sequence[NewProduct],
    observed: Mapping[int, FieldObservations],
) -> HeldGroup:
    """Holds what is different of known products. `observed` is by page. A product that is listed
    again with other values is not stored until these are judged."""
    vanished: Mapping[int, Counter[str]] = defaultdict(Counter)
    if not extracted:
        return HeldGroup([], vanished)
    keys = [
        {
            "place": place,
            "site_id": product.site_id,
            "external_id": product.external_id,
            "page_id": product.page_id,
            "crawl_id": product.crawl_id,
            "url": product.url,
            "content_hash": product.content_hash,
            "moves": product.moves,
        }
        for place, product in enumerate(extracted)
    ]
    stored: list[NewProduct | None] = list(extracted)
    rows, fields_of = [], {}
    for row in connection.execute(DIFFERING, {"rows": dumps(keys)}):
        product, held = extracted[row.place], []
        if row.data is not None:
            data = parse_data(row.data)
            if row.id not in fields_of:
                held = list(find_differences(data, product.data, _own_fields(product, observed)))
            relisted = row.delisted and held
            stored[row.place] = (
                None if relisted else replace(product, data=data, content_hash=row.content_hash)
            )
        if row.id in fields_of:
            continue
        against = _contradicted_fields(observed.get(product.page_id)) if held else ()
        for difference in held:
            row_keys = {"product_id": row.id, "crawl_id": product.crawl_id}
            row_keys["contradicted"] = difference.field in against
            rows.append(row_keys | difference._asdict())
            if difference.difference == "vanished":
                vanished[product.crawl_id][difference.field] += 1
        fields_of[row.id] = [difference.field for difference in held] if row.holding else None
    if rows:
        connection.execute(HOLD, {"rows": dumps(rows)})
    holding = [
        {"product_id": product_id, "fields": fields}
        for product_id, fields in fields_of.items()
        if fields is not None
    ]
    if holding:
        connection.execute(FORGET, {"rows": dumps(holding)})
    return HeldGroup([product for product in stored if product is not None], vanished)


def _own_fields(
    product: NewProduct, observed: Mapping[int, FieldObservations]
) -> Container[str] | None:
    observations = observed.get(product.page_id)
    if observations is None:
        return None
    if observations.by_id is not None:
        return observations.by_id.get(product.external_id)
    return observations.found if observations.records == 1 else None


def _contradicted_fields(observations: FieldObservations | None) -> set[str]:
    """The fields of which another source of the page says otherwise."""
    votes = observations.votes if observations is not None else ()
    return {vote.field for vote in votes if not vote.agrees}


class FieldRoles(NamedTuple):
    """The fields of a definition, and some of them: prices, those whose values mostly differ from
    product to product, those that do not vanish every day, switches (with one that is off, sold
    out, other values go), and those of which other sources of a page usually say the same."""

    fields: list[str]
    prices: list[str]
    own: list[str]
    lasting: list[str]
    switches: list[str]
    agreeing: list[str]


def mark_implausible(
    connection: sa.Connection, crawl_id: int, fields: FieldRoles, compared: int
) -> None:
    """Marks single values that are not believed. `compared`: so many products were known before."""
    values = {"id": crawl_id, "misread": policy.MISREAD, "compared": compared}
    values |= fields._asdict()
    connection.execute(CLASSIFY, values)


def read_changes(
    connection: sa.Connection, crawl_id: int, compared: int, prices: Collection[str]
) -> tuple[dict[str, Changes], int]:
    """What is new in a crawl, by field; and how many products' pages are not believed at all."""
    values = {"id": crawl_id, "prices": list(prices), "of_pages": list(policy.OF_PAGES)}
    by_field, pages = {}, 0
    for row in connection.execute(SUMS, values):
        if row.field == "":
            pages = row.products
        else:
            by_field[row.field] = Changes(
                compared,
                row.changed,
                row.vanished,
                row.held,
                row.before,
                row.after,
                row.in_order,
                row.alike,
            )
    return by_field, pages


def read_switched(
    connection: sa.Connection, crawl_id: int, switches: Collection[str]
) -> dict[str, str]:
    """The fields that vanished where a switch was turned, each with its switch: what is sold out
    has no stock, and nobody misses it."""
    if not switches:
        return {}
    rows = connection.execute(SWITCHED, {"id": crawl_id, "switches": list(switches)})
    return {
        row.field: row.switch for row in rows if row.switched >= policy.EXPLAINED * row.vanished
    }


class FieldMark(NamedTuple):
    """Why values of a field are held: those with that difference (None: all), or of them only what
    this crawl is the first to say."""

    field: str
    reason: str
    difference: str | None
    fresh: bool


def mark_fields(
    connection: sa.Connection, crawl_id: int, marks: Sequence[FieldMark], prices: Collection[str]
) -> None:
    """Holds what the marks say. A price that appears beside a held one waits with it."""
    if marks:
        rows = dumps([each_mark._asdict() for each_mark in marks])
        connection.execute(MARK, {"id": crawl_id, "rows": rows})
    if len(prices) > 1:
        connection.execute(MARK_BESIDE, {"id": crawl_id, "prices": list(prices)})


def release_values(connection: sa.Connection, crawl_id: int) -> dict[str, int]:
    """Writes what a crawl has read and nothing speaks against. Returns how many values of each
    field stay held."""
    after, counts = 0, CountsByCrawl()
    while True:
        rows = connection.execute(WAITING, {"id": crawl_id, "after": after}).all()
        ready = [_with_values(row, crawl_id) for row in rows if row.fields or row.delisted]
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
    """What is held of a crawl is released with the next `release`, whatever spoke against it."""
    values = {"id": crawl_id, "fields": None if fields is None else list(fields)}
    connection.execute(TAKE, values)


def count_held(
    connection: sa.Connection, crawl_id: int, fields: Collection[str] | None = None
) -> int:
    """How many values are held of a crawl, or of certain fields of it."""
    rows = connection.execute(COUNTS, {"id": crawl_id})
    return sum(row.held for row in rows if fields is None or row.field in fields)
