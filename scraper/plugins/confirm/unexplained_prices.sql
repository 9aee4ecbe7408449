-- name: unexplained_prices
-- Returns the changes of prices that nothing explains, by field, as `plausibility.Changes`.
-- parameters: id (the crawl), prices, groups (names of fields), one_factor, small (how far a price
--   may change, as the logarithm of a factor), least and most (products of a group)
-- locks: nothing
-- why: someone at the shop decided on a small change, unless it is the loss of the decimals; on a
--   price whose crossed-out price is the stored price, or that was crossed out before; and on the
--   prices of a brand, a category, a listing or a price band that change as a whole in one
--   direction. If such groups are most of the shop, they explain nothing. Nothing here is joined by
--   product: PostgreSQL takes a crawl's rows for a single one while it has no statistics of them,
--   and would read all of them for each row.
WITH fresh AS MATERIALIZED (
    SELECT h.field, h.product_id, n.before, n.after, ln(n.after / n.before) AS factor,
           (abs(ln(n.after / n.before)) <= :small AND n.after <> trunc(n.before))
           OR EXISTS (
              SELECT FROM unnest(CAST(:prices AS text[])) AS other(field)
                LEFT JOIN held_values o ON o.product_id = h.product_id AND o.crawl_id = :id
                                       AND o.field = other.field
               WHERE other.field <> h.field
                 AND (n.after < n.before
                      AND coalesce(o.value -> other.field, p.data -> other.field)
                          = p.data -> h.field
                      OR p.data -> other.field = h.value -> h.field)) AS explained
      FROM held_values h JOIN products p ON p.id = h.product_id
     CROSS JOIN LATERAL (
           SELECT CASE WHEN jsonb_typeof(p.data -> h.field) = 'number'
                       THEN CAST(p.data ->> h.field AS float8) END AS before,
                  CASE WHEN jsonb_typeof(h.value -> h.field) = 'number'
                       THEN CAST(h.value ->> h.field AS float8) END AS after) n
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.difference = 'changed'
       AND h.reason IS NULL AND h.field = ANY (:prices) AND n.before > 0 AND n.after > 0
), members AS MATERIALIZED (
    SELECT p.id, k.attribute, k.value, p.data
      FROM crawls c JOIN pages pg ON pg.site_id = c.site_id AND pg.crawl_id = c.id
       AND pg.status IN ('ok', 'unchanged')
      JOIN products p ON p.page_id = pg.id
     CROSS JOIN LATERAL (
           SELECT '' AS attribute, to_jsonb(pg.found_on) AS value
           UNION ALL SELECT name, p.data -> name FROM unnest(CAST(:groups AS text[])) AS name
           UNION ALL
           SELECT name, to_jsonb(floor(2 * ln(CASE WHEN jsonb_typeof(p.data -> name) = 'number'
                                              THEN nullif(abs(CAST(p.data ->> name AS float8)), 0)
                                              END)))
             FROM unnest(CAST(:prices AS text[])) AS name) k
     WHERE c.id = :id AND k.value IS NOT NULL AND k.value <> 'null'
), marked AS (
    SELECT id, field, attribute, value, max(factor) OVER (PARTITION BY id, field) AS factor
      FROM (SELECT m.id, of_prices.field, m.attribute, m.value, CAST(NULL AS float8) AS factor
              FROM members m
              JOIN (SELECT DISTINCT field FROM fresh) of_prices ON m.data ? of_prices.field
             UNION ALL SELECT product_id, field, NULL, NULL, factor FROM fresh) AS both_kinds
), counted AS (
    SELECT id, field, count(*) OVER same AS of_group, count(factor) OVER same AS changed,
           sum(sign(factor)) OVER same AS direction
      FROM marked WHERE attribute IS NOT NULL
    WINDOW same AS (PARTITION BY field, attribute, value)
), grouped AS MATERIALIZED (
    SELECT DISTINCT field, id FROM counted
     WHERE of_group BETWEEN :least AND :most AND changed >= 0.9 * of_group
       AND abs(direction) >= 0.8 * changed
), judged AS (
    SELECT f.*, NOT f.explained AND (f.field, f.product_id) IN (SELECT field, id FROM grouped)
           AS in_group
      FROM fresh f
), rest AS MATERIALIZED (
    SELECT * FROM (SELECT *, count(*) FILTER (WHERE in_group) OVER (PARTITION BY field) AS of_groups
                     FROM judged) AS sized
     WHERE NOT explained AND NOT (in_group AND of_groups <= :most)
), usual AS MATERIALIZED (
    SELECT field, percentile_disc(0.5) WITHIN GROUP (ORDER BY factor) AS factor FROM rest
     GROUP BY field
)
SELECT field, count(*) AS changed, 0 AS vanished, 0 AS held, sum(before) AS before,
       sum(after) AS after, corr(ln(before), ln(after)) AS in_order,
       count(*) FILTER (WHERE abs(rest.factor - usual.factor) <= :one_factor) AS alike,
       exp(min(usual.factor)) AS factor
  FROM rest JOIN usual USING (field) GROUP BY field
