-- name: move_products
-- Moves known products to the pages on which a complete crawl has found them.
-- parameters: id (the crawl)
-- locks: the products
-- why: a product moves if the crawl has not reached its own page, and no other product is at the new
--   one. The next crawl reads that page whole and compares their values.
WITH found AS MATERIALIZED (
    SELECT p.id, h.page_id, h.url FROM held_products h
      JOIN products p ON p.site_id = h.site_id AND p.external_id = h.external_id
      JOIN pages owner ON owner.id = p.page_id
     WHERE h.crawl_id = :id AND owner.crawl_id < :id
       AND NOT EXISTS (SELECT FROM products o
                        WHERE o.page_id = h.page_id AND o.id <> p.id AND o.delisted_at IS NULL)
     ORDER BY p.id FOR UPDATE OF p
), moved AS (
    UPDATE products p SET page_id = found.page_id, url = found.url, crawl_id = :id,
           missed_crawls = 0
      FROM found WHERE p.id = found.id
)
UPDATE pages SET extractor_hash = NULL, fetched_at = NULL FROM found WHERE pages.id = found.page_id
