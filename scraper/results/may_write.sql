-- name: may_write
-- A condition of upsert_products.sql and differing_products.sql: whether the page of input row `i`
-- may write the stored product `l`, whose own page is `owner` (joined only if it is another page).
-- why: a page that merely shares the id with a product must not overwrite it, unless the product's
--   own page has disappeared, is unusable, is no longer reached, or no longer gives the product. A
--   page with a single product, and another one so far (`given` has all that the pages give), takes
--   over only what its own page no longer gives: a shop may show one id everywhere.
--   Products of a platform's interface (`moves`) belong to the first page that gives them in a
--   crawl. If finished pages leave the frontier, the product's page is known by its URL, and
--   another page may replace it as soon as it is due again.
l.fetched_at <= now()
    AND (l.page_id = i.page_id OR l.absent_since IS NOT NULL
         OR (i.moves AND l.crawl_id < i.crawl_id)
         OR ((l.missed_crawls > 0 OR owner.status IN ('gone', 'dead', 'invalid'))
             AND ((SELECT count(*) FROM given g WHERE g.page_id = i.page_id) > 1
                  OR NOT EXISTS (SELECT FROM products o
                                  WHERE o.page_id = i.page_id AND o.delisted_at IS NULL
                                    AND o.external_id <> i.external_id)))
         OR (owner.id IS NULL AND (l.url = i.url OR l.fetched_at < (
             SELECT coalesce(c.fresh_after, c.started_at) FROM crawls c WHERE c.id = i.crawl_id))))
