-- name: insert_price_alerts
-- Stores one alert for each rule and change that match.
-- parameters: rows (JSON array of rule, change_id, crawl_id, details, every_s)
-- locks: only the new rows; the caller holds the advisory lock of price alerts
-- why: an alert that is stored already stays as it is. A digest is due at the next whole multiple of
--   its interval.
INSERT INTO price_alerts (rule, change_id, crawl_id, details, not_before)
SELECT i.rule, i.change_id, i.crawl_id, i.details,
       CASE WHEN i.every_s = 0 THEN now()
            ELSE to_timestamp(ceil(EXTRACT(EPOCH FROM now()) / i.every_s) * i.every_s) END
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(rule text, change_id bigint, crawl_id bigint, details jsonb, every_s float)
ON CONFLICT (rule, change_id) DO NOTHING
