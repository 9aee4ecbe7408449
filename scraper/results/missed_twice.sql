-- name: missed_twice
-- A condition of request_missed.sql, mark_missed.sql and lost_listings.sql: whether a crawl's miss
-- of product `pr` on page `pg` counts twice.
-- why: the doubted misses of the previous crawl (`doubted`) count with this crawl's, those whose
--   pages it requested included. So does a
--   product that its page no longer gave before this crawl began. Products of an interface
--   (`moving`) are where they were written last.
(pg.crawl_id < CAST(:doubted AS bigint) OR pr.asked_by = CAST(:doubted AS bigint)
 OR (:moving AND pg.kind = 'listing' AND pr.crawl_id < CAST(:doubted AS bigint))
 OR pr.absent_since < (SELECT started_at FROM crawls WHERE id = :crawl_id))
