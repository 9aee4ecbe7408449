"""Databases of any number of pages, inserted in bulk: the frontier of `benchmarks/frontiers.py`, and
what a month of daily crawls has left.

The last few sites have the same number of pages in every database. What is asked of one site is
asked of them, so that it differs by the other sites' pages alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import sqlalchemy as sa

from benchmarks import frontiers
from benchmarks.__main__ import say
from benchmarks.growth import plain
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.settings import Settings

SITES = 200
# sites that have SMALL_PAGES each, however many the others have; the last of them are read whole
SMALL = 15
SMALL_PAGES = 250
# crawls before the present one, of each site
DAYS = 30
# Crawls before are numbered below.
PRESENT = 1_000_000

# In the order of their dependence. Each product is new in the feed, a third of them have changed
# once; 1,000 archived pages are a segment.
HISTORY = {
    "crawls": f"""
INSERT INTO crawls (id, site_id, slot, trigger, status, definition, definition_hash, rate_per_s, concurrency,
                    created_at, started_at, progressed_at, finished_at, judged_at, discovery_total,
                    discovery_done, product_total, product_done, ok, unchanged, gone, dead, fetches,
                    products_changed, products_repriced)
OVERRIDING SYSTEM VALUE
SELECT row_number() OVER (ORDER BY day DESC, c.site_id), c.site_id, at, 'schedule', 'completed', c.definition,
       c.definition_hash, c.rate_per_s, c.concurrency, at, at, at + interval '1 hour', at + interval '1 hour',
       at + interval '1 hour', c.discovery_total, c.discovery_total, c.product_total, c.product_total,
       c.product_total / 50, c.product_total - c.product_total / 50, 0, 0, c.product_total, c.product_total / 50,
       c.product_total / 60
  FROM crawls c CROSS JOIN generate_series(2, {DAYS + 1}) day
 CROSS JOIN LATERAL (SELECT now() - day * interval '1 day' AS at) day_of
 WHERE c.status = 'completed'""",
    "judged": "UPDATE crawls SET judged_at = finished_at WHERE status = 'completed' AND judged_at IS NULL",
    "crawl_quality": """
INSERT INTO crawl_quality (crawl_id, records, found, products)
SELECT id, product_total, jsonb_build_object('name', product_total, 'price', product_total, 'stock', product_total / 2),
       product_total
  FROM crawls WHERE status = 'completed'""",
    "crawl_fields": """
INSERT INTO crawl_fields (crawl_id, field, records, found, mistyped, vanished, held, distinct_values, sampled,
                          usual_fill, usual_mistyped, usual_distinct, line)
SELECT id, field, product_total, product_total, 0, 0, 0, 90, 100, 1, 0, 0.9, 0.8
  FROM crawls CROSS JOIN unnest(ARRAY['name', 'price', 'brand', 'stock', 'category']) field
 WHERE status = 'completed'""",
    "crawl_hosts": """
INSERT INTO crawl_hosts (crawl_id, host, worker, tries, failures, seconds, slowest_s, bytes)
SELECT c.id, s.name || '-' || half || '.example', CASE c.status WHEN 'running' THEN 'worker-1' ELSE '' END,
       product_total / 2, product_total / 200, product_total, 12, product_total * CAST(7000 AS bigint)
  FROM crawls c JOIN sites s ON s.id = c.site_id CROSS JOIN generate_series(0, 1) half""",
    "throughput": """
INSERT INTO throughput (crawl_id, at, step_s, worker, queue, proxy, outcome, tries, done, seconds, bytes)
SELECT c.id, date_bin(make_interval(secs => step), now(), 'epoch') - n * make_interval(secs => step)
             - (now() - c.created_at), step, 'worker-1', 'datacenter', '', 'fetched', 90, 90, 18, 630000
  FROM crawls c CROSS JOIN LATERAL (SELECT CASE c.status WHEN 'running' THEN 10 ELSE 600 END AS step) is_running
 CROSS JOIN LATERAL generate_series(0, CASE c.status WHEN 'running' THEN 180 ELSE 6 END) n""",
    "product_versions": """
INSERT INTO product_versions (product_id, version, data, content_hash, valid_from, valid_to, crawl_id)
SELECT id, 0, data || '{"price": 9.5}', content_hash, first_seen_at, first_seen_at + interval '10 days', crawl_id
  FROM products WHERE id % 3 = 0""",
    "changes": f"""
INSERT INTO changes (product_id, crawl_id, at, site_id, version, previous_version, event)
SELECT p.id, p.crawl_id, now() - ({DAYS} - share) * interval '1 day', p.site_id, nth,
       CASE WHEN changed THEN 0 END, CASE WHEN changed THEN 'changed' ELSE 'new' END
  FROM products p CROSS JOIN LATERAL generate_series(CASE WHEN p.id % 3 = 0 THEN 0 ELSE 1 END, 1) nth
 CROSS JOIN LATERAL (SELECT p.id % 3 = 0 AND nth = 1 AS changed,
                            (p.id * 7919 + nth * 104729) % 100003 / 100003.0 * {DAYS} AS share) spread
 ORDER BY share""",
    "archived_pages": """
INSERT INTO archived_pages (segment_id, start, size, body_bytes, site_id, page_id, crawl_id, kind, url, http_status,
                            fetched_at)
SELECT 1 + id / 1000, id % 1000 * 5000, 5000, 7000, site_id, id, crawl_id, kind, url, 200,
       now() - id % 25 * interval '1 day'
  FROM pages WHERE kind = 'product'""",
    "archive_segments": """
INSERT INTO archive_segments (id, place, key, codec, pages, bytes, stored_at)
OVERRIDING SYSTEM VALUE
SELECT segment_id, '/archive', segment_id || '.warc.gz', 'gzip', count(*), sum(size), now()
  FROM archived_pages GROUP BY segment_id""",
}


def sizes_of(pages: int) -> list[int]:
    """The pages of each site."""
    large = SITES - SMALL
    return [(pages - SMALL * SMALL_PAGES) // large] * large + [SMALL_PAGES] * SMALL


def fill(config: Settings, pages: int, name: str) -> None:
    """Makes a database of this name, unless it is there."""
    with psycopg.connect(plain(config.postgres_url), autocommit=True) as connection:
        query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)"
        if connection.execute(query, [name]).fetchone() == (True,):
            return
        connection.execute("DROP DATABASE IF EXISTS filling WITH (FORCE)")
        connection.execute("CREATE DATABASE filling")
        engine = make_engine(config.postgres_url.replace("/scraper?", "/filling?"), pool_size=1)
        try:
            migrations.upgrade(engine)
            for step in _fill_tables(engine, pages):
                say(f"{pages:,} pages: inserted {step}")
        finally:
            engine.dispose()
        connection.execute(f"ALTER DATABASE filling RENAME TO {name}")


def _fill_tables(engine: sa.Engine, pages: int) -> Iterator[str]:
    with engine.begin() as connection:
        connection.execute(
            sa.text("SELECT setval(pg_get_serial_sequence('crawls', 'id'), :id)"), {"id": PRESENT}
        )
    for site in frontiers.fill(engine, sizes_of(pages)):
        if site % 20 == 0:
            yield f"{site} of {SITES} sites"
    for table, statement in HISTORY.items():
        with engine.begin() as connection:
            connection.execute(sa.text("SET LOCAL session_replication_role = replica"))
            connection.execute(sa.text(statement))
        yield table
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM (ANALYZE)"))
        connection.execute(sa.text("CHECKPOINT"))
