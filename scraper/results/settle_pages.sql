-- name: settle_pages
-- The fence: stores the verdicts of pages that are still in their lease, and returns those pages.
-- parameters: rows (JSON array, see `transaction._fence_row`)
-- locks: the leases in the order of their ids, then the pages
-- why: pages are taken out of their leases, and a lease without pages ends. A page whose lease was
--   lost, or that another crawl has taken up since, matches no row; everything that follows in the
--   transaction is for the returned pages alone. A page that gives what it gave before becomes
--   `unchanged`, whether the server said so (304), its bytes, or its content. A page that was tried
--   without success loses its `extractor_hash`, so that the next request carries no validators.
--   `CASE p.status WHEN 'due' …` keeps the planner off the index of due pages (see
--   frontier/due.py).
WITH s AS (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
      AS s(id bigint, lease uuid, crawl bigint, status text, delay float8, charged int,
           host_charged int, outcome text, tried bool, code int, error text, excerpt text, head
           jsonb, hash uuid, queue text, level text, blocked int, probe bool, etag text, modified
           text, body_hash bigint, extractor_hash bigint, if_changed_s int, if_unchanged_s int,
           last_item_count int)
), mine AS MATERIALIZED (
    SELECT id, page_ids FROM leases WHERE id = ANY (ARRAY(SELECT lease FROM s)) ORDER BY id
     FOR UPDATE
), rest AS MATERIALIZED (
    SELECT id, ARRAY(SELECT CASE WHEN (mine.id, page_id) IN (SELECT s.lease, s.id FROM s) THEN 0
                                 ELSE page_id END
                       FROM unnest(page_ids) AS u(page_id)) AS page_ids FROM mine
), reduced AS (
    UPDATE leases l SET page_ids = rest.page_ids FROM rest
     WHERE l.id = rest.id AND 0 <> ANY (rest.page_ids)
), ended AS (
    DELETE FROM leases l USING rest WHERE l.id = rest.id AND 0 = ALL (rest.page_ids)
), held AS MATERIALIZED (
    SELECT mine.id AS lease, u.page_id FROM mine CROSS JOIN LATERAL unnest(mine.page_ids)
     AS u(page_id)
)
UPDATE pages p
   SET status = CASE WHEN s.status = 'ok' AND p.content_hash = s.hash THEN 'unchanged'
                     ELSE s.status END,
       queue = coalesce(s.queue, p.queue),
       level = CASE WHEN s.queue IS NULL THEN p.level ELSE s.level END,
       blocked = coalesce(s.blocked, p.blocked), probe = coalesce(s.probe, p.probe),
       attempts = p.attempts + s.charged, host_attempts = p.host_attempts + s.host_charged,
       losses = CASE WHEN s.status = 'due' AND NOT s.tried THEN p.losses ELSE 0 END,
       not_before = CASE WHEN s.status = 'due' THEN now() + s.delay * interval '1 second'
                         ELSE p.not_before END,
       last_outcome = CASE WHEN s.outcome = 'deferred' THEN coalesce(p.last_outcome, s.outcome)
                           ELSE s.outcome END,
       http_status = CASE WHEN s.outcome = 'deferred' THEN p.http_status ELSE s.code END,
       error = CASE WHEN s.outcome = 'deferred' THEN p.error ELSE s.error END,
       excerpt = CASE WHEN s.outcome = 'deferred' THEN p.excerpt ELSE s.excerpt END,
       response_head = CASE WHEN s.outcome = 'deferred' THEN p.response_head ELSE s.head END,
       content_hash = CASE WHEN s.status = 'ok' THEN s.hash ELSE p.content_hash END,
       fetched_at = CASE WHEN s.status IN ('ok', 'unchanged') THEN now() ELSE p.fetched_at END,
       read_at = CASE WHEN s.status = 'ok' THEN now() ELSE p.read_at END,
       etag = CASE WHEN s.status = 'ok' OR s.extractor_hash IS NOT NULL THEN s.etag
                   ELSE p.etag END,
       last_modified = CASE WHEN s.status = 'ok' OR s.extractor_hash IS NOT NULL THEN s.modified
                            ELSE p.last_modified END,
       body_hash = CASE WHEN s.status = 'ok' OR s.extractor_hash IS NOT NULL THEN s.body_hash
                        ELSE p.body_hash END,
       extractor_hash = CASE WHEN s.status = 'ok' THEN s.extractor_hash
                             WHEN s.tried AND s.status <> 'unchanged' THEN NULL
                             ELSE p.extractor_hash END,
       revisit_s = CASE WHEN s.status = 'unchanged' OR (s.status = 'ok' AND p.content_hash = s.hash)
                        THEN s.if_unchanged_s
                        WHEN s.status = 'ok' THEN s.if_changed_s ELSE p.revisit_s END,
       last_item_count = CASE WHEN s.status = 'due' THEN p.last_item_count
                              ELSE coalesce(s.last_item_count, p.last_item_count) END,
       doubted_hash = CASE s.outcome WHEN 'doubtful' THEN s.hash
                                     WHEN 'deferred' THEN p.doubted_hash END,
       settled_at = now()
  FROM s JOIN held ON held.page_id = s.id AND held.lease = s.lease
 WHERE p.id = s.id AND p.crawl_id = s.crawl
   AND CASE p.status WHEN 'due' THEN true ELSE false END
RETURNING p.id, s.lease, p.crawl_id, p.kind, p.status
