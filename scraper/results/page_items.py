"""Pages with several products: which of theirs they do not give any more, and which ones they share
with other pages. It runs for groups with such pages alone."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from scraper.infra.database import dumps

Pages = Sequence[tuple[int, Sequence[str]]]
_INPUT = """
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(page_id bigint, ids text[])
"""

# The rows are locked in the upsert's order. One that was absent before is so since then.
ABSENT = sa.text(f"""
WITH input AS ({_INPUT}
), absent AS MATERIALIZED (
    SELECT p.id FROM products p JOIN input i ON i.page_id = p.page_id
     WHERE p.absent_since IS NULL AND p.external_id <> ALL (i.ids)
     ORDER BY p.id FOR UPDATE OF p
)
UPDATE products p SET absent_since = now() FROM absent WHERE p.id = absent.id
""")

# A page that is not read whole can give its own products alone. So whoever gives a product that is
# another page's is read whole the next time, and that page, too: one of them may be gone by then.
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
    """Before the products are stored. `pages`: the ids of all products that are on each. What a
    page does not give any more is missed when its crawl ends, and may be another page's from now
    on."""
    connection.execute(ABSENT, _rows_of(pages))


def reread_shared(connection: sa.Connection, pages: Pages) -> None:
    """Before the products are stored, when one may have another owner than afterwards; and then."""
    connection.execute(SHARED, _rows_of(pages))


def _rows_of(pages: Pages) -> dict[str, str]:
    return {"rows": dumps([{"page_id": page_id, "ids": ids} for page_id, ids in pages])}
