-- name: holdups
-- Returns why crawls do not move: what they suspect, the newest failed page, and their open pages.
-- parameters: ids (of the crawls), unclaimed_s, unwatched_s (seconds), sample (how many open pages
--   of a crawl are examined at most)
-- locks: nothing
-- why: a queue has no worker (`unserved`) if a lease waits, or pages have been due for unclaimed_s
--   seconds, and no worker holds one of the queue's leases: an idle worker claims at once. The age
--   of a waiting lease says nothing: it is taken back after a while and leased again, and leasing
--   stops once too many messages are unread.
SELECT c.id, c.rate_per_s,
       concat_ws(': ', c.reasons -> 0 ->> 'field', c.reasons -> 0 ->> 'text') AS suspicion,
       jsonb_array_length(c.reasons) AS suspicions, failure.host AS failed_host, failure.outcome,
       failure.error, open.pages, open.later, CAST(open.next_s AS float8) AS next_s, open.host,
       open.queue, coalesce(h.paused, false) AS host_paused, h.rate AS host_rate,
       NOT coalesce(at_work.served, false)
         AND (at_work.since IS NOT NULL OR open.next_s < -:unclaimed_s) AS unserved,
       at_work.served AND at_work.since < now() - make_interval(secs => :unclaimed_s) AS crowded,
       c.watched_at < now() - make_interval(secs => :unwatched_s)
         AND NOT EXISTS (SELECT FROM hosts WHERE paused) AS unwatched
  FROM crawls c
  LEFT JOIN LATERAL (
       SELECT host, last_outcome AS outcome, error FROM pages
        WHERE crawl_id = c.id AND error IS NOT NULL AND status <> 'gone'
        ORDER BY settled_at DESC LIMIT 1) failure ON true
 CROSS JOIN LATERAL (
       SELECT count(*) AS pages, count(*) FILTER (WHERE not_before > now()) AS later,
              extract(epoch FROM min(not_before) - now()) AS next_s,
              mode() WITHIN GROUP (ORDER BY host) AS host,
              mode() WITHIN GROUP (ORDER BY queue) AS queue
         FROM (SELECT not_before, host, queue FROM pages
                WHERE crawl_id = c.id AND status = 'due' LIMIT :sample) some_pages) open
  LEFT JOIN (
       SELECT queue, min(created_at) FILTER (WHERE started_at IS NULL) AS since,
              bool_or(started_at IS NOT NULL) AS served
         FROM leases GROUP BY queue) at_work ON at_work.queue = open.queue
  LEFT JOIN hosts h ON h.host = open.host
 WHERE c.id = ANY (:ids)
