"""Products and their versions: the upsert, what a 304 confirms, and the readers behind export and
history.

One row a product. It is written when the content differs or the stored row is older than `GUARD`;
never over something that was fetched later; and never by a page that merely shares the id with the
page the product is read from, unless that one is gone, unusable or no longer reached, or does not
give the product any more. Where
finished pages leave the frontier, the page is known by its URL, and another one may take its place
once it is due again. A product of a platform's interface moves from page to page: in each crawl it
belongs to the first one that gives it, and is written once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import value
from scraper.infra.database import dumps

# An unchanged product is not rewritten more often than this.
GUARD = "1 hour"

# Which page may write a stored product, and how its owner is looked up: only where it is another
# page than the one that was read.
MAY_WRITE = """l.fetched_at <= now()
            AND (l.page_id = i.page_id OR l.missed_crawls > 0 OR l.absent_since IS NOT NULL
                 OR (i.moves AND l.crawl_id < i.crawl_id)
                 OR owner.status IN ('gone', 'dead', 'invalid')
                 OR (owner.id IS NULL AND (l.url = i.url OR l.fetched_at < (
                     SELECT coalesce(c.fresh_after, c.started_at) FROM crawls c
                      WHERE c.id = i.crawl_id))))"""
OWNER = "owner.id = CASE WHEN l.page_id <> i.page_id THEN l.page_id END"

# `locked` takes the known rows first, in the order of their ids, so that the content that becomes a
# version is the content that is replaced. A row that appears between the two (same id, another
# page) fails the last WHERE. What becomes new, another one or listed again goes into the feed with
# the same statement (`scraper.feed.store`). What nobody knows yet waits, where its crawl is one
# that holds it (`held_products`), and so does a product that is given by another page than its own
# while the crawl has not reached that.
UPSERT = sa.text(f"""
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS i(site_id int, external_id text, page_id bigint, crawl_id bigint, url text, data jsonb,
             content_hash uuid, moves boolean)
), input AS MATERIALIZED (
    SELECT DISTINCT ON (site_id, external_id) * FROM given ORDER BY site_id, external_id, page_id
), locked AS MATERIALIZED (
    SELECT p.id, p.site_id, p.external_id, p.page_id, p.version, p.data, p.content_hash,
           p.changed_at, p.fetched_at,
           p.missed_crawls, p.delisted_at, p.absent_since, p.url, p.crawl_id
      FROM products p JOIN input i ON i.site_id = p.site_id AND i.external_id = p.external_id
     ORDER BY p.id FOR UPDATE OF p
), compared AS MATERIALIZED (
    SELECT i.*, l.id, l.version, l.data AS old_data, l.content_hash AS old_hash, l.changed_at,
           l.id IS NULL AND i.crawl_id = ANY (:holding) AS waits,
           l.id IS NULL OR ({MAY_WRITE}) AS may_write,
           l.content_hash <> i.content_hash OR l.fetched_at < now() - interval '{GUARD}'
           OR l.page_id <> i.page_id OR (i.moves AND l.crawl_id < i.crawl_id)
           OR l.delisted_at IS NOT NULL OR l.absent_since IS NOT NULL AS differs,
           l.page_id <> i.page_id AND owner.crawl_id < i.crawl_id AS elsewhere
      FROM input i
      LEFT JOIN locked l ON l.site_id = i.site_id AND l.external_id = i.external_id
      LEFT JOIN pages owner ON {OWNER}
), waiting AS (
    INSERT INTO held_products AS h (site_id, external_id, page_id, crawl_id, since_crawl_id, url,
                                    data, content_hash)
    SELECT site_id, external_id, page_id, crawl_id, crawl_id, url, data, content_hash
      FROM compared WHERE waits OR (NOT may_write AND elsewhere)
     ORDER BY site_id, external_id
    ON CONFLICT (site_id, external_id) DO UPDATE
       SET page_id = excluded.page_id, crawl_id = excluded.crawl_id, url = excluded.url,
           data = excluded.data, content_hash = excluded.content_hash, reason = NULL,
           since_crawl_id = CASE WHEN h.content_hash = excluded.content_hash THEN h.since_crawl_id
                                 ELSE excluded.since_crawl_id END,
           seen_at = CASE WHEN h.content_hash = excluded.content_hash THEN h.seen_at
                          ELSE now() END
     WHERE h.crawl_id < excluded.crawl_id OR h.page_id = excluded.page_id
), writable AS MATERIALIZED (
    SELECT * FROM compared WHERE may_write AND NOT waits AND (id IS NULL OR differs)
), versions AS (
    INSERT INTO product_versions (product_id, version, data, content_hash, valid_from, valid_to,
                                  crawl_id)
    SELECT id, version, old_data, old_hash, changed_at, now(), crawl_id
      FROM writable WHERE id IS NOT NULL AND old_hash <> content_hash
), written AS (
    INSERT INTO products AS p (site_id, external_id, page_id, crawl_id, url, data, content_hash)
    SELECT site_id, external_id, page_id, crawl_id, url, data, content_hash FROM writable
     ORDER BY site_id, external_id
    ON CONFLICT (site_id, external_id) DO UPDATE
       SET page_id = excluded.page_id, crawl_id = excluded.crawl_id, url = excluded.url,
           data = excluded.data,
           content_hash = excluded.content_hash, fetched_at = now(), missed_crawls = 0,
           delisted_at = NULL, absent_since = NULL,
           version = p.version + CAST(p.content_hash <> excluded.content_hash AS int),
           changed_at = CASE WHEN p.content_hash <> excluded.content_hash THEN now()
                             ELSE p.changed_at END
     WHERE p.page_id = excluded.page_id OR EXISTS (SELECT FROM locked l WHERE l.id = p.id)
    RETURNING p.id, p.site_id, p.crawl_id, p.version, p.data, (p.xmax = 0) AS inserted,
              (p.changed_at = now() AND p.version > 1) AS changed,
              p.id = ANY (ARRAY(SELECT id FROM locked WHERE delisted_at IS NOT NULL)) AS relisted
), fed AS (
    INSERT INTO changes (site_id, product_id, crawl_id, version, previous_version, event)
    SELECT site_id, id, crawl_id, version, CASE WHEN changed THEN version - 1 END,
           CASE WHEN inserted THEN 'new' WHEN relisted THEN 'relisted' ELSE 'changed' END
      FROM written WHERE inserted OR changed OR relisted
)
SELECT w.crawl_id, w.inserted, w.changed, false AS strayed,
       w.changed AND EXISTS (
           SELECT FROM jsonb_each(o.old_data) f
            WHERE jsonb_typeof(f.value) = 'number' AND o.old_data ? (f.key || '_currency')
              AND jsonb_typeof(w.data -> f.key) = 'number' AND w.data -> f.key <> f.value
              AND w.data -> (f.key || '_currency') = o.old_data -> (f.key || '_currency')
       ) AS repriced
  FROM written w LEFT JOIN writable o ON o.id = w.id
UNION ALL
SELECT g.crawl_id, false, false, true, false
  FROM given g JOIN locked l ON l.site_id = g.site_id AND l.external_id = g.external_id
 WHERE l.page_id <> g.page_id AND l.delisted_at IS NULL AND NOT coalesce(g.moves, false)
   AND EXISTS (SELECT FROM products o WHERE o.page_id = g.page_id AND o.delisted_at IS NULL
                  AND o.external_id <> g.external_id)
""")

# It does what the upsert does with a product that was read and is what it was: seen, no more often
# than its guard; listed again, which goes into the feed. Not a product that its page gave no more
# when it was read. The rows are locked in the upsert's order.
SEEN = sa.text(f"""
WITH same AS MATERIALIZED (
    SELECT p.id, i.crawl_id, p.delisted_at IS NOT NULL AS was_delisted
      FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(page_id bigint, crawl_id bigint)
      JOIN products p ON p.page_id = i.page_id
     WHERE p.absent_since IS NULL
       AND (p.fetched_at < now() - interval '{GUARD}'
            OR (p.delisted_at IS NOT NULL AND p.fetched_at <= now()))
     ORDER BY p.id FOR UPDATE OF p
), seen AS (
    UPDATE products p SET fetched_at = now(), crawl_id = same.crawl_id, missed_crawls = 0,
           delisted_at = NULL
      FROM same WHERE p.id = same.id
    RETURNING p.id, p.site_id, p.crawl_id, p.version, same.was_delisted
)
INSERT INTO changes (site_id, product_id, crawl_id, version, event)
SELECT site_id, id, crawl_id, version, 'relisted' FROM seen WHERE was_delisted ORDER BY id
""")

EXPORT = sa.text("""
SELECT p.external_id, p.url, p.first_seen_at, p.changed_at, p.fetched_at, p.delisted_at, p.version,
       CAST(p.data AS text) AS data
  FROM products p JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site AND (:delisted OR p.delisted_at IS NULL)
 ORDER BY p.external_id COLLATE "C"
""")

EXPORT_SINCE = sa.text(
    str(EXPORT).replace(
        "(:delisted OR p.delisted_at IS NULL)",
        "p.id IN (SELECT c.product_id FROM changes c WHERE c.site_id = s.id AND c.id > :since)",
    )
)

HISTORY = sa.text("""
SELECT version, valid_from, valid_to, CAST(data AS text) AS data FROM product_history
 WHERE site = :site AND external_id = :external_id ORDER BY version
""")


@value
class NewProduct:
    """A product as a page gave it; `data` is JSON-able, `content_hash` that of `data`. `moves`:
    its page is one of an interface, where it is on another one any day."""

    site_id: int
    external_id: str
    page_id: int
    crawl_id: int
    url: str
    data: Any
    content_hash: UUID
    moves: bool = False


@dataclass(frozen=True, slots=True)
class WrittenProduct:
    """`strayed`: nothing was, since the page is another product's, and this one has its own.
    `repriced`: of those changed, a price is another one in the same currency."""

    crawl_id: int
    inserted: bool
    changed: bool
    strayed: bool
    repriced: bool


def parse_data(text: str) -> dict[str, Any]:
    """A product's data as it was stored, every digit."""
    data: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return data


def upsert_products(
    connection: sa.Connection, products: Sequence[NewProduct], holding: Collection[int] = ()
) -> list[WrittenProduct]:
    """Stores products in one statement. Returns a row for each product that was written or strayed,
    none for the others. `holding`: the crawls whose new products wait."""
    if not products:
        return []
    values = {"rows": dumps(products), "holding": list(holding)}
    return [WrittenProduct(*row) for row in connection.execute(UPSERT, values).all()]


def confirm_products(connection: sa.Connection, pages: Sequence[tuple[int, int]]) -> None:
    """The products of pages that have answered 304 count as found and read. `pages`: each's own id
    and its crawl's."""
    if pages:
        rows = [{"page_id": page_id, "crawl_id": crawl_id} for page_id, crawl_id in pages]
        connection.execute(SEEN, {"rows": dumps(rows)})


def export_products(
    connection: sa.Connection, site: str, *, delisted: bool, since: int | None = None
) -> Iterator[sa.Row[Any]]:
    """Streams a site's products in the order of their ids, with a server-side cursor; `data` is
    JSON text. `since`: those with a change after that position, the delisted ones too."""
    streaming = connection.execution_options(stream_results=True, max_row_buffer=1000)
    if since is None:
        yield from streaming.execute(EXPORT, {"site": site, "delisted": delisted})
    else:
        yield from streaming.execute(EXPORT_SINCE, {"site": site, "since": since})


def read_history(connection: sa.Connection, site: str, external_id: str) -> list[sa.Row[Any]]:
    """Every content a product has had, oldest first; the last has `valid_to` None unless it is
    delisted."""
    return list(connection.execute(HISTORY, {"site": site, "external_id": external_id}))
