-- name: sold_out
-- A query of classify_held_values.sql and switched_fields.sql: the fields by which product `p`, which
--   a value `h` vanished from, was sold out before and still is.
SELECT name FROM unnest(CAST(:stocks AS text[])) AS name
 WHERE p.data ->> name = 'false' AND NOT EXISTS (
       SELECT FROM held_values s
        WHERE s.product_id = h.product_id AND s.crawl_id = :id AND s.field = name)
