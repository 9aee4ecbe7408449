-- name: article_history
-- Returns the prices that each shop has asked for an article, in the order of time.
-- parameters: id (of the article)
-- locks: nothing
-- why: one row per change of the price, so that a chart of all shops is drawn from it. An own
--   catalogue has no versions: its price counts from its last import. What one crawl both set and
--   replaced was taken back when the crawl was rejected.
SELECT o.site, o.external_id, v.valid_from AS at, v.data ->> 'price' AS price,
       v.data ->> 'price_currency' AS currency
  FROM offers o
  JOIN sites s ON s.name = o.site
  JOIN products p ON p.site_id = s.id AND p.external_id = o.external_id
 CROSS JOIN LATERAL (
       SELECT h.data, h.valid_from FROM product_versions h
        WHERE h.product_id = p.id
          AND NOT EXISTS (SELECT FROM product_versions b
                           WHERE b.product_id = p.id AND b.version = h.version - 1
                             AND b.crawl_id = h.crawl_id)
       UNION ALL
       SELECT p.data, p.changed_at) v
 WHERE o.article_id = :id AND jsonb_typeof(v.data -> 'price') = 'number'
UNION ALL
SELECT o.site, o.external_id, o.updated_at, CAST(o.price AS text), o.currency
  FROM offers o
 WHERE o.article_id = :id AND o.listed AND o.price IS NOT NULL
   AND NOT EXISTS (SELECT FROM sites s WHERE s.name = o.site)
 ORDER BY site, external_id, at
