-- name: switched_fields
-- Returns which fields vanished, and for how many products together with a switch: a field of type
--   bool that changes, one that says sold out already, or a price that a sale's end brings back.
-- parameters: id (the crawl), switches, stocks, prices (names of fields)
-- locks: nothing
SELECT h.field, count(*) AS vanished, count(s.field) AS switched, min(s.field) AS switch
  FROM held_values h JOIN products p ON p.id = h.product_id
  LEFT JOIN LATERAL (
       SELECT field FROM (
           SELECT field FROM held_values s
            WHERE s.product_id = h.product_id AND s.crawl_id = :id AND s.difference = 'changed'
              AND s.field = ANY (:switches)
           UNION ALL
           (
           -- include: results/judgement/sold_out.sql
           )
           UNION ALL
           SELECT (CAST(:prices AS text[]))[1] WHERE (
           -- include: results/judgement/sale_ended.sql
           )) AS of_product LIMIT 1) s ON true
 WHERE h.crawl_id = :id AND h.difference = 'vanished' GROUP BY h.field
