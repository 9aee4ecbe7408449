-- name: drop_price_alerts
-- Drops due alerts of rejected crawls, and old ones while no recipient is configured.
-- parameters: unread (no recipient is configured), oldest (an interval), expired, rejected (texts)
-- locks: the rows that it updates
-- why: a recipient that is added later does not receive old alerts. The table is often empty, and
--   PostgreSQL would join thousands of new alerts with themselves one by one.
UPDATE price_alerts a
   SET done_at = now(),
       error = CASE WHEN EXISTS (SELECT FROM crawls c WHERE c.id = a.crawl_id
                                    AND c.reasons @> '[{"what": "rejected"}]')
               THEN :rejected ELSE coalesce(a.error, :expired) END
 WHERE a.done_at IS NULL AND a.not_before <= now()
   AND (:unread AND a.not_before < now() - CAST(:oldest AS interval)
        OR EXISTS (SELECT FROM crawls c WHERE c.id = a.crawl_id
                                          AND c.reasons @> '[{"what": "rejected"}]'))
