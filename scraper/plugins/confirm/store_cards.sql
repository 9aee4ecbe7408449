-- name: store_cards
-- Notes what the cards of a listing say of prices that are in doubt.
-- parameters: site_id, crawl_id, fields (names of prices), rows (JSON array: the fingerprint of a
--   product's URL, and its card's prices)
-- locks: the held values
-- why: a card with neither the new price nor the stored one says nothing: a shop may list prices
--   without tax. One listing with the new price suffices: another one may be out of a cache.
UPDATE held_values h
   SET card = coalesce(h.card, false) OR CAST(h.value ->> h.field AS numeric) = ANY (c.prices)
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS c(fingerprint uuid, prices numeric[])
  JOIN pages pg ON pg.site_id = :site_id AND pg.fingerprint = c.fingerprint
  JOIN products p ON p.page_id = pg.id
 WHERE h.product_id = p.id AND h.crawl_id = :crawl_id AND h.field = ANY (:fields)
   AND h.difference = 'changed' AND jsonb_typeof(h.value -> h.field) = 'number'
   AND (CAST(h.value ->> h.field AS numeric) = ANY (c.prices)
        OR CASE WHEN jsonb_typeof(p.data -> h.field) = 'number'
                THEN CAST(p.data ->> h.field AS numeric) = ANY (c.prices) END)
