-- name: lowest_prices
-- Returns the lowest price of each article in the last days, of all its shops.
-- parameters: ids (of articles), days
-- locks: nothing
-- why: a version or an offer that ended before these days does not count, nor one that was
--   reverted, and a currency is never compared with another. An own catalogue has no versions: its
--   current price counts.
SELECT article_id, currency, min(price) AS lowest
  FROM (
    SELECT o.article_id, d.data ->> 'price_currency' AS currency,
           CAST(d.data ->> 'price' AS numeric) AS price
      FROM offers o
      JOIN sites s ON s.name = o.site
      JOIN products p ON p.site_id = s.id AND p.external_id = o.external_id
     CROSS JOIN LATERAL (
           SELECT p.data WHERE p.delisted_at IS NULL
                            OR p.delisted_at > now() - make_interval(days => :days)
           UNION ALL
           SELECT v.data FROM product_versions v
            WHERE v.product_id = p.id AND v.valid_to > now() - make_interval(days => :days)
              AND
-- include: results/not_reverted.sql
           ) d
     WHERE o.article_id = ANY (:ids) AND jsonb_typeof(d.data -> 'price') = 'number'
    UNION ALL
    SELECT o.article_id, o.currency, o.price
      FROM offers o
     WHERE o.article_id = ANY (:ids) AND o.listed AND o.price IS NOT NULL
       AND NOT EXISTS (SELECT FROM sites s WHERE s.name = o.site)
  ) prices
 GROUP BY article_id, currency
