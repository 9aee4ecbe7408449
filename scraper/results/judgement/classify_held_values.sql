-- name: classify_held_values
-- Marks single held values that are implausible with a reason (`plausibility.REASONS`).
-- parameters: id (the crawl), fields, prices, own, lasting, switches, stocks, agreeing (names of
--   fields, see `FieldRoles`), compared (how many products were known before), misread (a pattern),
--   and the thresholds of `plausibility`: lacking, otherwise, leap, shared_min, shared,
--   vanished_max, explained
-- locks: the held values that it marks
-- why: only values that no earlier crawl has read are classified. The counts are of one page, or of
--   one value of one field. Products that shared a value before count as one among those that share
--   another one now, and a product that shows its earlier price as the former one does not count: a
--   shop may sell many for one price. Nor does the stock 0 of a product that has sold out, or one
--   price that the cards of listings show as well, in at most half of the shop. A price that leaps
--   is believed if its page says it twice in the crawl, and shows the earlier price as the former
--   one, or the product's card shows the new one, unless the decimal point moved. A sold-out
--   product may hide its price, which is believed if nearly all products that a field vanished from
--   are sold out. Whatever else changes on a product with a vanished value waits with it, so that
--   the product never has a state that it did not have at the shop, unless the field vanished from
--   so large a share of the products that it is broken. The table is empty between crawls, and
--   PostgreSQL may expect one row in it: it would read all of `implausible` for each row. `IN (…)
--   IS TRUE` is never made a join: a row is looked up by its hash.
WITH fresh AS MATERIALIZED (
    SELECT h.product_id, h.field, h.difference, h.value, h.contradicted, h.confirmed, h.card,
           p.data,
           CASE WHEN h.field = ANY (:prices) AND h.difference = 'changed'
                 AND jsonb_typeof(p.data -> h.field) = 'number'
                THEN CAST(p.data ->> h.field AS numeric) END AS before,
           CASE WHEN h.field = ANY (:prices) AND jsonb_typeof(h.value -> h.field) = 'number'
                THEN CAST(h.value ->> h.field AS numeric) END AS after,
           p.data ->> h.field AS text_before, h.value ->> h.field AS text,
           p.data ->> (h.field || '_currency') AS currency_before,
           h.value ->> (h.field || '_currency') AS currency,
           count(*) FILTER (WHERE h.difference = 'vanished') OVER of_page AS vanished,
           count(*) FILTER (WHERE h.difference <> 'appeared') OVER of_page AS different,
           count(*) FILTER (WHERE h.difference = 'changed' AND h.field = ANY (:switches)
                              AND h.value ->> h.field = 'false') OVER of_page AS switched,
           (
           -- include: results/judgement/sale_ended.sql
           ) AS sale_ended,
           EXISTS (
           -- include: results/judgement/sold_out.sql
           ) AS sold_out,
           EXISTS (
               SELECT FROM held_values o
                WHERE o.product_id = h.product_id AND o.crawl_id = :id AND o.field <> h.field
                  AND o.field = ANY (:prices) AND h.field = ANY (:prices)
                  AND o.value -> o.field = p.data -> h.field) AS reduced,
           count(*) OVER (PARTITION BY h.field) AS of_field,
           count(*) FILTER (WHERE h.difference = 'vanished') OVER (PARTITION BY h.field) AS lost,
           count(*) OVER of_value AS sharing, count(*) FILTER (WHERE h.card) OVER of_value AS shown,
           count(*) FILTER (WHERE NOT h.card) OVER of_value AS denied,
           count(*) OVER (PARTITION BY h.field, jsonb_hash_extended(h.value, 0),
                                       jsonb_hash_extended(p.data -> h.field, 0)) AS as_before
      FROM held_values h JOIN products p ON p.id = h.product_id
     WHERE h.crawl_id = :id AND h.since_crawl_id = :id AND h.field = ANY (:fields)
    WINDOW of_page AS (PARTITION BY h.product_id),
           of_value AS (PARTITION BY h.field, jsonb_hash_extended(h.value, 0))
), counted AS (
    SELECT fresh.*, sold_out AND count(*) FILTER (WHERE difference = 'vanished' AND sold_out)
               OVER (PARTITION BY field) >= CAST(:explained AS numeric) * lost AS hidden,
           CASE WHEN different >= 2 THEN (
               SELECT count(*) FROM jsonb_each_text(data) AS e
                WHERE e.value <> '' AND right(e.key, 9) <> '_currency') END AS fields
      FROM fresh
), judged AS (
    SELECT product_id, field, lost, CASE
           WHEN vanished >= 2 AND vanished >= CAST(:lacking AS numeric) * fields THEN 'lacking'
           WHEN different >= 3 AND different >= CAST(:otherwise AS numeric) * fields
                THEN 'other'
           WHEN before IS NOT NULL AND currency_before IS DISTINCT FROM currency
                AND currency_before IS NOT NULL THEN 'currency'
           WHEN before > 0 AND after <= 0 THEN 'zero'
           WHEN before > 0 AND (after >= before * CAST(:leap AS numeric)
                                OR after <= before / CAST(:leap AS numeric))
            AND NOT (confirmed AND NOT contradicted
                     AND (reduced AND after < before
                          OR card IS TRUE AND after NOT IN (10 * before, 100 * before, 1000 * before)
                              AND before NOT IN (10 * after, 100 * after, 1000 * after)))
                THEN 'leap'
           WHEN difference = 'changed' AND text ~ :misread AND NOT text_before ~ :misread
                THEN 'encoding'
           WHEN difference = 'changed' AND field = ANY (:own)
                AND NOT (reduced OR switched > 0 AND text = '0') AND sharing - as_before + 1 >= :shared_min
                AND sharing >= CAST(:shared AS numeric) * of_field
                AND NOT (shown >= 3 AND 20 * denied <= shown AND 2 * sharing <= :compared)
                THEN 'shared'
           WHEN difference = 'changed' AND contradicted AND field = ANY (:agreeing)
                THEN 'contradicted'
           WHEN difference = 'vanished' AND switched = 0 AND NOT (sale_ended OR hidden)
                AND field = ANY (:lasting)
                THEN 'vanished' END AS reason
      FROM counted
), whole AS (
    SELECT product_id, field, coalesce(reason, CASE
           WHEN bool_or(reason = 'vanished'
                        AND lost <= greatest(2, CAST(:vanished_max AS numeric) * :compared))
                OVER (PARTITION BY product_id) THEN 'vanished' END) AS reason
      FROM judged
), implausible AS MATERIALIZED (
    SELECT product_id, field, reason FROM whole WHERE reason IS NOT NULL
), found AS MATERIALIZED (
    SELECT DISTINCT reason FROM implausible
)
UPDATE held_values h SET reason = found.reason FROM found
 WHERE h.crawl_id = :id AND h.since_crawl_id = :id
   AND ((h.product_id, h.field, found.reason)
        IN (SELECT product_id, field, reason FROM implausible)) IS TRUE
