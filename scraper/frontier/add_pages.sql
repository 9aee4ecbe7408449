-- name: add_pages
-- Adds pages to their crawls while there is room. Returns a row for each page that joined its
--   crawl, and counts of those that did not (`cut`: no room, `barren`: behind too many barren
--   listings).
-- parameters: rows (JSON array of `NewPage`), room (JSON array of `Room`), again (whether dead and
--   invalid pages join again, even the crawl that gave them up)
-- locks: the pages in the order of site and fingerprint, so that two writers insert the same links
--   in the same sequence
-- why: pages that a crawl knows are sorted out first and without a lock, since two listings that
--   link to each other would lock each other's rows. A product whose last good answer is younger
--   than the crawl's revisit age counts as reached and is not requested again; if that age is the
--   page's own, it counts between the definition's bounds as of the crawl's start. `OFFSET 0` keeps
--   the planner from evaluating freshness for each column. The column `fruitless` holds a listing's
--   barren depth; 32767 is `CUT_OFF`.
WITH input AS (
    SELECT DISTINCT ON (site_id, fingerprint) *
      FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS i(site_id int, crawl_id bigint, fingerprint uuid, url text, kind text, host text,
             queue text, priority int, depth int, found_on bigint, barren_depth int)
     ORDER BY site_id, fingerprint, barren_depth
), unknown AS (
    SELECT i.*, row_number() OVER (PARTITION BY i.crawl_id, i.kind = 'product'
                                   ORDER BY i.fingerprint) AS place
      FROM input i
      LEFT JOIN pages p ON p.site_id = i.site_id AND p.fingerprint = i.fingerprint
     WHERE p.id IS NULL OR p.crawl_id < i.crawl_id OR (:again AND p.status IN ('dead', 'invalid'))
), room AS (
    SELECT * FROM jsonb_to_recordset(CAST(:room AS jsonb))
      AS r(crawl_id bigint, listings int, products int, barren_depth_max int)
), fruitful AS (
    SELECT found_on FROM unknown WHERE kind = 'product'
), placed AS (
    SELECT u.*, u.place <= CASE WHEN u.kind = 'product' THEN r.products ELSE r.listings END AS fits,
           CASE WHEN u.barren_depth < 32767 AND u.found_on IN (SELECT found_on FROM fruitful)
                THEN 0 ELSE u.barren_depth END AS barren_depth_now, r.barren_depth_max
      FROM unknown u JOIN room r ON r.crawl_id = u.crawl_id
), added AS (
    INSERT INTO pages AS p (site_id, crawl_id, fingerprint, url, kind, host, queue, priority,
                            depth, found_on, fruitless, status)
    SELECT site_id, crawl_id, fingerprint, url, kind, host, queue, priority, depth,
           nullif(found_on, 0), barren_depth_now, 'due'
      FROM placed WHERE fits AND (kind = 'product' OR barren_depth_now <= barren_depth_max)
     ORDER BY site_id, fingerprint
    ON CONFLICT (site_id, fingerprint) DO UPDATE
       SET crawl_id = excluded.crawl_id, url = excluded.url, kind = excluded.kind,
           host = excluded.host, queue = excluded.queue, priority = excluded.priority,
           depth = excluded.depth,
           found_on = excluded.found_on, fruitless = excluded.fruitless, lists = NULL,
           attempts = 0, host_attempts = 0, losses = 0, level = NULL, blocked = 0, probe = false,
           not_before = now(),
           extractor_hash = CASE WHEN p.url = excluded.url THEN p.extractor_hash END,
           error = NULL, excerpt = NULL, response_head = NULL,
           (status, last_outcome) = (
               SELECT CASE WHEN fresh THEN 'unchanged' ELSE 'due' END,
                      CASE WHEN fresh THEN 'fresh' ELSE p.last_outcome END
                 FROM (SELECT (excluded.kind = 'product'
                               AND p.status NOT IN ('gone', 'dead', 'invalid')
                               AND (SELECT p.fetched_at > c.fresh_after
                                           OR (p.fetched_at > c.stale_before
                                               AND p.fetched_at > c.created_at
                                                                - p.revisit_s * interval '1 second')
                                      FROM crawls c WHERE c.id = excluded.crawl_id)) AS fresh OFFSET 0) once)
     WHERE p.crawl_id < excluded.crawl_id OR (:again AND p.status IN ('dead', 'invalid'))
    RETURNING site_id, fingerprint, crawl_id, kind, status
)
SELECT crawl_id, kind, status, 1 AS pages FROM added
UNION ALL SELECT crawl_id, kind, CASE WHEN fits THEN 'barren' ELSE 'cut' END, count(*)
  FROM placed WHERE NOT fits OR (kind <> 'product' AND barren_depth_now > barren_depth_max)
 GROUP BY crawl_id, kind, fits
