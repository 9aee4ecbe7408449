-- The newest entries of the feed, with the fields that differ from the version before. Only the
-- newest positions are searched for a site or an event, so that a quiet site costs no more.
SELECT c.id AS cursor, c.event, s.name AS site, p.external_id AS id, p.url, c.at,
       CAST(coalesce(v.data, p.data) AS text) AS data, CAST(b.data AS text) AS before
  FROM (SELECT recent.* FROM (SELECT * FROM changes ORDER BY id DESC LIMIT :searched) AS recent
         WHERE (CAST(:site AS text) IS NULL
                OR site_id = (SELECT id FROM sites WHERE name = :site))
           AND (CAST(:event AS text) IS NULL OR event = :event)
         ORDER BY id DESC LIMIT :most) AS c
  JOIN sites s ON s.id = c.site_id
  JOIN products p ON p.id = c.product_id
  LEFT JOIN product_versions v ON v.product_id = c.product_id AND v.version = c.version
  LEFT JOIN product_versions b ON b.product_id = c.product_id AND b.version = c.previous_version
 ORDER BY c.id DESC
