"""What a judgement reads from a crawl's pages and products, and stores of its fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.results.fill_rates import ADD_EXAMPLES
from scraper.results.judgement.earlier_crawls import EARLIER
from scraper.results.judgement.plausibility import GONE_LEAST, DoubtfulPages

# How many examples of each broken field are kept.
EXAMPLES = 3
# The values of this many products are compared with each other.
SAMPLED = 20_000

GOOD = sa.text(sql("results/judgement/good_products.sql"))

# Product pages that were not believed, and those that were good in the previous crawl and now lack
# required fields.
DOUBTFUL = sa.text(f"""
SELECT count(*) AS pages, count(product_id) AS of_known, mode() WITHIN GROUP (ORDER BY why) AS why,
       (array_agg(url ORDER BY url))[1] AS example
  FROM (SELECT pg.url, pg.error AS why, (SELECT min(pr.id) FROM products pr
                                          WHERE pr.page_id = pg.id) AS product_id
          FROM pages pg WHERE pg.site_id = :site_id AND pg.crawl_id = :id
           AND pg.kind = 'product' AND pg.status = 'invalid'
           AND (pg.last_outcome = 'doubtful' OR pg.fetched_at >= (
                SELECT started_at FROM crawls c
                 WHERE {EARLIER} AND c.status IN ('completed', 'failed')
                 ORDER BY c.id DESC LIMIT 1))) AS of_crawl
""")


# Hashes are counted, since texts of any length would have to be sorted. Values that wait count as
# they were read.
def _distinct_of(sample: str) -> sa.TextClause:
    return sa.text(f"""
SELECT key AS field, count(*) AS sampled,
       count(DISTINCT hashtextextended(CAST(value AS text), 0)) AS distinct_values
  FROM ({sample} LIMIT {SAMPLED}) AS sample
  LEFT JOIN LATERAL (
       SELECT jsonb_object_agg(e.key, e.value) AS data
         FROM held_values h CROSS JOIN jsonb_each(h.value) AS e
        WHERE h.product_id = sample.id AND h.crawl_id = :id) AS waiting ON true,
       jsonb_each(sample.data || coalesce(waiting.data, '{{}}'))
 WHERE jsonb_typeof(value) <> 'null' GROUP BY key
""")


# What the crawl has read counts, not what was fresh.
DISTINCT = _distinct_of("""
        SELECT pr.id, pr.data FROM pages pg JOIN products pr ON pr.page_id = pg.id
         WHERE pg.site_id = :site_id AND pg.crawl_id = :id AND pg.status IN ('ok', 'unchanged')
           AND pg.last_outcome = 'fetched'""")

# If pages have left the frontier, what the crawl has written counts: nearly all that it has read.
DISTINCT_WRITTEN = _distinct_of(
    "SELECT id, data FROM products WHERE site_id = :site_id AND crawl_id = :id"
)

ADD_FIELDS = sa.text("""
INSERT INTO crawl_fields (crawl_id, field, records, found, mistyped, vanished, distinct_values,
                          sampled, compared, changed, held, votes, usual_fill,
                          usual_mistyped, usual_distinct, line, breach)
SELECT :id, i.* FROM jsonb_to_recordset(CAST(:rows AS jsonb))
  AS i(field text, records int, found int, mistyped int, vanished int, "distinct" int,
       sampled int, compared int, changed int, held int, votes jsonb, usual_fill float8,
       usual_mistyped float8, usual_distinct float8, line float8, breach text)
""")

COUNTED = sa.text("""
UPDATE crawl_quality SET products = :products, usual_products = :usual WHERE crawl_id = :id
""")

# The previous crawl counts even if it was suspect: what stays the same is usual.
STRAYED = sa.text(f"""
SELECT strayed, coalesce((
    SELECT q.strayed FROM crawls c JOIN crawl_quality q ON q.crawl_id = c.id
     WHERE {EARLIER} AND c.status = 'completed' ORDER BY c.id DESC LIMIT 1), 0) AS usual
  FROM crawl_quality WHERE crawl_id = :id
""")

PRUNE_EXAMPLES = sa.text(f"""
DELETE FROM crawl_examples WHERE ctid = ANY (ARRAY(
    SELECT place FROM (
        SELECT ctid AS place, field,
               row_number() OVER (PARTITION BY field ORDER BY seen_at DESC, url) AS number
          FROM crawl_examples WHERE crawl_id = :id) AS numbered
     WHERE field <> ALL (:fields) OR number > {EXAMPLES}))
""")

NOWHERE = sa.text("""
SELECT field FROM crawl_examples WHERE crawl_id = :id AND known IS NOT NULL
 GROUP BY field HAVING count(*) >= :least AND bool_and(nowhere)
""")

# Examples of fields whose values are held, and of fields without an example from the worker, which
# a Python function left out. A price is followed by its currency.
HELD_EXAMPLES = sa.text(f"""
SELECT name AS field, pr.url, h.difference,
       left(concat_ws(' ', h.value ->> name, h.value ->> (name || '_currency')), 200) AS value,
       nullif(left(concat_ws(' ', pr.data ->> name, pr.data ->> (name || '_currency')), 200), '')
         AS known
  FROM unnest(CAST(:fields AS text[])) AS name
 CROSS JOIN LATERAL (SELECT * FROM held_values WHERE crawl_id = :id AND field = name
                     ORDER BY reason IS NULL, difference = 'vanished', product_id
                     LIMIT {EXAMPLES}) AS h
  JOIN products pr ON pr.id = h.product_id
 WHERE name = ANY (:held) AND h.difference <> 'vanished'
    OR NOT EXISTS (SELECT FROM crawl_examples WHERE crawl_id = :id AND field = name)
""")


def count_good(connection: sa.Connection, crawl_id: int, site_id: int) -> tuple[int, int]:
    """Counts a crawl's good product pages and the products of an interface, and only these."""
    pages, listed = connection.execute(GOOD, {"id": crawl_id, "site_id": site_id}).one()
    return pages + listed, listed


def read_doubtful_pages(connection: sa.Connection, crawl_id: int, site_id: int) -> DoubtfulPages:
    """Reads which product pages of a crawl were not believed."""
    row = connection.execute(DOUBTFUL, {"id": crawl_id, "site_id": site_id}).one()
    return DoubtfulPages(row.pages, row.of_known, row.why or "", row.example or "")


def count_distinct(
    connection: sa.Connection, crawl_id: int, site_id: int, *, written: bool
) -> dict[str, tuple[int, int]]:
    """Counts the distinct values of each field, and the products of the sample that have it.
    `written` counts what the crawl has written instead of what it has read."""
    statement = DISTINCT_WRITTEN if written else DISTINCT
    rows = connection.execute(statement, {"id": crawl_id, "site_id": site_id})
    return {row.field: (row.distinct_values, row.sampled) for row in rows}


def count_strayed(connection: sa.Connection, crawl_id: int, site_id: int) -> tuple[int, int]:
    """Counts the pages that gave another product than their own, in this crawl and usually."""
    row = connection.execute(STRAYED, {"id": crawl_id, "site_id": site_id}).one()
    return row.strayed, row.usual


def read_absent_fields(connection: sa.Connection, crawl_id: int) -> list[str]:
    """Returns the fields whose known values are nowhere on the pages of their examples."""
    values = {"id": crawl_id, "least": GONE_LEAST}
    return list(connection.execute(NOWHERE, values).scalars())


def store_number(
    connection: sa.Connection, crawl_id: int, products: int | None, usual: float | None
) -> None:
    """Stores the number of good products, and the usual one."""
    connection.execute(COUNTED, {"id": crawl_id, "products": products, "usual": usual})


def keep_examples(
    connection: sa.Connection, crawl_id: int, fields: Sequence[str], held: Collection[str]
) -> None:
    """Keeps a few examples of these fields, and no others. The held values are the examples of the
    fields in `held`."""
    values = {"id": crawl_id, "fields": list(fields), "held": list(held)}
    rows = [
        {
            "crawl_id": crawl_id,
            "field": row.field,
            "url": row.url,
            "problem": "it came without"
            if row.difference == "vanished"
            else f"it came as {row.value}",
            "excerpt": "",
            "known": row.known,
            "nowhere": False,
        }
        for row in connection.execute(HELD_EXAMPLES, values)
    ]
    if rows:
        connection.execute(ADD_EXAMPLES, {"rows": dumps(rows)})
    connection.execute(PRUNE_EXAMPLES, values)


def store_fields(
    connection: sa.Connection, crawl_id: int, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Stores the judged figures of a crawl's fields."""
    connection.execute(ADD_FIELDS, {"id": crawl_id, "rows": dumps(rows)})
