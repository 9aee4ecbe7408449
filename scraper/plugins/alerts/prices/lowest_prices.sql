-- name: lowest_prices
-- Returns for each change the lowest price of the product in the days before it.
-- parameters: ids (of changes), key (the field), currency_key, days
-- locks: nothing
-- why: prices in another currency and versions that were reverted do not count.
SELECT c.id, min(CAST(v.data ->> :key AS numeric)) AS lowest
  FROM changes c JOIN product_versions v ON v.product_id = c.product_id AND v.version < c.version
 WHERE c.id = ANY (:ids) AND v.valid_to > c.at - make_interval(days => :days)
   AND jsonb_typeof(v.data -> :key) = 'number'
   AND v.data ->> :currency_key IS NOT DISTINCT FROM (
       SELECT coalesce(n.data, p.data) ->> :currency_key
         FROM products p LEFT JOIN product_versions n
           ON n.product_id = p.id AND n.version = c.version
        WHERE p.id = c.product_id)
   AND
-- include: results/not_reverted.sql
 GROUP BY c.id
