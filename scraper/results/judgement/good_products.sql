-- name: good_products
-- Counts a crawl's good product pages, and the products that a platform's interface has given.
-- parameters: id (the crawl), site_id
-- locks: nothing
-- why: it counts what the crawl has counted, since product pages may have left the frontier. If a
--   filter keeps known pages out of the crawl, what its listings named counts. Products of an
--   interface's pages count one by one, in addition to the product pages.
WITH listed AS MATERIALIZED (
    SELECT count(*) AS products FROM products pr JOIN pages pg ON pg.id = pr.page_id
     WHERE pr.site_id = :site_id AND pr.crawl_id = :id AND pg.kind = 'listing'
), others AS MATERIALIZED (
    SELECT count(*) AS listings FROM pages
     WHERE site_id = :site_id AND crawl_id = :id AND kind <> 'product'
       AND status IN ('ok', 'unchanged')
)
SELECT greatest(c.ok + c.unchanged - others.listings, c.products_listed - c.gone - c.dead
                - c.invalid) AS pages, listed.products
  FROM crawls c CROSS JOIN listed CROSS JOIN others WHERE c.id = :id
