-- The rows are limited before they are sorted, so that a common word costs no more than a rare one.
SELECT s.name AS site, p.external_id AS id, p.url, CAST(p.data AS text) AS data, p.changed_at,
       p.delisted_at
  FROM (SELECT site_id, external_id, url, data, changed_at, delisted_at FROM products
         WHERE product_words(data, external_id)
               @@ (CAST(:codes AS tsquery) || to_tsquery('pg_catalog.simple', :words))
         LIMIT :most) AS p
  JOIN sites s ON s.id = p.site_id
 ORDER BY p.delisted_at IS NOT NULL, s.name, p.external_id
