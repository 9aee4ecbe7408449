-- name: claimed_pages
-- Returns the pages of a lease that are still due, with what is known of each (`ClaimedRow`).
-- parameters: id (the lease)
-- locks: nothing; the lease is claimed by then
-- why: a 304 (or the same bytes) confirms a stored product, so a page that owns no product is
--   read whole: another page may have had the id first, and may not exist now. So is a page that
--   was last read before the crawl's `whole_before`: in a suspect crawl, or before `--refetch`.
--   Subqueries, one with LIMIT, since the planner may answer a join or EXISTS by hashing a whole
--   table.
SELECT p.id, p.crawl_id, p.url, p.kind, p.host, p.attempts, p.host_attempts, p.depth, p.priority,
       p.level, p.blocked, p.probe, p.last_item_count, p.doubted_hash,
       coalesce(p.last_outcome IN ('fetched', 'not_modified', 'fresh'), false) AS good_before,
       p.etag, p.last_modified, p.body_hash, p.content_hash, p.extractor_hash,
       CASE WHEN p.extractor_hash IS NOT NULL
            THEN CAST(extract(epoch FROM now() - p.read_at) AS float8) END AS read_s,
       CASE WHEN p.extractor_hash IS NOT NULL
             AND p.read_at > coalesce((SELECT whole_before FROM crawls WHERE id = p.crawl_id),
                                      '-infinity')
            THEN ARRAY(SELECT external_id FROM products WHERE page_id = p.id LIMIT 2) END AS owned,
       (SELECT asking FROM crawls WHERE id = p.crawl_id) AS again
  FROM pages p
 WHERE p.id = ANY (ARRAY(SELECT unnest(page_ids) FROM leases WHERE id = :id))
   AND CASE p.status WHEN 'due' THEN true ELSE false END
 ORDER BY p.priority DESC, p.id
