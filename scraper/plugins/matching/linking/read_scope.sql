-- name: read_scope
-- Returns the offers whose articles may change with some offers: those with one of their codes, and
-- all offers of the articles of both.
-- parameters: ids (of the offers), gtins, mpns (codes that they had before), most (offers per code)
-- locks: nothing
-- why: of a code that a shop gives to thousands of products, the first few suffice to see that it
--   identifies none of them.
WITH asked AS (
    SELECT article_id, gtin, mpn FROM offers WHERE id = ANY (:ids)
), same_code AS (
    SELECT article_id FROM asked
    UNION
    SELECT o.article_id FROM (SELECT unnest(CAST(:gtins AS text[])) UNION SELECT gtin FROM asked) AS code(gtin)
     CROSS JOIN LATERAL (SELECT article_id FROM offers s WHERE s.gtin = code.gtin
                          ORDER BY s.id LIMIT :most) o
    UNION
    SELECT o.article_id FROM (SELECT unnest(CAST(:mpns AS text[])) UNION SELECT mpn FROM asked) AS code(mpn)
     CROSS JOIN LATERAL (SELECT article_id FROM offers s WHERE s.mpn = code.mpn
                          ORDER BY s.id LIMIT :most) o
)
SELECT
-- include: plugins/matching/linking/offer_columns.sql
  FROM offers o WHERE o.article_id IN (SELECT article_id FROM same_code)
