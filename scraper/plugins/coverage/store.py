"""The statements of the plug-in's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.plugin import Coverage

# A page that is read again replaces what it said before.
ADD_CLAIMS = sa.text("""
INSERT INTO coverage_claims (crawl_id, page_id, site_id, kind, list_url, claimed, named)
SELECT crawl_id, page_id, site_id, kind, list_url, claimed, named
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS r(crawl_id bigint, page_id bigint, site_id int, kind text, list_url text, claimed int,
         named int)
    ON CONFLICT (crawl_id, page_id) DO UPDATE
   SET kind = excluded.kind, list_url = excluded.list_url, claimed = excluded.claimed,
       named = excluded.named
""")

# Another page of the same crawl may name the URL too.
ADD_ENTRIES = sa.text("""
INSERT INTO sitemap_entries AS e (site_id, fingerprint, lastmod, crawl_id)
SELECT :site_id, fingerprint, max(lastmod), :crawl_id
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(fingerprint uuid, lastmod timestamptz)
 GROUP BY fingerprint ORDER BY fingerprint
    ON CONFLICT (site_id, fingerprint) DO UPDATE
   SET lastmod = coalesce(excluded.lastmod, e.lastmod),
       earlier = CASE WHEN excluded.lastmod > e.lastmod THEN e.lastmod ELSE e.earlier END,
       moved_crawl = CASE WHEN excluded.lastmod > e.lastmod THEN excluded.crawl_id
                          ELSE e.moved_crawl END,
       crawl_id = excluded.crawl_id
""")

LISTS = sa.text("""
SELECT kind, list_url, max(claimed) AS claimed, sum(named) AS named
  FROM coverage_claims WHERE crawl_id = :id GROUP BY kind, list_url
""")
DROP_CLAIMS = sa.text("DELETE FROM coverage_claims WHERE crawl_id = :id")
DROP_REPEATED = sa.text("DELETE FROM crawl_repeated_pages WHERE crawl_id = :id")

# A page repeats another one if none of its products is its own, or waits to become its own.
ADD_REPEATED = sa.text("""
WITH repeated AS (
    SELECT r.page_id, r.crawl_id, r.site_id
      FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(page_id bigint, crawl_id bigint, site_id int, external_id text)
      LEFT JOIN held_products h
        ON h.site_id = r.site_id AND h.external_id = r.external_id AND h.page_id = r.page_id
     GROUP BY r.page_id, r.crawl_id, r.site_id
    HAVING count(h.page_id) = 0 AND NOT EXISTS (SELECT FROM products p WHERE p.page_id = r.page_id)
)
INSERT INTO crawl_repeated_pages AS c (crawl_id, site_id, pages)
SELECT crawl_id, site_id, count(*) FROM repeated GROUP BY crawl_id, site_id ORDER BY crawl_id
    ON CONFLICT (crawl_id) DO UPDATE SET pages = c.pages + excluded.pages
""")

# Products of an interface have no page of their own. New ones wait until their crawl is judged.
READ_PRODUCTS = sa.text("""
SELECT count(*)
  FROM (SELECT p.external_id FROM products p JOIN crawls c ON c.id = :id
         WHERE p.site_id = c.site_id AND p.fetched_at >= c.started_at
         UNION SELECT external_id FROM held_products WHERE crawl_id = :id) AS read
""")

# Good pages that give no product of their own: the product has another address. A held product of
# another page of the crawl is that page's. `addresses` of products may be in several sitemaps.
DOUBLES = sa.text("""
SELECT count(*) AS pages, count(e.fingerprint) AS in_sitemap,
       (SELECT count(*) FROM sitemap_entries
         WHERE site_id = (SELECT site_id FROM crawls WHERE id = :id) AND crawl_id = :id)
         AS addresses
  FROM pages g
  LEFT JOIN sitemap_entries e
    ON e.site_id = g.site_id AND e.fingerprint = g.fingerprint AND e.crawl_id = g.crawl_id
 WHERE g.site_id = (SELECT site_id FROM crawls WHERE id = :id) AND g.crawl_id = :id
   AND g.kind = 'product' AND g.status IN ('ok', 'unchanged')
   AND NOT EXISTS (SELECT FROM products p WHERE p.page_id = g.id)
   AND NOT EXISTS (
       SELECT FROM held_products h
         LEFT JOIN products p ON p.site_id = h.site_id AND p.external_id = h.external_id
         LEFT JOIN pages o ON o.id = p.page_id AND o.crawl_id = :id
          AND o.status IN ('ok', 'unchanged')
        WHERE h.site_id = g.site_id AND h.page_id = g.id AND o.id IS NULL)
""")

ADD_COVERAGE = sa.text("""
INSERT INTO crawl_coverage (crawl_id, site_id, products, expected, evidence)
VALUES (:id, :site_id, :products, :expected, :evidence)
    ON CONFLICT (crawl_id) DO UPDATE
   SET products = excluded.products, expected = excluded.expected, evidence = excluded.evidence
""")

# Changes wait for the judgement; a page whose content is not the earlier one's is `ok`.
MEASURE_LASTMOD = sa.text("""
UPDATE crawl_coverage cc SET (moved, moved_changed, changed) = (
SELECT count(*) FILTER (WHERE e.moved_crawl = :id),
       count(*) FILTER (WHERE e.moved_crawl = :id AND pg.status = 'ok'),
       count(*) FILTER (WHERE pg.status = 'ok')
  FROM sitemap_entries e JOIN crawls c ON c.id = :id
  JOIN pages pg ON pg.site_id = e.site_id AND pg.fingerprint = e.fingerprint
   AND pg.crawl_id = :id AND pg.status IN ('ok', 'unchanged')
   AND pg.last_outcome IN ('fetched', 'not_modified')
 WHERE e.site_id = :site_id AND e.crawl_id = :id AND e.lastmod IS NOT NULL
   AND EXISTS (SELECT FROM products pr
                WHERE pr.page_id = pg.id AND pr.first_seen_at < c.started_at))
 WHERE cc.crawl_id = :id
""")

USUAL = sa.text("""
SELECT CAST(cc.products AS float8) / cc.expected AS share
  FROM crawl_coverage cc JOIN crawls c ON c.id = cc.crawl_id
 WHERE cc.site_id = :site_id AND cc.crawl_id < :id AND NOT c.suspect AND cc.expected > 0
   AND c.status = 'completed' ORDER BY cc.crawl_id DESC LIMIT 5
""")

COVERAGE = sa.text("""
SELECT crawl_id, products, expected, evidence FROM crawl_coverage WHERE crawl_id = ANY (:ids)
""")

TABLES = (
    "coverage_claims",
    "crawl_coverage",
    "sitemap_entries",
    "product_addresses",
    "crawl_repeated_pages",
)


class ListCount(NamedTuple):
    """What the pages of one list say: how many products it has, and how many they name."""

    kind: str
    url: str
    claimed: int | None
    named: int


def add_claims(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    connection.execute(ADD_CLAIMS, {"rows": dumps(rows)})


def add_entries(
    connection: sa.Connection, site_id: int, crawl_id: int, rows: Sequence[dict[str, Any]]
) -> None:
    values = {"site_id": site_id, "crawl_id": crawl_id, "rows": dumps(rows)}
    connection.execute(ADD_ENTRIES, values)


def take_claims(connection: sa.Connection, crawl_id: int) -> list[ListCount]:
    """Returns what the pages of a crawl said, and deletes it."""
    lists = [ListCount(*row) for row in connection.execute(LISTS, {"id": crawl_id})]
    connection.execute(DROP_CLAIMS, {"id": crawl_id})
    connection.execute(DROP_REPEATED, {"id": crawl_id})
    return lists


def usual_share(connection: sa.Connection, site_id: int, crawl_id: int) -> float | None:
    """Returns the median share that the last trusted crawls found; None without any."""
    values = {"site_id": site_id, "id": crawl_id}
    shares = sorted(connection.execute(USUAL, values).scalars())
    return shares[len(shares) // 2] if shares else None


def count_rows(connection: sa.Connection, site_id: int) -> int:
    """Counts the rows of a site in all tables."""
    return sum(
        int(
            connection.execute(
                sa.text(f"SELECT count(*) FROM {table} WHERE site_id = :site_id"),
                {"site_id": site_id},
            ).scalar_one()
        )
        for table in TABLES
    )


def read_coverage(connection: sa.Connection, crawl_ids: Sequence[int]) -> Mapping[int, Coverage]:
    """Fills `scraper.plugin.CoverageReader`."""
    rows = connection.execute(COVERAGE, {"ids": list(crawl_ids)})
    return {row.crawl_id: Coverage(row.products, row.expected, row.evidence) for row in rows}
