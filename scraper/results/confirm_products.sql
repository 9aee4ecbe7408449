-- name: confirm_products
-- Marks products as seen whose pages have not changed, and lists delisted ones again, with a feed
--   entry.
-- parameters: rows (JSON array of page_id and crawl_id)
-- locks: the products in the order of their ids, as upsert_products.sql does
-- why: a product is written at most once an hour, as by the upsert. A product that its page no
--   longer gave when it was read (`absent_since`) is not confirmed by the page.
WITH same AS MATERIALIZED (
    SELECT p.id, i.crawl_id, p.delisted_at IS NOT NULL AS was_delisted
      FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(page_id bigint, crawl_id bigint)
      JOIN products p ON p.page_id = i.page_id
     WHERE p.absent_since IS NULL
       AND (p.fetched_at < now() - interval '1 hour'
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
