-- name: claim_price_alerts
-- Claims the due alerts of one rule that the same recipients have received already: one message.
-- parameters: most (alerts per message)
-- locks: the claimed rows, skipping rows that another coordinator has locked
-- why: `not_before` moves on at once, so that a coordinator that dies leaves the alerts to a later
--   tick. A crawl may be rejected between the dropping and the sending of a tick. The first one is
--   looked for once, not for each alert.
WITH first AS MATERIALIZED (
    SELECT rule, delivered FROM price_alerts a
     WHERE a.done_at IS NULL AND a.not_before <= now()
       AND NOT EXISTS (SELECT FROM crawls c WHERE c.id = a.crawl_id
                                              AND c.reasons @> '[{"what": "rejected"}]')
     ORDER BY not_before, id LIMIT 1
), claimed AS (
    SELECT a.id FROM price_alerts a JOIN first USING (rule, delivered)
     WHERE a.done_at IS NULL AND a.not_before <= now()
       AND NOT EXISTS (SELECT FROM crawls c WHERE c.id = a.crawl_id
                                              AND c.reasons @> '[{"what": "rejected"}]')
     ORDER BY a.not_before, a.id LIMIT :most FOR UPDATE OF a SKIP LOCKED
)
UPDATE price_alerts a
   SET attempts = attempts + 1,
       not_before = now() + least(60 * power(2, attempts), 3600) * interval '1 second'
 WHERE a.id = ANY (ARRAY(SELECT id FROM claimed)) RETURNING a.id, a.rule, a.details, a.details::text AS exact, a.delivered, a.attempts
