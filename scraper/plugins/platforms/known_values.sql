-- name: known_values
-- Returns what is stored of products that an interface gives, with their held values of some fields.
-- parameters: rows (JSON array: the key of each product), fields (names)
-- locks: nothing
-- why: a product that waits for its crawl's judgement is not among the products.
SELECT i.external_id,
       CAST(coalesce(w.data, '{}') || coalesce(p.data, '{}') || coalesce(h.data, '{}') AS text)
         AS data
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(site_id int, external_id text)
  LEFT JOIN products p ON p.site_id = i.site_id AND p.external_id = i.external_id
  LEFT JOIN held_products w ON w.site_id = i.site_id AND w.external_id = i.external_id
  LEFT JOIN LATERAL (
       SELECT jsonb_object_agg(e.key, e.value) AS data
         FROM held_values v CROSS JOIN jsonb_each(v.value) AS e
        WHERE v.product_id = p.id AND v.field = ANY (:fields)) AS h ON true
 WHERE p.id IS NOT NULL OR w.external_id IS NOT NULL
