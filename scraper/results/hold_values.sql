-- name: hold_values
-- Holds values of known products that differ from the stored ones.
-- parameters: rows (JSON array)
-- locks: the held values; their products are locked before
-- why: a value that an earlier crawl has read as well keeps the earlier crawl's id and time. What a
--   product's card says counts for the value that it was compared with.
INSERT INTO held_values AS h (product_id, field, crawl_id, since_crawl_id, difference, value,
                              contradicted)
SELECT product_id, field, crawl_id, crawl_id, difference, value, contradicted
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(product_id bigint, field text, crawl_id bigint, difference text, value jsonb,
         contradicted boolean)
ON CONFLICT (product_id, field) DO UPDATE
   SET crawl_id = excluded.crawl_id, reason = NULL, difference = excluded.difference,
       value = excluded.value, contradicted = excluded.contradicted,
       confirmed = h.crawl_id = excluded.crawl_id AND h.value = excluded.value,
       card = CASE WHEN h.crawl_id = excluded.crawl_id AND h.value = excluded.value THEN h.card END,
       since_crawl_id = CASE WHEN h.value = excluded.value THEN h.since_crawl_id
                             ELSE excluded.since_crawl_id END,
       seen_at = CASE WHEN h.value = excluded.value THEN h.seen_at ELSE now() END
