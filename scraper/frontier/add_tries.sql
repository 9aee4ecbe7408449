-- name: add_tries
-- Adds tries of pages to the sums over time (`throughput`) and by host (`crawl_hosts`).
-- parameters: rows (JSON array of `throughput.TrySums`), worker
-- locks: the rows it adds to, in the order of their keys; only the reaper wants them too, for a
--   worker that is hours late
-- why: buckets last 10 s (`throughput.BUCKET_S`)
WITH i AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
      AS i(crawl_id bigint, queue text, host text, proxy text, outcome text, tries int, done int,
           failures int, seconds float8, slowest_s float8, bytes bigint)
), by_host AS (
    INSERT INTO crawl_hosts AS h (crawl_id, host, worker, tries, failures, seconds, slowest_s,
                                  bytes)
    SELECT crawl_id, host, :worker, sum(tries), sum(failures), sum(seconds), max(slowest_s),
           sum(bytes)
      FROM i GROUP BY crawl_id, host ORDER BY crawl_id, host
    ON CONFLICT (crawl_id, host, worker) DO UPDATE
       SET tries = h.tries + excluded.tries, failures = h.failures + excluded.failures,
           seconds = h.seconds + excluded.seconds,
           slowest_s = greatest(h.slowest_s, excluded.slowest_s),
           bytes = h.bytes + excluded.bytes
)
INSERT INTO throughput AS t (crawl_id, at, step_s, worker, queue, proxy, outcome, tries, done,
                             seconds, bytes)
SELECT crawl_id, date_bin('10 s', now(), 'epoch'), 10, :worker, queue, proxy,
       outcome,
       sum(tries), sum(done), sum(seconds), sum(bytes)
  FROM i GROUP BY crawl_id, queue, proxy, outcome ORDER BY crawl_id, queue, proxy, outcome
ON CONFLICT (crawl_id, at, step_s, worker, queue, proxy, outcome) DO UPDATE
   SET tries = t.tries + excluded.tries, done = t.done + excluded.done,
       seconds = t.seconds + excluded.seconds,
       bytes = t.bytes + excluded.bytes
