-- name: due_hosts
-- Returns every queue and host with a page that may be leased now, the most urgent first.
-- parameters: paused (ids of crawls whose sites are paused), passed_over (how many pages of a host
--   are read to find one of another crawl)
-- locks: nothing
-- why: a loose index scan takes one step of the due index for each queue and host, however many
--   pages they have. The page that a step comes upon is its host's most urgent page; others are
--   read only if that page is not due yet, is leased, or its crawl is paused. The leased pages go
--   through an array, whose length the planner cannot estimate: so it always builds a hash table,
--   once a statement.
WITH RECURSIVE step AS (
    (SELECT queue, host, priority, not_before, crawl_id, id FROM pages
      WHERE status = 'due' ORDER BY queue, host, priority DESC, not_before LIMIT 1)
    UNION ALL
    SELECT n.* FROM step h CROSS JOIN LATERAL (
        SELECT queue, host, priority, not_before, crawl_id, id FROM pages
         WHERE status = 'due' AND (queue, host) > (h.queue, h.host)
         ORDER BY queue, host, priority DESC, not_before LIMIT 1) n
)
SELECT h.queue, h.host, first.priority, first.not_before, c.rate_per_s, o.rate
  FROM step h
 CROSS JOIN LATERAL (
        (SELECT h.priority, h.crawl_id, h.not_before
          WHERE h.not_before <= now() AND h.crawl_id <> ALL (:paused)
            AND h.id NOT IN (SELECT unnest(ARRAY(SELECT unnest(page_ids) FROM leases))))
        UNION ALL
        (SELECT priority, crawl_id, not_before FROM (
                SELECT priority, crawl_id, not_before FROM pages
                 WHERE status = 'due' AND queue = h.queue AND host = h.host AND not_before <= now()
                   AND id NOT IN (SELECT unnest(ARRAY(SELECT unnest(page_ids) FROM leases)))
                 ORDER BY priority DESC, not_before LIMIT :passed_over) most_urgent
          WHERE crawl_id <> ALL (:paused) LIMIT 1)
        LIMIT 1) first
  JOIN crawls c ON c.id = first.crawl_id
  LEFT JOIN hosts o ON o.host = h.host
 WHERE NOT coalesce(o.paused, false)
 ORDER BY first.priority DESC, first.not_before
