-- name: not_reverted
-- A condition on product_versions v: no version that the same crawl replaced precedes it.
-- parameters: none
-- locks: nothing
NOT EXISTS (SELECT FROM product_versions w WHERE w.product_id = v.product_id
               AND w.version = v.version - 1 AND w.crawl_id = v.crawl_id)
