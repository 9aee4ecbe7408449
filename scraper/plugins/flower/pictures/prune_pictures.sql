-- Deletes the oldest pictures beyond a number, a sum of bytes, and an age in days.
DELETE FROM product_pictures d USING (
    SELECT site_id, url_hash, fetched_at,
           row_number() OVER newest AS place, sum(size) OVER newest AS bytes
      FROM product_pictures
    WINDOW newest AS (ORDER BY fetched_at DESC, site_id, url_hash
                      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) kept
 WHERE d.site_id = kept.site_id AND d.url_hash = kept.url_hash
   AND (kept.place > :most OR kept.bytes > :most_bytes
        OR kept.fetched_at < now() - make_interval(days => :days))
