-- name: lost_listings
-- Returns how many listings have lost their products, and the one that lost most of them.
-- parameters: crawl_id, site_id, doubted, moving, lost_min
-- locks: nothing; it reads what mark_missed.sql has just written
-- why: a listing has lost its products if at least `lost_min` of them, and as many as it names now,
--   are in no listing any longer. Products that leave a shop day by day were on different listings.
--   A product is missed for the first time if its count is what this crawl has added; its page was
--   not reached by the crawl, or was requested because of that.
SELECT l.url, l.last_item_count, count(*) AS missed, count(*) OVER () AS lost
  FROM products pr JOIN pages pg ON pg.id = pr.page_id JOIN pages l ON l.id = pg.found_on
 WHERE pr.site_id = :site_id AND pg.site_id = :site_id AND pr.missed_crawls BETWEEN 1 AND 2
   AND pr.missed_crawls = CASE WHEN
   -- include: results/missed_twice.sql
   THEN 2 ELSE 1 END
   AND (pg.crawl_id < :crawl_id OR pr.asked_by = :crawl_id) AND l.crawl_id = :crawl_id
   AND l.kind = 'listing' AND l.status IN ('ok', 'unchanged')
 GROUP BY l.id HAVING count(*) >= greatest(:lost_min, l.last_item_count)
 ORDER BY missed DESC, l.url LIMIT 1
