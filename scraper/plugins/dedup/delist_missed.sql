-- name: delist_missed
-- Counts the products that a complete crawl missed, delists those that were missed often enough, and
-- writes these to the feed. Returns how many became delisted.
-- parameters: id (of the crawl), site_id, lives, life_s, guard_s, delisted_after (crawls)
-- locks: the rows of missed products
-- why: a listed product is fetched in this crawl, or the filter remembers its URL: then it was
--   fetched within a life before the crawl, or it is a false positive. In each life that happens
--   independently, for at most one URL in a thousand. So a product counts as missed only after two
--   lives, in which a wrong answer is one in a million. A dead or invalid page was reached.
WITH missed AS (
    UPDATE products pr
       SET missed_crawls = least(pr.missed_crawls + 1, 1000),
           delisted_at = CASE WHEN pr.missed_crawls + 1 >= :delisted_after
                              THEN coalesce(pr.delisted_at, now()) ELSE pr.delisted_at END
      FROM crawls c
     WHERE c.id = :id AND pr.site_id = :site_id
       AND pr.fetched_at < c.started_at - (:lives * :life_s + :guard_s) * interval '1 second'
       AND NOT EXISTS (SELECT FROM pages pg
                       WHERE pg.site_id = :site_id AND pg.status IN ('dead', 'invalid')
                          AND pg.crawl_id = :id AND pg.url = pr.url)
    RETURNING pr.id, pr.version, coalesce(pr.delisted_at = now(), false) AS delisted
), fed AS (
    INSERT INTO changes (site_id, product_id, crawl_id, version, event)
    SELECT :site_id, id, :id, version, 'delisted' FROM missed WHERE delisted ORDER BY id
)
SELECT count(*) FROM missed WHERE delisted
