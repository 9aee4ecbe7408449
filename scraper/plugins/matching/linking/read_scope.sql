-- name: read_scope
-- Returns the offers whose articles may change with some offers: those with one of their codes, and
-- all offers of the articles of both.
-- parameters: ids (of the offers), gtins, mpns (their codes, and those they had before), most (offers
--   per code)
-- locks: nothing
-- why: of a code that a shop gives to thousands of products, the first few suffice to see that it
--   identifies none of them.
WITH same_code AS (
    SELECT article_id FROM offers WHERE id = ANY (:ids)
    UNION
    SELECT o.article_id FROM unnest(CAST(:gtins AS text[])) AS code(gtin)
     CROSS JOIN LATERAL (SELECT article_id FROM offers s WHERE s.gtin = code.gtin
                          ORDER BY s.id LIMIT :most) o
    UNION
    SELECT o.article_id FROM unnest(CAST(:mpns AS text[])) AS code(mpn)
     CROSS JOIN LATERAL (SELECT article_id FROM offers s WHERE s.mpn = code.mpn
                          ORDER BY s.id LIMIT :most) o
)
SELECT o.id, o.site, o.external_id, o.url, o.title, o.gtin, o.brand, o.mpn, o.attributes, o.words,
       o.price, o.currency, o.unit_price, o.unit, o.in_stock, o.listed, o.article_id
  FROM offers o WHERE o.article_id IN (SELECT article_id FROM same_code)
