-- name: coarsen_throughput
-- Moves old buckets of `step` seconds into buckets of `coarser` seconds.
-- parameters: step, coarser, after (seconds), rows (the maximum of one call)
-- locks: the old rows, except those that another transaction has locked
-- why: it takes whole buckets of the coarser step, so that each is made once; what comes too late
--   is added to it.
WITH old AS (
    DELETE FROM throughput t USING (
        SELECT ctid FROM throughput
         WHERE step_s = :step
           AND at < date_bin(make_interval(secs => :coarser), now() - make_interval(secs => :after),
                             'epoch')
         LIMIT :rows FOR UPDATE SKIP LOCKED) picked
     WHERE t.ctid = picked.ctid RETURNING t.*
)
INSERT INTO throughput AS t (crawl_id, at, step_s, worker, queue, proxy, outcome, tries, done,
                             seconds, bytes)
SELECT crawl_id, date_bin(make_interval(secs => :coarser), at, 'epoch') AS bin, :coarser, worker,
       queue, proxy, outcome,
       sum(tries), sum(done), sum(seconds), sum(bytes)
  FROM old GROUP BY crawl_id, bin, worker, queue, proxy, outcome
ON CONFLICT (crawl_id, at, step_s, worker, queue, proxy, outcome) DO UPDATE
   SET tries = t.tries + excluded.tries, done = t.done + excluded.done,
       seconds = t.seconds + excluded.seconds,
       bytes = t.bytes + excluded.bytes
