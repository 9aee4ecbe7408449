-- Products that cost less than a day ago: the newest changed ones of each shop, as many for each
-- that their sum is bounded, compared with the version of a day ago, or with their first one since.
WITH shops AS (
    SELECT s.id, s.name FROM sites s
     WHERE (SELECT max(p.changed_at) FROM products p WHERE p.site_id = s.id)
           > now() - interval '1 day'
), recent AS (
    SELECT s.name AS site, p.* FROM shops s
     CROSS JOIN LATERAL (
            SELECT id, external_id, url, data, changed_at, delisted_at FROM products
             WHERE site_id = s.id AND changed_at > now() - interval '1 day'
             ORDER BY changed_at DESC LIMIT :most / (SELECT greatest(count(*), 1) FROM shops)) AS p
), compared AS (
    SELECT r.site, r.external_id AS id, r.url, r.changed_at AS at, n.currency, n.price,
           coalesce(r.data ->> 'name', r.data ->> 'title') AS title, b.price AS before,
           round((n.price - b.price) / nullif(b.price, 0) * 100, 1) AS percent
      FROM recent r
     CROSS JOIN LATERAL product_price(r.data) AS n
     CROSS JOIN LATERAL (SELECT v.data FROM product_versions v
                          WHERE v.product_id = r.id AND v.valid_to > now() - interval '1 day'
                          ORDER BY v.version LIMIT 1) AS v
     CROSS JOIN LATERAL product_price(v.data) AS b
     WHERE r.delisted_at IS NULL AND n.price < b.price AND n.price > 0
       AND n.currency IS NOT DISTINCT FROM b.currency
)
SELECT *, count(*) OVER () AS matching,
       (SELECT max(size) FROM (SELECT count(*) AS size FROM recent GROUP BY site) AS sizes)
       >= :most / (SELECT greatest(count(*), 1) FROM shops) AS cut
  FROM compared ORDER BY percent, site, id LIMIT :shown
