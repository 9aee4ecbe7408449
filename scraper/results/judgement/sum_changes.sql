-- name: sum_changes
-- Returns what a crawl changed, by field. Pages that are not their products' pages count under the
--   field ''.
-- parameters: id (the crawl), prices (names of fields), of_pages (reasons that concern a whole
--   page), one_factor (how far two factors may differ)
-- locks: nothing
-- why: PostgreSQL takes a crawl's rows for a single one while it has no statistics of them, and would
--   compute again for each row what is not materialized.
WITH fresh AS MATERIALIZED (
    SELECT CASE WHEN h.reason = ANY (:of_pages) THEN '' ELSE h.field END AS field, h.product_id,
           h.difference, h.reason, n.before, n.after, ln(n.after / n.before) AS factor
      FROM held_values h JOIN products p ON p.id = h.product_id
      LEFT JOIN LATERAL (
           SELECT CASE WHEN jsonb_typeof(p.data -> h.field) = 'number'
                       THEN CAST(p.data ->> h.field AS float8) END AS before,
                  CASE WHEN jsonb_typeof(h.value -> h.field) = 'number'
                       THEN CAST(h.value ->> h.field AS float8) END AS after
           ) n ON h.field = ANY (:prices) AND h.reason IS NULL AND n.before > 0 AND n.after > 0
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id
), merged AS MATERIALIZED (
    SELECT field, max(olds) AS merged
      FROM (SELECT h.field, count(DISTINCT p.data -> h.field) AS olds
              FROM held_values h JOIN products p ON p.id = h.product_id
             WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.difference = 'changed'
             GROUP BY h.field, h.value) AS by_value
     GROUP BY field
), usual AS MATERIALIZED (
    SELECT field, percentile_disc(0.5) WITHIN GROUP (ORDER BY factor) AS factor FROM fresh
     WHERE factor IS NOT NULL GROUP BY field
)
SELECT field, count(DISTINCT product_id) AS products,
       count(*) FILTER (WHERE difference = 'changed' AND reason IS NULL) AS changed,
       count(*) FILTER (WHERE difference = 'vanished') AS vanished,
       count(*) FILTER (WHERE reason <> 'vanished') AS held,
       coalesce(sum(before), 0) AS before, coalesce(sum(after), 0) AS after,
       corr(ln(before), ln(after)) AS in_order,
       count(*) FILTER (WHERE abs(fresh.factor - usual.factor) <= :one_factor) AS alike,
       coalesce(exp(min(usual.factor)), 1) AS factor, coalesce(min(merged), 0) AS merged
  FROM fresh LEFT JOIN usual USING (field) LEFT JOIN merged USING (field)
 GROUP BY field
