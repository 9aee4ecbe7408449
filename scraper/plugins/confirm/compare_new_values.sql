-- name: compare_new_values
-- Returns what the changed values of fields have in common, as `plausibility.NewValues`.
-- parameters: id (the crawl), fields (their names)
-- locks: nothing
-- why: samples suffice. A word is known if a stored product of the site has it in any field; words
--   of fewer than three letters are in every language. Several values that become one are those of
--   a listing, such as an outlet that products move to, if nearly all of its products have this one,
--   and the products of any listing nearly always share their value.
WITH changed AS MATERIALIZED (
    SELECT * FROM (
        SELECT h.field, p.page_id, h.value -> h.field AS value, p.data -> h.field AS before,
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
), members AS (
    SELECT name AS field, pg.found_on, coalesce(h.value, p.data) -> name AS value, count(*) AS number
      FROM crawls c JOIN pages pg ON pg.site_id = c.site_id AND pg.crawl_id = c.id
      JOIN products p ON p.page_id = pg.id CROSS JOIN unnest(CAST(:fields AS text[])) AS name
      LEFT JOIN held_values h ON h.product_id = p.id AND h.crawl_id = c.id AND h.field = name
     WHERE c.id = :id AND pg.found_on IS NOT NULL
     GROUP BY name, pg.found_on, coalesce(h.value, p.data) -> name
), listings AS MATERIALIZED (
    SELECT DISTINCT ON (field, found_on) field, found_on, value, number AS alike,
           sum(number) OVER (PARTITION BY field, found_on) AS number
      FROM members ORDER BY field, found_on, number DESC
), merged AS (
    SELECT m.field, avg(CAST(m.value = l.value AND l.alike >= 0.9 * l.number AS int))
                    FILTER (WHERE l.number >= 3) AS listed
      FROM (SELECT *, count(*) OVER (PARTITION BY field, value) AS number FROM changed) m
      JOIN pages pg ON pg.id = m.page_id JOIN listings l USING (field, found_on)
     WHERE m.number >= 4 GROUP BY m.field
)
SELECT c.field, count(DISTINCT c.before) AS before, count(DISTINCT c.value) AS after,
       coalesce(avg(w.known), 1) AS known,
       avg(CAST((c.field, c.value) IN (SELECT field, value FROM stored) AS int)) AS swapped,
       coalesce((SELECT listed FROM merged WHERE merged.field = c.field
                    AND 0.9 <= (SELECT sum(alike) / sum(number) FROM listings
                                 WHERE listings.field = c.field)), 0) AS listed
  FROM changed c CROSS JOIN LATERAL (
       SELECT avg(CAST(lower(word) IN (SELECT word FROM words) AS int)) AS known
         FROM regexp_split_to_table(c.value #>> '{}', '[^[:alpha:]]+') AS word
        WHERE length(word) >= 3) w
 GROUP BY c.field
