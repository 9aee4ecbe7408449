-- name: articles
-- Returns articles, those that most shops offer first, each with its offers.
-- parameters: words (patterns that a title must match, all of them; null: all articles), code (a
--   normalised GTIN or part number that suffices instead), ids (null: all), shops (the least number),
--   most
-- locks: nothing
-- why: offers that are not listed now count only for the number of the article.
WITH chosen AS (
    SELECT DISTINCT article_id FROM offers
     WHERE (CAST(:words AS text[]) IS NULL OR title ILIKE ALL (CAST(:words AS text[]))
            OR gtin = :code OR mpn = :code)
       AND (CAST(:ids AS bigint[]) IS NULL OR article_id = ANY (:ids))
), counted AS (
    SELECT o.article_id, count(DISTINCT o.site) AS shops
      FROM offers o JOIN chosen USING (article_id)
     WHERE o.listed GROUP BY o.article_id HAVING count(DISTINCT o.site) >= :shops
     ORDER BY shops DESC, o.article_id LIMIT :most
)
SELECT
-- include: plugins/matching/linking/offer_columns.sql
  FROM offers o JOIN counted c USING (article_id)
 ORDER BY c.shops DESC, o.article_id, o.listed DESC, o.in_stock IS FALSE, o.price NULLS LAST, o.site
