-- name: open_crawl
-- Opens a crawl of a site for a slot. Returns its id, or no row if the slot or the site has one.
-- parameters: site_id, slot, trigger, status, definition, hash, rate, concurrency, revisit,
--   revisit_max, refetch, note, holds
-- locks: the new row; its unique keys make it happen once
-- why: new products wait for the crawl's judgement only if a good crawl has found products by the
--   same ids before; if the definition finds them by other ids, none of them is new.
INSERT INTO crawls (site_id, slot, trigger, status, definition, definition_hash, rate_per_s,
                    concurrency, fresh_after, stale_before, whole_before, note, finished_at,
                    holds_new)
SELECT :site_id, coalesce(CAST(:slot AS timestamptz), clock_timestamp()), :trigger, :status,
       CAST(:definition AS json), :hash, :rate, :concurrency,
       now() - CAST(:revisit AS interval), now() - CAST(:revisit_max AS interval),
       CASE WHEN :refetch THEN now()
            ELSE (SELECT max(finished_at) FROM crawls WHERE site_id = :site_id AND suspect) END,
            :note,
       CASE WHEN :status = 'skipped' THEN now() END,
       :holds AND EXISTS (
           SELECT FROM crawls WHERE site_id = :site_id AND status = 'completed' AND NOT suspect
              AND judged_at IS NOT NULL AND product_done > 0
              AND trigger NOT IN ('replay', 'reextract')
              AND CAST(definition AS jsonb) -> 'product' -> 'id'
                  IS NOT DISTINCT FROM CAST(:definition AS jsonb) -> 'product' -> 'id'
              AND CAST(definition AS jsonb) -> 'product' -> 'items'
                  IS NOT DISTINCT FROM CAST(:definition AS jsonb) -> 'product' -> 'items')
ON CONFLICT DO NOTHING RETURNING id
