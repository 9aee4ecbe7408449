-- The newest alerts of both kinds. Each branch reads its own key backwards.
WITH of_crawls AS (
    SELECT a.created_at AS at, s.name AS what, 'crawl ' || a.crawl_id AS text, a.crawl_id AS crawl,
           a.attempts, a.delivered, a.done_at, a.error
      FROM alerts a JOIN crawls c ON c.id = a.crawl_id JOIN sites s ON s.id = c.site_id
     ORDER BY a.crawl_id DESC LIMIT :most
), of_prices AS (
    SELECT created_at AS at, rule AS what, details ->> 'text' AS text, CAST(NULL AS bigint) AS crawl,
           attempts, delivered, done_at, error
      FROM price_alerts ORDER BY id DESC LIMIT :most
)
SELECT * FROM of_crawls UNION ALL SELECT * FROM of_prices ORDER BY at DESC LIMIT :most
