-- name: lowest_prices
-- Returns the lowest price of each article in the last days, of all its shops.
-- parameters: ids (of articles), days
-- locks: nothing
-- why: a version of a product that ended before these days does not count, and a currency is never
--   compared with another.
SELECT o.article_id, v.data ->> 'price_currency' AS currency,
       min(CAST(v.data ->> 'price' AS numeric)) AS lowest
  FROM offers o
  JOIN sites s ON s.name = o.site
  JOIN products p ON p.site_id = s.id AND p.external_id = o.external_id
 CROSS JOIN LATERAL (
       SELECT p.data
       UNION ALL
       SELECT h.data FROM product_versions h
        WHERE h.product_id = p.id AND h.valid_to > now() - make_interval(days => :days)) v
 WHERE o.article_id = ANY (:ids) AND jsonb_typeof(v.data -> 'price') = 'number'
 GROUP BY o.article_id, v.data ->> 'price_currency'
