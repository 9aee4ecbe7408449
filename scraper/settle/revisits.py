"""What is stored of product pages for their next visit: products that a 304 has confirmed, and
pages that must be read whole. (A page's own columns are written where it is settled, and read where
its lease is claimed.)
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.settle.products import GUARD

# As the upsert does with a product that was read and is what it was: seen, no more often than its
# guard; listed again, which goes into the feed. Not a product that its page gave no more when it
# was read. The rows are locked in the upsert's order.
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


def seen(connection: sa.Connection, pages: Sequence[tuple[int, int]]) -> None:
    """The products of pages that have answered 304 count as found and read. `pages`: each's own id
    and its crawl's."""
    if pages:
        rows = [{"page_id": page_id, "crawl_id": crawl_id} for page_id, crawl_id in pages]
        connection.execute(SEEN, {"rows": dumps(rows)})
