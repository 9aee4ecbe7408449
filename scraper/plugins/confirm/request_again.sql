-- name: request_again
-- Takes pages whose changes are in doubt into their crawl again. Returns these pages, with the
--   status that they had.
-- parameters: id (the crawl), fields (whose changes are in doubt), most (pages), each (pages of a
--   field, if it has as many), pages (whose single values are in doubt), listings (how many)
-- locks: the chosen pages; the crawl's row is locked before, and none of its pages is leased
-- why: the pages are taken evenly from the time of the crawl, and then some of each field that has
--   too few among them: a field that is not requested again stays in doubt. They are due after as
--   long as the crawl has taken, but at most a minute, and are requested without validators. `asked`
--   counts the values that are requested again, by field. The listings that name the most of these
--   pages are requested for their cards.
WITH doubtful AS MATERIALIZED (
    SELECT h.field, pg.id, pg.kind, pg.status, pg.settled_at
      FROM held_values h JOIN products p ON p.id = h.product_id JOIN pages pg ON pg.id = p.page_id
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.field = ANY (:fields)
       AND h.difference = 'changed' AND pg.crawl_id = :id AND pg.status IN ('ok', 'unchanged')
), placed AS (
    SELECT *, row_number() OVER (ORDER BY settled_at, id) AS place, count(*) OVER () AS pages
      FROM (SELECT DISTINCT id, kind, status, settled_at FROM doubtful) AS of_crawl
), even AS MATERIALIZED (
    SELECT id FROM placed
     WHERE place * least(:most, pages) / pages > (place - 1) * least(:most, pages) / pages
), of_fields AS (
    SELECT id, row_number() OVER (PARTITION BY field
                                      ORDER BY id NOT IN (SELECT id FROM even), settled_at, id) AS nth
      FROM doubtful
), of_products AS MATERIALIZED (
    SELECT id, kind, status FROM placed
     WHERE id IN (SELECT id FROM even UNION SELECT id FROM of_fields WHERE nth <= :each)
     UNION
    SELECT id, kind, status FROM pages
     WHERE id = ANY (:pages) AND crawl_id = :id AND status IN ('ok', 'unchanged')
), of_listings AS (
    SELECT l.id, l.kind, l.status
      FROM of_products c JOIN pages pg ON pg.id = c.id JOIN pages l ON l.id = pg.found_on
     WHERE l.crawl_id = :id AND l.kind = 'listing' AND l.status IN ('ok', 'unchanged')
     GROUP BY l.id ORDER BY count(*) DESC, l.id LIMIT :listings
), chosen AS MATERIALIZED (
    SELECT * FROM of_products UNION ALL SELECT * FROM of_listings
), counted AS (
    UPDATE crawl_quality SET asked = coalesce((
        SELECT jsonb_object_agg(field, number)
          FROM (SELECT field, count(*) AS number FROM doubtful JOIN chosen USING (id)
                 GROUP BY field) AS by_field), '{}')
     WHERE crawl_id = :id
), again AS (
    UPDATE pages pg
       SET status = 'due', attempts = 0, host_attempts = 0, losses = 0, level = NULL, blocked = 0,
           probe = false, error = NULL, excerpt = NULL, response_head = NULL, extractor_hash = NULL,
           not_before = now() + (
               SELECT least(interval '1 minute', greatest(interval '2 s', now() - started_at))
                 FROM crawls WHERE id = :id)
      FROM chosen WHERE pg.id = chosen.id
)
SELECT id, kind, status FROM chosen
