-- name: good_products
-- Counts a crawl's good product pages, and the products that a platform's interface has given.
-- parameters: id (the crawl), site_id
-- locks: nothing
-- why: it counts what the crawl has counted, since product pages may have left the frontier. If a
--   filter keeps known pages out of the crawl, what its listings named counts. Products of an
--   interface's pages count one by one, whether they are stored or wait for the judgement, in
--   addition to the product pages. Pages that the interface has named only add to its products.
--   While pages are requested again, the crawl does not count them as good.
WITH listed AS MATERIALIZED (
    SELECT count(*) + (
           SELECT count(*) FROM held_products h JOIN pages pg ON pg.id = h.page_id
            WHERE h.crawl_id = :id AND pg.kind = 'listing' AND NOT EXISTS (
                  SELECT FROM products pr
                   WHERE pr.site_id = h.site_id AND pr.external_id = h.external_id)) AS products
      FROM products pr JOIN pages pg ON pg.id = pr.page_id
     WHERE pr.site_id = :site_id AND pr.crawl_id = :id AND pg.kind = 'listing'
), adding AS MATERIALIZED (
    SELECT count(*) AS pages FROM pages pg
     WHERE (SELECT products FROM listed) > 0
       AND pg.site_id = :site_id AND pg.crawl_id = :id AND pg.kind = 'product'
       AND pg.status IN ('ok', 'unchanged')
       AND EXISTS (SELECT FROM pages l WHERE l.id = pg.found_on AND l.kind = 'listing'
                      AND EXISTS (SELECT FROM products pr
                                   WHERE pr.page_id = l.id AND pr.crawl_id = :id))
), others AS MATERIALIZED (
    SELECT count(*) AS listings FROM pages
     WHERE site_id = :site_id AND crawl_id = :id AND kind <> 'product'
       AND status IN ('ok', 'unchanged')
)
SELECT greatest(0, greatest(c.ok + c.unchanged - others.listings, c.products_listed - c.gone
                                - c.dead - c.invalid) - adding.pages) AS pages, listed.products
  FROM crawls c CROSS JOIN listed CROSS JOIN adding CROSS JOIN others WHERE c.id = :id
