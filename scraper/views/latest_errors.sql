-- name: latest_errors
-- Returns the latest failures by site, host and outcome, each with its newest page.
-- parameters: site (or null), newest (how many failures of a crawl are read at most), limit
-- locks: nothing
-- why: the failures of a day are those of the crawls that run, or have ended within it, so
--   `pages_error_idx` finds them whatever else is due.
WITH crawl AS (
    SELECT c.id, s.name FROM crawls c JOIN sites s ON s.id = c.site_id
     WHERE (c.status IN ('planned', 'running') OR c.finished_at > now() - interval '1 day')
       AND (CAST(:site AS text) IS NULL OR s.name = :site)
)
SELECT crawl.name AS site, p.host, p.last_outcome AS outcome, p.status <> 'due' AS final,
       count(*) AS pages,
       CAST(extract(epoch FROM now() - max(p.settled_at)) AS float8) AS ago_s,
       (array_agg(p.url ORDER BY p.settled_at DESC))[1] AS url,
       (array_agg(p.error ORDER BY p.settled_at DESC))[1] AS error
  FROM crawl CROSS JOIN LATERAL (
        SELECT host, last_outcome, status, settled_at, url, error FROM pages
         WHERE crawl_id = crawl.id AND error IS NOT NULL AND status <> 'gone'
           AND settled_at > now() - interval '1 day'
         ORDER BY settled_at DESC LIMIT :newest) p
 WHERE p.status IN ('due', 'dead', 'invalid')
 GROUP BY crawl.name, p.host, p.last_outcome, final ORDER BY ago_s LIMIT :limit
