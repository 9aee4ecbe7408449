-- name: proposed_links
-- Returns proposals, the most confident first, with both offers.
-- parameters: confidence, left, right (of the last one shown; null: none), most
-- locks: nothing
-- why: a proposal between offers that have become one article is not shown.
SELECT l.left_id, l.right_id, l.confidence, l.evidence,
       a.site AS left_site, a.external_id AS left_external_id, a.title AS left_title,
       a.price AS left_price, a.currency AS left_currency, a.url AS left_url,
       b.site AS right_site, b.external_id AS right_external_id, b.title AS right_title,
       b.price AS right_price, b.currency AS right_currency, b.url AS right_url
  FROM offer_links l
  JOIN offers a ON a.id = l.left_id
  JOIN offers b ON b.id = l.right_id
 WHERE l.state = 'proposed' AND a.article_id <> b.article_id AND a.listed AND b.listed
   AND (CAST(:confidence AS float) IS NULL
        OR (l.confidence, l.left_id, l.right_id) < (:confidence, :left, :right))
 ORDER BY l.confidence DESC, l.left_id DESC, l.right_id DESC LIMIT :most
