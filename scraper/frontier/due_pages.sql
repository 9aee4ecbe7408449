-- name: due_pages
-- Returns the due pages of a queue's hosts, up to each host's allowance, the most urgent first.
-- parameters: queue, hosts (JSON array: host, pages, priority and since), crawls (ids of running
--   crawls)
-- locks: nothing
-- why: the index is read as far as pages may be leased, and from each host's most urgent page on:
--   earlier entries are leased, or dead rows until a vacuum. The condition `IS TRUE` and the array
--   of leased pages apply to each page that is read; no plan can begin there. Suspects (two losses
--   or more, as in the index `pages_suspect_idx`) are leased separately.
WITH may AS (
    SELECT * FROM jsonb_to_recordset(CAST(:hosts AS jsonb))
      AS m(host text, pages int, priority int, since timestamptz)
)
SELECT may.host, due.priorities, due.ids, due.products
  FROM may CROSS JOIN LATERAL (
        SELECT array_agg(priority) AS priorities, array_agg(id) AS ids,
               array_agg(kind = 'product') AS products FROM (
            (SELECT priority, id, kind FROM pages
              WHERE status = 'due' AND queue = :queue AND host = may.host AND not_before <= now()
                AND losses < 2 AND (crawl_id IN (SELECT unnest(CAST(:crawls AS bigint[])))) IS TRUE
                AND id NOT IN (SELECT unnest(ARRAY(SELECT unnest(page_ids) FROM leases)))
                AND priority = may.priority AND not_before >= may.since
              ORDER BY not_before LIMIT may.pages)
            UNION ALL
            (SELECT priority, id, kind FROM pages
              WHERE status = 'due' AND queue = :queue AND host = may.host AND not_before <= now()
                AND losses < 2 AND (crawl_id IN (SELECT unnest(CAST(:crawls AS bigint[])))) IS TRUE
                AND id NOT IN (SELECT unnest(ARRAY(SELECT unnest(page_ids) FROM leases)))
                AND priority < may.priority
              ORDER BY priority DESC, not_before LIMIT may.pages)
            LIMIT may.pages) most_urgent) due
 WHERE due.ids IS NOT NULL
