-- name: request_missed
-- Takes the pages of products that a crawl would delist into the crawl, at most `most`.
--   Returns these pages, which keep their queue.
-- parameters: crawl_id, site_id, delisted_after, doubted, moving, most (pages)
-- locks: the chosen products and their pages; the crawl's row is locked before
-- why: a product that was requested once, and whose page still gave it, has a count of misses that
--   keeps it out. The order is random, so that the sample represents the others. All missed products
--   of a chosen page are requested with it.
WITH missed AS MATERIALIZED (
    SELECT pr.id, pr.page_id FROM products pr JOIN pages pg ON pg.id = pr.page_id
     WHERE pr.site_id = :site_id AND pg.site_id = :site_id AND pr.delisted_at IS NULL
       AND pr.missed_crawls < :delisted_after AND pr.missed_crawls + CASE WHEN
       -- include: results/missed_twice.sql
       THEN 2 ELSE 1 END >= :delisted_after
       AND pr.absent_since IS NULL AND pg.crawl_id < :crawl_id AND pg.kind = 'product'
), chosen AS MATERIALIZED (
    SELECT page_id FROM missed GROUP BY page_id ORDER BY hashint8(page_id) LIMIT :most
), marked AS (
    UPDATE products pr SET asked_by = :crawl_id
      FROM missed JOIN chosen USING (page_id) WHERE pr.id = missed.id
)
UPDATE pages pg
   SET crawl_id = :crawl_id, status = 'due', attempts = 0, host_attempts = 0, losses = 0,
       level = NULL, blocked = 0, probe = false, not_before = now(), error = NULL, excerpt = NULL,
       response_head = NULL
 WHERE pg.id IN (SELECT page_id FROM chosen)
RETURNING pg.id, pg.url
