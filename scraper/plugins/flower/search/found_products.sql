-- The rows are limited before they are sorted, so that a common word costs no more than a rare one.
-- The index gives them in the order of the table, by which pages follow each other.
SELECT s.name AS site, p.external_id AS id, p.url, CAST(p.data AS text) AS data, p.changed_at,
       p.delisted_at, p.place
  FROM (SELECT site_id, external_id, url, data, changed_at, delisted_at,
               row_number() OVER () AS place FROM products
         WHERE product_words(data, external_id)
               @@ (CAST(:codes AS tsquery) || to_tsquery('pg_catalog.simple', :words))
         LIMIT :most OFFSET :after) AS p
  JOIN sites s ON s.id = p.site_id
 ORDER BY p.delisted_at IS NOT NULL, s.name, p.external_id
