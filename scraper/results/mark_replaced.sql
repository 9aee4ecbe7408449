-- name: mark_replaced
-- Marks the products as absent that a crawl's pages gave before they gave another one. Returns their
--   pages, and what the other products contain.
-- parameters: id (the crawl)
-- locks: the products in the order of their ids
-- why: a page that gives one product has that product's content. (Pages with several products are
--   handled by `results/page_items.py`.)
WITH shared AS MATERIALIZED (
    SELECT page_id FROM products
     WHERE site_id = (SELECT site_id FROM crawls WHERE id = :id) AND absent_since IS NULL
     GROUP BY page_id HAVING count(*) > 1
), replaced AS MATERIALIZED (
    SELECT o.id FROM crawls c CROSS JOIN shared
      JOIN pages pg ON pg.id = shared.page_id AND pg.crawl_id = c.id
      JOIN products p ON p.page_id = pg.id AND p.crawl_id = c.id
                     AND p.content_hash = pg.content_hash
      JOIN products o ON o.page_id = pg.id AND o.crawl_id < c.id AND o.absent_since IS NULL
     WHERE c.id = :id AND c.definition #>> '{product,items}' IS NULL
       AND pg.kind = 'product' AND pg.last_outcome = 'fetched'
     ORDER BY o.id FOR UPDATE OF o
)
UPDATE products SET absent_since = now() FROM replaced WHERE products.id = replaced.id
RETURNING page_id, content_hash
