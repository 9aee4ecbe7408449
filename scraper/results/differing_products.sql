-- name: differing_products
-- Returns the known products whose content differs from what a page gives, or that have held
--   values.
-- parameters: rows (JSON array: the key, page, crawl, URL and content hash of each product, and its
--   `ordinal` in the group)
-- locks: the products in the order of their ids, as upsert_products.sql does
-- why: what is compared is what the upsert finds afterwards. If two pages of a group share a
--   product, the product's own page comes first.
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS i(ordinal int, site_id int, external_id text, page_id bigint, crawl_id bigint, url text,
             content_hash uuid, moves boolean)
)
SELECT i.ordinal, l.id, l.delisted_at IS NOT NULL AS delisted, l.content_hash,
       CASE WHEN l.content_hash <> i.content_hash THEN CAST(l.data AS text) END AS data,
       EXISTS (SELECT FROM held_values h WHERE h.product_id = l.id) AS holding
  FROM given i
  JOIN products l ON l.site_id = i.site_id AND l.external_id = i.external_id
  LEFT JOIN pages owner ON owner.id = CASE WHEN l.page_id <> i.page_id THEN l.page_id END
 WHERE (l.content_hash <> i.content_hash
        OR EXISTS (SELECT FROM held_values h WHERE h.product_id = l.id))
   AND (
   -- include: results/may_write.sql
   )
 ORDER BY l.id, l.page_id <> i.page_id, i.page_id FOR UPDATE OF l
