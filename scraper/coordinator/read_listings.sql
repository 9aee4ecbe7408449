-- name: read_listings
-- Counts what a crawl's pages lack, with an example of each problem.
-- parameters: id (the crawl), site_id, not_full (how the error of a listing that is not whole
--   begins), follows (false: sitemaps are read for a number alone)
-- locks: nothing; the crawl's row is locked
-- why: it reads pages by the site's index, at most as many as the site has. Product pages may have
--   left the frontier, so the good ones are what the crawl has counted minus its good listings,
--   which stay until it has ended; or what its listings named and a filter remembers, counted
--   within a few percent. Products of an interface are good without their pages.
SELECT count(*) FILTER (WHERE unread) AS unread, min(url) FILTER (WHERE unread) AS example,
       min(error) FILTER (WHERE unread) AS error,
       count(*) FILTER (WHERE unread AND status <> 'gone') AS unusable,
       count(*) FILTER (WHERE unread AND status = 'invalid' AND last_outcome = 'not_extracted'
                          AND (last_item_count > 0 OR depth > 0)) AS emptied,
       count(*) FILTER (WHERE broken) AS broken, min(url) FILTER (WHERE broken) AS broken_example,
       min(error) FILTER (WHERE broken) AS broken_error,
       count(*) FILTER (WHERE broken AND starts_with(error, :not_full)) AS not_full,
       (array_agg(url ORDER BY fruitless DESC, CASE WHEN fruitless > 0 THEN id ELSE -id END)
         FILTER (WHERE kind = 'listing'))[1] AS barren_example,
       count(*) FILTER (WHERE doubted) AS doubtful,
       mode() WITHIN GROUP (ORDER BY error) FILTER (WHERE doubted) AS doubt,
       mode() WITHIN GROUP (ORDER BY error)
         FILTER (WHERE kind = 'product' AND status IN ('dead', 'invalid')) AS product_error,
       (SELECT CASE WHEN products_listed > 1.05 * product_total THEN ok + unchanged + 1
                    ELSE ok + unchanged END
          FROM crawls WHERE id = :id)
         > count(*) FILTER (WHERE kind <> 'product' AND status IN ('ok', 'unchanged'))
       OR bool_or(kind = 'listing' AND EXISTS (
             SELECT FROM products p WHERE p.page_id = of_crawl.id AND p.crawl_id = :id))
       AS any_product
  FROM (SELECT *, kind <> 'product' AND (kind <> 'sitemap' OR :follows)
                  AND (status IN ('dead', 'invalid')
                       OR (status = 'gone' AND (depth = 0 OR kind = 'sitemap'))) AS unread,
               kind <> 'product' AND status = 'ok' AND error IS NOT NULL AS broken,
               kind = 'product' AND status = 'invalid' AND last_outcome = 'doubtful' AS doubted
          FROM pages WHERE site_id = :site_id AND crawl_id = :id) AS of_crawl
