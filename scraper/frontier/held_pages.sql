-- name: held_pages
-- Counts the open pages of each host and priority in leases that are not expired.
-- parameters: alive_s (a worker that has not extended its leases for longer counts as silent)
-- locks: nothing
-- why: all pages of a batch have the same level. Settled pages are zeros in `page_ids`.
SELECT u.host, l.priority, count(*) AS pages
  FROM leases l CROSS JOIN LATERAL unnest(l.page_ids, l.hosts) AS u(page_id, host)
 WHERE u.page_id <> 0 AND (l.started_at IS NULL OR l.until > now() + :alive_s * interval '1 second')
 GROUP BY u.host, l.priority
