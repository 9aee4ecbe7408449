-- name: first_at
-- Returns the first position of the feed that was changed at a time or later, or null.
-- parameters: at
-- locks: nothing
-- why: no index has the times, and they follow the positions as closely as transactions are short:
--   none that writes changes lasts an hour. So the positions are halved until those before are an
--   hour older, and read from there.
WITH RECURSIVE step AS (
    SELECT min(id) - 1 AS low, max(id) AS high FROM changes
    UNION ALL
    SELECT CASE WHEN older THEN middle ELSE low END, CASE WHEN older THEN high ELSE middle END
      FROM step CROSS JOIN LATERAL (SELECT (low + high) / 2 AS middle) m
     CROSS JOIN LATERAL (
           SELECT at < CAST(:at AS timestamptz) - interval '1 hour' AS older FROM changes
            WHERE id >= middle ORDER BY id LIMIT 1) c
     WHERE high - low > 1000
)
SELECT min(id) FROM changes WHERE id > (SELECT max(low) FROM step) AND at >= :at
