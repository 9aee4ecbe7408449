-- name: forget_readings
-- Forgets when pages were last read, so that a crawl requests them whole, however fresh they are.
-- parameters: site_id, crawl_id, fingerprints
-- locks: the pages in the order of their fingerprints, as add_pages.sql does
-- why: a page that was read for all of its fields, or for others, answers 304 and says nothing.
WITH known AS MATERIALIZED (
    SELECT id FROM pages
     WHERE site_id = :site_id AND fingerprint = ANY (CAST(:fingerprints AS uuid[]))
       AND crawl_id < :crawl_id AND fetched_at IS NOT NULL
     ORDER BY fingerprint FOR UPDATE
)
UPDATE pages pg SET extractor_hash = NULL, fetched_at = NULL FROM known WHERE pg.id = known.id
