-- name: forget_known
-- Deletes the held rows of known products. In a crawl that is believed, the other products of their
--   pages become absent.
-- parameters: id (the crawl), believed
-- locks: the absent products
-- why: a page that gives one product, and now another known one, no longer gives its own. That one
--   is missed from the next crawl on; once it is delisted, the page may have the other.
WITH known AS (
    DELETE FROM held_products h USING products p
     WHERE h.crawl_id = :id AND p.site_id = h.site_id AND p.external_id = h.external_id
    RETURNING h.page_id, h.external_id
)
UPDATE products o SET absent_since = now() FROM known
 WHERE :believed AND o.page_id = known.page_id AND o.external_id <> known.external_id
   AND o.crawl_id < :id AND o.absent_since IS NULL
   AND (SELECT definition #>> '{product,items}' IS NULL FROM crawls WHERE id = :id)
