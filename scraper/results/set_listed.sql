-- name: set_listed
-- Lists or delists products, with a feed entry.
-- parameters: id (the crawl), ids (of products), listed
-- locks: the products, in the order of their ids
WITH input AS (
    SELECT p.id FROM products p WHERE p.id = ANY (:ids) ORDER BY p.id FOR UPDATE
), written AS (
    UPDATE products p
       SET missed_crawls = 0, delisted_at = CASE WHEN :listed THEN NULL ELSE now() END,
           absent_since = CASE WHEN NOT :listed THEN absent_since END
      FROM input WHERE p.id = input.id RETURNING p.id, p.site_id, p.version
)
INSERT INTO changes (site_id, product_id, crawl_id, version, event)
SELECT site_id, id, :id, version, CASE WHEN :listed THEN 'relisted' ELSE 'delisted' END
  FROM written ORDER BY id
