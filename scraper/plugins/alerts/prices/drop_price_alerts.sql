-- name: drop_price_alerts
-- Drops due alerts of rejected crawls, and old ones while no recipient is configured.
-- parameters: unread (no recipient is configured), oldest (an interval), expired, rejected (texts)
-- locks: the rows that it updates
-- why: a recipient that is added later does not receive old alerts.
UPDATE price_alerts a
   SET done_at = now(),
       error = CASE WHEN c.id IS NULL THEN coalesce(a.error, :expired) ELSE :rejected END
  FROM price_alerts o
  LEFT JOIN crawls c ON c.id = o.crawl_id AND c.reasons @> '[{"what": "rejected"}]'
 WHERE o.id = a.id AND a.done_at IS NULL AND a.not_before <= now()
   AND (c.id IS NOT NULL OR :unread AND a.not_before < now() - CAST(:oldest AS interval))
