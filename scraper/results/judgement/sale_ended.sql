-- name: sale_ended
-- A condition of classify_held_values.sql and switched_fields.sql: whether the value `h`, which
--   vanished from product `p`, is a former price that the product has again (or more), or that goes
--   with the price that it was shown with.
-- why: a sale ends by showing the former price as the price, or another price alone, which it waits
--   with. CASE keeps PostgreSQL from casting texts.
h.difference = 'vanished' AND h.field = ANY (:prices) AND EXISTS (
    SELECT FROM unnest(CAST(:prices AS text[])) AS other(field)
      LEFT JOIN held_values o ON o.product_id = h.product_id AND o.crawl_id = :id
                             AND o.field = other.field
     CROSS JOIN LATERAL (
           SELECT CASE WHEN o.field IS NULL THEN p.data ELSE o.value END AS data) n
     WHERE other.field <> h.field
       AND (o.difference = 'changed' OR CASE WHEN jsonb_typeof(n.data -> other.field) = 'number'
                 AND jsonb_typeof(p.data -> h.field) = 'number'
                THEN CAST(n.data ->> other.field AS numeric)
                     >= 0.97 * CAST(p.data ->> h.field AS numeric) END))
