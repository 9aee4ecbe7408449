"""New products wait here until their crawl is judged.

The first good crawl of a site shows what it has, and stores its products at once. A product that a
later crawl finds has no stored values to be compared with, so its crawl decides: if the crawl is
believed, the product is stored when the crawl ends. If a field is held for all products, or the
crawl is suspect, the product waits until a later crawl reads the same, or a person accepts the
crawl. So does a product in a currency that no other product has, and one on a page that was another
product's: a shop that renames all its products is probably broken.

A known product that a crawl finds on another page than its own waits here as well. It moves to that
page if the crawl ends without reaching its own: the shop has new addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.results import missed_products, products
from scraper.results.products import NewProduct, parse_data

BATCH = 1000

# Why a product is held, in words.
REASONS: Mapping[str, str] = {
    "crawl": "the crawl that reads it is not believed",
    "page": "its page was another product's",
    "currency": "no other product has its currency",
}

# A currency is odd if at least this many products exist and none of them has it.
CURRENCY_LEAST = 20

NUMBER = sa.text("""
SELECT count(*) FROM held_products h WHERE h.crawl_id = :id
   AND NOT EXISTS (SELECT FROM products p
                    WHERE p.site_id = h.site_id AND p.external_id = h.external_id)
""")

MOVE = sa.text(sql("results/move_products.sql"))

FORGET_KNOWN = sa.text(sql("results/forget_known.sql"))

# What a crawl of the whole site has no longer read is forgotten.
FORGET_EARLIER = sa.text("DELETE FROM held_products WHERE site_id = :site_id AND crawl_id < :id")

# A sample of the products is enough.
CURRENCIES = sa.text(f"""
SELECT field, array_agg(DISTINCT currency) AS currencies FROM (
    SELECT field, data ->> (field || '_currency') AS currency
      FROM (SELECT data FROM products WHERE site_id = :site_id LIMIT 20000) AS sample,
           unnest(CAST(:prices AS text[])) AS field) AS of_products
 WHERE currency IS NOT NULL GROUP BY field HAVING count(*) >= {CURRENCY_LEAST}
""")

MARK = sa.text(sql("results/mark_held_products.sql"))

# A product without a field that too few products have waits as long as known products keep their
# values.
MARK_CRAWL = sa.text("""
UPDATE held_products h SET reason = 'crawl'
 WHERE crawl_id = :id AND reason IS NULL
   AND (since_crawl_id = :id
        AND (:suspect OR EXISTS (
             SELECT FROM held_values WHERE crawl_id = :id AND reason = 'changed'))
        OR :suspect AND EXISTS (
           SELECT FROM crawls c CROSS JOIN jsonb_array_elements(c.reasons) AS r
            WHERE c.id = :id AND r ->> 'what' IN ('fill', 'late', 'vanished')
              AND NOT h.data ? (r ->> 'field')))
""")

ACCEPT = sa.text("UPDATE held_products SET reason = NULL WHERE crawl_id = :id")

WAITING = sa.text(f"""
SELECT site_id, external_id, page_id, crawl_id, url, CAST(data AS text) AS data, content_hash
  FROM held_products WHERE crawl_id = :id AND reason IS NULL
 ORDER BY site_id, external_id LIMIT {BATCH} FOR UPDATE
""")

RELEASED = sa.text("""
DELETE FROM held_products WHERE site_id = :site_id AND external_id = ANY (:external_ids)
""")

# The next crawl reads the pages of held products whole, however fresh they are.
READ_AGAIN = sa.text("""
UPDATE pages SET extractor_hash = NULL, fetched_at = NULL
 WHERE id IN (SELECT page_id FROM held_products WHERE crawl_id = :id)
""")

FORGET = sa.text("DELETE FROM held_products WHERE crawl_id = :id")


def count_held(connection: sa.Connection, crawl_id: int) -> int:
    """Counts the new products that wait for a crawl's judgement."""
    return int(connection.execute(NUMBER, {"id": crawl_id}).scalar_one())


def mark_implausible(
    connection: sa.Connection,
    crawl_id: int,
    site_id: int,
    prices: Collection[str],
    *,
    several: bool,
) -> int:
    """Marks implausible products of a crawl that has ended. Returns on how many pages another
    product was before. `prices` names the fields that are prices; `several` says that a page gives
    several products."""
    rows = connection.execute(CURRENCIES, {"site_id": site_id, "prices": list(prices)})
    currencies = dumps({row.field: row.currencies for row in rows})
    values = {"id": crawl_id, "currencies": currencies, "several": several}
    return int(connection.execute(MARK, values).scalar_one())


def move_known(connection: sa.Connection, crawl_id: int) -> None:
    """Moves known products to the pages on which a complete crawl has found them."""
    connection.execute(MOVE, {"id": crawl_id})


def release_products(
    connection: sa.Connection, crawl_id: int, site_id: int, *, suspect: bool, whole: bool
) -> None:
    """Stores the new products of a judged crawl that are believed. A `whole` crawl also forgets the
    held products that it has no longer read."""
    connection.execute(FORGET_KNOWN, {"id": crawl_id, "believed": not suspect})
    if whole:
        connection.execute(FORGET_EARLIER, {"id": crawl_id, "site_id": site_id})
    connection.execute(MARK_CRAWL, {"id": crawl_id, "suspect": suspect})
    _store_released(connection, crawl_id)
    if not suspect:
        missed_products.mark_replaced(connection, crawl_id)


def accept_products(connection: sa.Connection, crawl_id: int) -> None:
    """Stores all held products of a crawl, whatever spoke against them."""
    connection.execute(ACCEPT, {"id": crawl_id})
    _store_released(connection, crawl_id)
    missed_products.mark_replaced(connection, crawl_id)


def forget_products(connection: sa.Connection, crawl_id: int) -> None:
    """Deletes the held products of a crawl."""
    connection.execute(FORGET, {"id": crawl_id})


def _store_released(connection: sa.Connection, crawl_id: int) -> None:
    counts = CountsByCrawl()
    while rows := connection.execute(WAITING, {"id": crawl_id}).all():
        ready = [NewProduct(**row._asdict() | {"data": parse_data(row.data)}) for row in rows]
        for written in products.upsert_products(connection, ready):
            counts[crawl_id].products_new += written.inserted
        ids = {"site_id": rows[0].site_id, "external_ids": [row.external_id for row in rows]}
        connection.execute(RELEASED, ids)
    connection.execute(READ_AGAIN, {"id": crawl_id})
    add_counts(connection, counts)
