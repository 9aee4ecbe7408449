-- name: compare_new_values
-- Returns what the changed values of fields have in common, as `plausibility.NewValues`.
-- parameters: id (the crawl), fields (their names)
-- locks: nothing
-- why: samples suffice. A word is known if a stored product of the site has it in any field; words
--   of fewer than three letters are in every language.
WITH changed AS MATERIALIZED (
    SELECT * FROM (
        SELECT h.field, h.value -> h.field AS value, p.data -> h.field AS before,
               row_number() OVER (PARTITION BY h.field ORDER BY hashint8(h.product_id)) AS place
          FROM held_values h JOIN products p ON p.id = h.product_id
         WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.difference = 'changed'
           AND h.reason IS NULL AND h.field = ANY (:fields)) AS fresh
     WHERE place <= 1000
), sample AS MATERIALIZED (
    SELECT id, data FROM products
     WHERE site_id = (SELECT site_id FROM crawls WHERE id = :id) LIMIT 20000
), stored AS (
    SELECT field, sample.data -> field AS value
      FROM sample CROSS JOIN unnest(CAST(:fields AS text[])) AS field
), words AS MATERIALIZED (
    SELECT DISTINCT lower(word) AS word
      FROM (SELECT data FROM sample LIMIT 2000) AS few CROSS JOIN jsonb_each_text(few.data) AS e
     CROSS JOIN regexp_split_to_table(e.value, '[^[:alpha:]]+') AS word WHERE length(word) >= 3
)
SELECT c.field, count(DISTINCT c.before) AS before, count(DISTINCT c.value) AS after,
       coalesce(avg(w.known), 1) AS known,
       avg(CAST((c.field, c.value) IN (SELECT field, value FROM stored) AS int)) AS swapped
  FROM changed c CROSS JOIN LATERAL (
       SELECT avg(CAST(lower(word) IN (SELECT word FROM words) AS int)) AS known
         FROM regexp_split_to_table(c.value #>> '{}', '[^[:alpha:]]+') AS word
        WHERE length(word) >= 3) w
 GROUP BY c.field
