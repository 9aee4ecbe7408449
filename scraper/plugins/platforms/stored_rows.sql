-- name: stored_rows
-- Returns the products that the interface has given in the crawl of these pages, at their addresses.
-- parameters: ids (of the product pages)
-- locks: the products in the order of their ids, as upsert_products.sql does
SELECT pg.id AS page, pg.crawl_id, p.id AS product_id, CAST(p.data AS text) AS data
  FROM pages pg JOIN products p ON p.page_id = pg.found_on
 WHERE pg.id = ANY (:ids) AND p.url = pg.url AND p.crawl_id = pg.crawl_id AND p.delisted_at IS NULL
 ORDER BY p.id FOR UPDATE OF p
