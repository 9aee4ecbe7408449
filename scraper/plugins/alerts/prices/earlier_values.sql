-- name: earlier_values
-- Returns the last known values of fields that the version before a change lacks.
-- parameters: asked (JSON array of id (of the change), key, currency); currency_suffix
-- locks: nothing
-- why: a version that the same crawl wrote and replaced was reverted, and does not count.
SELECT a.id, a.key, last.value
  FROM jsonb_to_recordset(CAST(:asked AS jsonb)) AS a(id bigint, key text, currency text)
  JOIN changes c ON c.id = a.id
 CROSS JOIN LATERAL (
       SELECT CAST(v.data -> a.key AS text) AS value FROM product_versions v
        WHERE v.product_id = c.product_id AND v.version < c.version
          AND
-- include: results/not_reverted.sql
          AND jsonb_typeof(v.data -> a.key) IN ('number', 'boolean')
          AND v.data ->> (a.key || CAST(:currency_suffix AS text)) IS NOT DISTINCT FROM a.currency
        ORDER BY v.version DESC LIMIT 1) last
