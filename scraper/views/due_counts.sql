-- name: due_counts
-- Counts the due pages of each queue that are not leased.
-- parameters: hosts (paused), crawls (ids of paused sites' crawls), site (or null), exact (up to
--   this many open pages are read)
-- locks: nothing
-- why: of more open pages the same number is read of each crawl, and counts for its others too:
--   crawls know how many they have. `pages_open_idx` gives a crawl's pages in the order of the
--   table.
WITH crawl AS (
    SELECT c.id, c.discovery_total + c.product_total - c.discovery_done - c.product_done AS open
      FROM crawls c
     WHERE c.status = 'running'
       AND (CAST(:site AS text) IS NULL
            OR c.site_id = (SELECT id FROM sites WHERE name = :site))
), sample AS (
    SELECT CASE WHEN sum(open) > :exact THEN greatest(:exact / count(*), 1) END AS pages FROM crawl
), open AS (
    SELECT p.queue, p.not_before, p.not_before <= now() AS ready,
           p.host = ANY (:hosts) OR crawl.id = ANY (:crawls) AS held,
           CASE WHEN crawl.open > sample.pages
                THEN CAST(crawl.open AS float8) / sample.pages ELSE 1 END AS pages
      FROM crawl CROSS JOIN sample
     CROSS JOIN LATERAL (
           SELECT id, queue, host, not_before FROM pages
            WHERE crawl_id = crawl.id AND status = 'due' LIMIT sample.pages) p
     WHERE p.id NOT IN (SELECT unnest(ARRAY(SELECT unnest(page_ids) FROM leases)))
)
SELECT queue, CAST(coalesce(sum(pages) FILTER (WHERE ready AND NOT held), 0) AS int) AS due,
       CAST(coalesce(sum(pages) FILTER (WHERE NOT ready AND NOT held), 0) AS int) AS later,
       CAST(coalesce(sum(pages) FILTER (WHERE held), 0) AS int) AS held,
       CAST(extract(epoch FROM now() - min(not_before) FILTER (WHERE ready AND NOT held)) AS float8)
           AS oldest_s
  FROM open GROUP BY queue
