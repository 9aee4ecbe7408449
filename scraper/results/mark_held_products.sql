-- name: mark_held_products
-- Marks held products that are not believed. Returns how many are on another product's page.
-- parameters: id (the crawl), several (whether pages give several products each), currencies (JSON
--   object: those of the site, by field)
-- locks: the held products
-- why: if pages give several products each, another product on the page is normal. A page of a
--   platform's interface always does.
WITH marked AS (
    UPDATE held_products h
       SET reason = CASE
           WHEN NOT :several AND EXISTS (
                SELECT FROM products o JOIN pages pg ON pg.id = o.page_id
                 WHERE o.page_id = h.page_id AND o.delisted_at IS NULL
                   AND o.external_id <> h.external_id AND pg.kind <> 'listing') THEN 'page'
           WHEN EXISTS (
                SELECT FROM jsonb_each(CAST(:currencies AS jsonb)) AS c(field, currencies)
                 WHERE NOT c.currencies ? (h.data ->> (c.field || '_currency'))) THEN 'currency'
           END
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id RETURNING reason
)
SELECT count(*) FILTER (WHERE reason = 'page') FROM marked
