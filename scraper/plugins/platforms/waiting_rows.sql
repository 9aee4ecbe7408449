-- name: waiting_rows
-- Returns the new products that wait for the judgement of the crawl of these pages, at their
--   addresses.
-- parameters: ids (of the product pages)
-- locks: the held products in the order of their keys
SELECT pg.id AS page, h.site_id, h.external_id, CAST(h.data AS text) AS data
  FROM pages pg
  JOIN held_products h ON h.site_id = pg.site_id AND h.page_id = pg.found_on
                      AND h.crawl_id = pg.crawl_id AND h.url = pg.url
 WHERE pg.id = ANY (:ids)
 ORDER BY h.site_id, h.external_id FOR UPDATE OF h
