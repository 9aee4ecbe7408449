-- name: waiting_products
-- Returns products of a crawl that wait, a batch: what is released of each, whether it was
--   delisted, since releasing lists it again, and whether that was after the crawl's end.
-- parameters: id (the crawl), after (the last product of the batch before), batch (its size)
-- locks: the products
SELECT p.id, p.site_id, p.external_id, p.page_id, p.url, CAST(p.data AS text) AS data,
       p.delisted_at IS NOT NULL AS delisted,
       p.delisted_at > (SELECT finished_at FROM crawls WHERE id = :id) AS left_since,
       h.fields, CAST(h.given AS text) AS given
  FROM (SELECT product_id, array_agg(field) FILTER (WHERE reason IS NULL) AS fields,
               jsonb_object_agg(field, value) FILTER (WHERE reason IS NULL) AS given
          FROM held_values WHERE crawl_id = :id AND product_id > :after
         GROUP BY product_id ORDER BY product_id LIMIT :batch) h
  JOIN products p ON p.id = h.product_id
 ORDER BY p.id FOR UPDATE OF p
