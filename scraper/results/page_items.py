"""Pages with several products: which products they no longer give, and which they share with other
pages. It runs only for groups that have such pages."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from scraper.infra.database import dumps

Pages = Sequence[tuple[int, Sequence[str]]]
_INPUT = """
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(page_id bigint, ids text[])
"""

# The rows are locked in the upsert's order. A product that was absent before keeps its time.
ABSENT = sa.text(f"""
WITH input AS ({_INPUT}
), absent AS MATERIALIZED (
    SELECT p.id FROM products p JOIN input i ON i.page_id = p.page_id
     WHERE p.absent_since IS NULL AND p.external_id <> ALL (i.ids)
     ORDER BY p.id FOR UPDATE OF p
)
UPDATE products p SET absent_since = now() FROM absent WHERE p.id = absent.id
""")

# A page that is not read whole gives only its own products. So a page that gives another page's
# product is read whole the next time, and so is that other page, since one of them may disappear.
SHARED = sa.text(f"""
WITH input AS ({_INPUT}
), shared AS MATERIALIZED (
    SELECT i.page_id AS reader, p.page_id AS owner
      FROM input i JOIN pages pg ON pg.id = i.page_id CROSS JOIN LATERAL unnest(i.ids) AS u(id)
      JOIN products p ON p.site_id = pg.site_id AND p.external_id = u.id
     WHERE p.page_id <> i.page_id
), unread AS MATERIALIZED (
    SELECT id FROM pages
     WHERE id IN (SELECT reader FROM shared UNION SELECT owner FROM shared)
       AND extractor_hash IS NOT NULL
     ORDER BY id FOR UPDATE
)
UPDATE pages SET extractor_hash = NULL FROM unread WHERE pages.id = unread.id
""")


def mark_absent(connection: sa.Connection, pages: Pages) -> None:
    """Marks the products that their page no longer gives, before products are stored. They count as
    missed when the crawl ends, and another page may take them over from now on. `pages` are pairs
    of a page's id and the ids of all products on it."""
    connection.execute(ABSENT, _rows_of(pages))


def reread_shared(connection: sa.Connection, pages: Pages) -> None:
    """Requests a whole reading of pages that share products. Call it before and after the products
    are stored, since storing may change a product's page."""
    connection.execute(SHARED, _rows_of(pages))


def _rows_of(pages: Pages) -> dict[str, str]:
    return {"rows": dumps([{"page_id": page_id, "ids": ids} for page_id, ids in pages])}
