-- name: leftovers
-- Returns finished pages that an ended crawl leaves in the frontier, in the order of fingerprints.
-- parameters: id (of the crawl), site_id, life_s, after (a fingerprint), chunk (rows)
-- locks: nothing
-- why: these are listings, gone and dropped pages, which need not be remembered, and products that
--   were not deleted at once or precede the site's filter. Products that are too old for a generation
--   that begins now stay, until they are fetched again or are older than a life.
SELECT id, fingerprint, good AND fetched_at > now() - :life_s * interval '0.5 second' AS remembered
  FROM (SELECT *, kind = 'product' AND status IN ('ok', 'unchanged') AS good FROM pages
         WHERE site_id = :site_id AND crawl_id <= :id
           AND status IN ('ok', 'unchanged', 'gone', 'dropped')
           AND fingerprint > :after) AS finished
 WHERE NOT good OR fetched_at > now() - :life_s * interval '0.5 second'
       OR fetched_at <= now() - :life_s * interval '1 second'
 ORDER BY fingerprint LIMIT :chunk
